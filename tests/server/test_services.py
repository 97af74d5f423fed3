"""Who runs at the moment, waiting until nobody does, and by what a slot that drains comes back."""

import asyncio
import math
from collections.abc import Callable

import pytest
from virtual_loop import turns

from llmgate.admission.place import LocalPlace
from llmgate.core.caller import Caller
from llmgate.core.events import Limits
from llmgate.core.gate import Gate
from llmgate.errors import GateError
from llmgate.server.services import Running
from tests.server.house import UPSTREAM, Guests, House, services_for
from tests.server.stage import pass_time, play


class Runner:
    id = ""

    def stop(self, error: GateError) -> None:
        raise NotImplementedError


async def test_who_runs() -> None:
    running, one, two = Running(), Runner(), Runner()
    assert (len(running), list(running)) == (0, [])
    running.add(one)
    running.add(two)
    running.add(one)
    assert (len(running), set(running)) == (2, {one, two})
    running.discard(one)
    running.discard(one)
    assert list(running) == [two]


async def test_one_may_end_while_they_are_looked_at() -> None:
    running = Running()
    for _ in range(3):
        running.add(Runner())
    for runner in running:
        running.discard(runner)
    assert len(running) == 0


async def test_waiting_until_nobody_runs() -> None:
    running, one, two = Running(), Runner(), Runner()
    await running.wait_empty()
    running.add(one)
    waiting = [asyncio.ensure_future(running.wait_empty()) for _ in range(2)]
    await turns()
    running.add(two)
    running.discard(one)
    await turns()
    assert not any(task.done() for task in waiting)
    running.discard(two)
    await asyncio.gather(*waiting)


async def test_a_newcomer_in_the_same_turn_is_waited_for_too() -> None:
    running, one, two = Running(), Runner(), Runner()
    running.add(one)
    waiting = asyncio.ensure_future(running.wait_empty())
    await turns()
    running.discard(one)
    running.add(two)
    await turns()
    assert not waiting.done()
    running.discard(two)
    await waiting


async def test_services_begin_with_nobody(house: House) -> None:
    services = house.services
    assert (len(services.running), services.draining) == (0, False)
    assert set(services.upstreams) == {UPSTREAM}


# ---- draining


class FakeWatch:
    """Keeps what it is to give back."""

    def __init__(self, *, is_source: bool) -> None:
        self.is_source = is_source
        self.followed: list[tuple[Callable[[], None], float, bool]] = []
        self.knocked: list[Callable[[], None]] = []
        self.has_strangers = True
        self.waits: list[float] = []

    async def wait_for_room(self, seconds: float) -> None:
        self.waits.append(seconds)

    def follow(self, release: Callable[[], None], seconds: float, *, had_head: bool) -> None:
        self.followed.append((release, seconds, had_head))

    def knock(self, release: Callable[[], None]) -> None:
        self.knocked.append(release)


async def running(watch: FakeWatch | None) -> tuple[Guests, LocalPlace]:
    """A request that runs at a server with this watch."""
    guests = Guests()
    guests.services = services_for("http://upstream.invalid", guests.on_event, guests.ledger)
    if watch is not None:
        guests.services.slot_watches = {UPSTREAM: watch}  # type: ignore[dict-item]
    place = guests.services.admission.enter(UPSTREAM, Caller(id="a"))
    return guests, await place.__aenter__()


def test_without_a_watch_it_drains_by_time() -> None:
    async def main() -> None:
        guests, place = await running(None)
        guests.services.drain(place, "client_gone", 2.0)
        assert (guests.taken, guests.outcomes) == ((0, 0, 1), ["client_gone"])
        await pass_time(1.9)
        assert guests.taken == (0, 0, 1)
        await pass_time(0.2)
        guests.check_empty()

    play(main())


def test_without_a_watch_one_that_was_broken_off_is_over() -> None:
    async def main() -> None:
        guests, place = await running(None)
        guests.services.drain(place, "upstream_error", 2.0, lost=True)
        assert guests.outcomes == ["upstream_error"]
        guests.check_empty()

    play(main())


@pytest.mark.parametrize("lost", [False, True])
def test_where_the_server_tells_its_slots_only_that_counts(lost: bool) -> None:
    """Past `release_timeout` it alarms, and gives nothing back."""

    async def main() -> None:
        watch = FakeWatch(is_source=True)
        guests, place = await running(watch)
        guests.services.drain(place, "client_gone", 2.0, lost=lost, had_head=not lost)
        await pass_time(600)
        assert (guests.taken, guests.outcomes, watch.knocked) == ((0, 0, 1), ["client_gone"], [])
        ((release, seconds, had_head),) = watch.followed
        assert (seconds, had_head) == (2.0, not lost)
        release()
        assert guests.outcomes == ["client_gone"]
        guests.check_empty()
        release()
        guests.check_empty()

    play(main())


def test_where_a_reload_gave_its_server_to_another_upstream_that_servers_slots_count() -> None:
    async def main() -> None:
        watch = FakeWatch(is_source=True)
        guests, place = await running(None)
        services, account = guests.services, place.account
        assert account is not None
        services.admission.add(Gate("b", Limits(1), accounts={"b": account}))
        services.admission.set_endpoints(UPSTREAM, {"other": 1}, kept={}, holds=True)
        services.slot_watches = {"other": FakeWatch(is_source=True), "b": watch}  # type: ignore[dict-item]
        services.drain(place, "client_gone", 2.0)
        await pass_time(600)
        assert guests.taken == (0, 0, 1)
        ((release, _, _),) = watch.followed
        release()
        guests.check_empty()

    play(main())


def test_where_nobody_has_its_server_any_more_it_drains_by_time() -> None:
    async def main() -> None:
        guests, place = await running(None)
        guests.services.admission.set_endpoints(UPSTREAM, {"other": 1}, kept={}, holds=True)
        guests.services.slot_watches = {"other": FakeWatch(is_source=True)}  # type: ignore[dict-item]
        guests.services.drain(place, "client_gone", 2.0)
        await pass_time(2.1)
        guests.check_empty()

    play(main())


def test_for_room_at_the_server_it_waits_no_longer_than_it_may_wait() -> None:
    async def main() -> None:
        watch = FakeWatch(is_source=True)
        guests, place = await running(watch)
        admission = guests.services.admission
        await guests.services.wait_for_room(place)
        place.leave("completed")
        brief = await admission.enter(UPSTREAM, Caller(id="b"), max_wait=3.0).__aenter__()
        await pass_time(2)
        await guests.services.wait_for_room(brief)
        assert watch.waits == [math.inf, pytest.approx(1.0)]
        brief.leave("completed")

    play(main())


@pytest.mark.parametrize("knocks", [False, True])
@pytest.mark.parametrize("lost", [False, True])
def test_where_it_tells_nothing_it_drains_by_time_or_until_it_is_known_to_be_there(lost: bool, knocks: bool) -> None:
    async def main() -> None:
        watch = FakeWatch(is_source=False)
        guests, place = await running(watch)
        guests.services.drain(place, "upstream_error", 2.0, lost=lost)
        assert (guests.taken, watch.followed, len(watch.knocked)) == ((0, 0, 1), [], lost)
        if lost and knocks:
            watch.knocked[0]()
        else:
            await pass_time(2.1)
        assert guests.outcomes == ["upstream_error"]
        guests.check_empty()

    play(main())


async def test_one_is_found_by_its_request() -> None:
    running, one, two = Running(), Runner(), Runner()
    one.id, two.id = "one", "two"
    assert running.find("one") is None
    running.add(one)
    running.add(two)
    assert running.find("two") is two
    assert running.find("three") is None
