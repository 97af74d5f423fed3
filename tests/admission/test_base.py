"""What every admission must do, whatever keeps its queue. A new one joins `ADMISSIONS` and has to pass all of this."""

import asyncio
from collections.abc import Callable, Mapping

import pytest
from puppet import LIVENESS_SECONDS, turn

from llmgate.admission.base import NO_CONNECTION, Admission, Place
from llmgate.admission.local import LocalAdmission
from llmgate.core.caller import Caller
from llmgate.core.events import Abandoned, Dismissed, Event, Limits, Released
from llmgate.core.gate import Gate
from llmgate.errors import EXPLAINED, Cancelled, ClientStalled, QueueFull, QueueTimeout, Refused, UpstreamDown

Open = Callable[..., Admission]


def open_local(
    limits: Mapping[str, Limits], listener: Callable[[Event], None], endpoints: Mapping[str, int] | None, *, holds: bool
) -> Admission:
    return LocalAdmission([Gate(name, limit, endpoints, holds=holds) for name, limit in limits.items()], listener)


ADMISSIONS = [pytest.param(open_local, id="local")]


@pytest.fixture(params=ADMISSIONS)
def admission(request: pytest.FixtureRequest, events: list[Event]) -> Open:
    """Makes an admission of the upstream "u" (and, as it is told, of others)."""

    def make(
        max_concurrent: int = 1,
        *,
        others: tuple[str, ...] = (),
        endpoints: Mapping[str, int] | None = None,
        holds: bool = True,
        **limits: object,
    ) -> Admission:
        wanted = Limits(max_concurrent, **limits)  # type: ignore[arg-type]
        return request.param(dict.fromkeys(("u", *others), wanted), events.append, endpoints, holds=holds)

    return make


@pytest.fixture
def events() -> list[Event]:
    return []


def outcomes(events: list[Event], name: str) -> list[str]:
    """How a request ended, as its events tell."""
    found = [getattr(event, "outcome", None) for event in events if getattr(event, "caller", Caller(id="")).id == name]
    return [outcome for outcome in found if outcome]


async def take(admission: Admission, name: str, upstream: str = "u", max_wait: float | None = None) -> Place:
    return await admission.enter(upstream, Caller(id=name), max_wait=max_wait).__aenter__()


async def has_slot(place: Place) -> bool:
    """Whether it has its slot once everything that is ready has happened."""
    waiting = asyncio.ensure_future(place.wait_admitted())
    await asyncio.sleep(0.02)
    await turn(20)  # a busy machine may take as long as that to do nothing
    if waiting.done():
        await waiting
        return True
    waiting.cancel()
    await asyncio.wait([waiting])
    return False


# ---- a slot, or not


async def test_a_free_slot_is_had_at_once(admission: Open) -> None:
    place = await take(admission(), "a")
    assert (place.queued, place.position(), place.waited) == (False, None, pytest.approx(0, abs=0.01))
    assert [position async for position in place.positions()] == []
    await place.wait_admitted()


async def test_entering_a_full_upstream_does_not_wait(admission: Open) -> None:
    hall = admission()
    await take(hall, "a")
    async with asyncio.timeout(LIVENESS_SECONDS):
        second, third = await take(hall, "b"), await take(hall, "c")
    assert (second.queued, third.queued) == (True, True)
    first_told = await anext(aiter(third.positions()))
    assert (first_told.position, first_told.depth) == (2, 2)
    position = second.position()
    assert position is not None
    assert (position.position, position.depth) == (1, 2)


async def test_a_place_is_taken_by_async_with_only(admission: Open) -> None:
    hall = admission()
    hall.enter("u", Caller(id="a"))
    assert not (await take(hall, "b")).queued


async def test_upstreams_have_nothing_to_do_with_each_other(admission: Open) -> None:
    hall = admission(others=("v",))
    await take(hall, "a", "u")
    assert not (await take(hall, "b", "v")).queued
    assert (await take(hall, "c", "u")).queued


async def test_max_concurrent_0_lets_everybody_through(admission: Open) -> None:
    hall = admission(0, max_queued=0)
    assert [(await take(hall, name)).queued for name in "abcdef"] == [False] * 6


# ---- order


async def test_slots_go_to_those_who_came_first(admission: Open) -> None:
    hall = admission(2)
    order: list[int] = []

    async def ask(number: int) -> None:
        async with hall.enter("u", Caller(id=str(number))) as place:
            await place.wait_admitted()
            order.append(number)
            await asyncio.sleep(0.001 * (number % 3))

    async with asyncio.timeout(LIVENESS_SECONDS), asyncio.TaskGroup() as tasks:
        for number in range(40):
            tasks.create_task(ask(number))
    assert order == list(range(40))


async def test_positions_fall_to_the_slot(admission: Open) -> None:
    hall = admission()
    told: dict[str, list[int]] = {}

    async def ask(name: str) -> None:
        async with hall.enter("u", Caller(id=name)) as place:
            told[name] = [position.position async for position in place.positions()]
            await asyncio.sleep(0.002)

    async with asyncio.timeout(LIVENESS_SECONDS), asyncio.TaskGroup() as tasks:
        for name in "abcd":
            tasks.create_task(ask(name))
    assert told == {"a": [], "b": [1], "c": [2, 1], "d": [3, 2, 1]}


async def test_waited_counts_until_the_slot(admission: Open) -> None:
    hall = admission()
    first, second = await take(hall, "a"), await take(hall, "b")
    await asyncio.sleep(0.01)
    assert second.waited >= 0.009
    first.leave("completed")
    await second.wait_admitted()
    until_slot = second.waited
    await asyncio.sleep(0.005)
    assert second.waited == until_slot


# ---- no room, no time


async def test_beyond_max_queued_there_is_no_room(admission: Open) -> None:
    hall = admission(max_queued=1)
    await take(hall, "a")
    await take(hall, "b")
    with pytest.raises(QueueFull) as caught:
        await take(hall, "c")
    assert (caught.value.depth, caught.value.limit) == (1, 1)


async def test_max_wait_0_is_a_slot_now_or_none(admission: Open, events: list[Event]) -> None:
    hall = admission()
    await take(hall, "a", max_wait=0)
    with pytest.raises(QueueFull):
        await take(hall, "b", max_wait=0)
    assert outcomes(events, "b") == ["queue_full"]


@pytest.mark.parametrize(("limit", "max_wait"), [(0.01, None), (60.0, 0.01), (0.01, 60.0)])
async def test_the_wait_ends_in_time(
    admission: Open, events: list[Event], limit: float, max_wait: float | None
) -> None:
    hall = admission(queue_timeout=limit)
    first, second = await take(hall, "a"), await take(hall, "b", max_wait=max_wait)
    async with asyncio.timeout(LIVENESS_SECONDS):
        with pytest.raises(QueueTimeout):
            await second.wait_admitted()
        with pytest.raises(QueueTimeout):
            [_ async for _ in second.positions()]
    second.leave("abandoned")
    first.leave("completed")
    assert outcomes(events, "b") == ["queue_timeout"]
    assert not (await take(hall, "c")).queued


# ---- giving back

ENDS = [
    (None, "completed"),
    (ClientStalled("it stopped reading"), "client_stalled"),
    (UpstreamDown("nobody there"), "upstream_down"),
    (asyncio.CancelledError(), "client_gone"),
    (ZeroDivisionError(), "upstream_error"),
    (KeyboardInterrupt(), "upstream_error"),
]


@pytest.mark.parametrize(("error", "outcome"), ENDS)
async def test_the_end_of_the_block_gives_the_slot_back(
    admission: Open, events: list[Event], error: BaseException | None, outcome: str
) -> None:
    hall = admission()
    place = hall.enter("u", Caller(id="a"))
    await place.__aenter__()
    waits = await take(hall, "b")
    await place.__aexit__(type(error) if error else None, error, None)
    assert outcomes(events, "a") == [outcome]
    assert await has_slot(waits)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("error", [error for error, _ in ENDS] + [Cancelled("by an operator"), Refused("no")])
async def test_a_reason_is_told_where_the_outcome_asks_for_one(
    admission: Open, events: list[Event], error: BaseException | None, waits: bool
) -> None:
    hall = admission()
    first = await take(hall, "first" if waits else "a")
    place = await take(hall, "a") if waits else first
    await place.__aexit__(type(error) if error else None, error, None)
    (end,) = [event for event in events if isinstance(event, (Abandoned, Dismissed, Released))]
    assert bool(getattr(end, "reason", "")) == (end.outcome in EXPLAINED)


async def test_the_end_of_the_block_gives_up_the_place_in_the_line(admission: Open, events: list[Event]) -> None:
    hall = admission()
    first = await take(hall, "a")

    async def wait() -> None:
        async with hall.enter("u", Caller(id="b")) as place:
            await place.wait_admitted()

    waits = asyncio.get_running_loop().create_task(wait())
    await asyncio.sleep(0)
    third = await take(hall, "c")
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    position = third.position()
    assert position is not None
    assert (position.position, position.depth) == (1, 1)
    first.leave("completed")
    assert await has_slot(third)
    assert outcomes(events, "b") == ["abandoned"]


async def test_a_slot_that_was_handed_over_outlives_the_block(admission: Open, events: list[Event]) -> None:
    hall = admission()
    async with hall.enter("u", Caller(id="a")) as place:
        place.hand_over()
    waits = await take(hall, "b")
    assert not await has_slot(waits)
    assert outcomes(events, "a") == []
    place.leave("upstream_error")
    assert await has_slot(waits)
    assert outcomes(events, "a") == ["upstream_error"]


async def test_giving_back_oftener_gives_back_once(admission: Open, events: list[Event]) -> None:
    hall = admission(2)
    first, _ = await take(hall, "a"), await take(hall, "b")
    third, fourth = await take(hall, "c"), await take(hall, "d")
    first.leave("completed")
    first.leave("client_gone")
    first.drain("cancelled", 1.0)
    assert await has_slot(third)
    assert not await has_slot(fourth)
    assert outcomes(events, "a") == ["completed"]


async def test_a_drained_slot_comes_back_in_time(admission: Open, events: list[Event]) -> None:
    hall = admission()
    first, second = await take(hall, "a"), await take(hall, "b")
    first.drain("client_gone", 0.02)
    assert outcomes(events, "a") == ["client_gone"]
    await asyncio.sleep(0)
    assert second.position() is not None, "the server may still be busy"
    async with asyncio.timeout(LIVENESS_SECONDS):
        await second.wait_admitted()
    assert outcomes(events, "a") == ["client_gone"]


async def test_a_drained_slot_without_a_time_comes_back_by_leave_only(admission: Open) -> None:
    hall = admission()
    first, second = await take(hall, "a"), await take(hall, "b")
    first.drain("client_gone", None)
    assert not await has_slot(second)
    first.leave("client_gone")
    assert await has_slot(second)


async def test_drain_takes_one_who_waits_out_of_the_line(admission: Open, events: list[Event]) -> None:
    hall = admission()
    first, second, third = await take(hall, "a"), await take(hall, "b"), await take(hall, "c")
    second.drain("abandoned", 60.0)
    first.leave("completed")
    assert await has_slot(third), "one that never ran holds no slot"
    assert outcomes(events, "b") == ["abandoned"]


# ---- the server is down

TWO_SERVERS = {"one": 1, "two": 1}


def standing(place: Place) -> tuple[int, int, str] | None:
    """Position, depth and state."""
    position = place.position()
    return position and (position.position, position.depth, position.state)


async def test_a_slot_is_at_a_server(admission: Open) -> None:
    assert (await take(admission(), "a")).endpoint == "u"
    hall = admission(2, endpoints=TWO_SERVERS)
    assert [(await take(hall, name)).endpoint for name in "ab"] == ["one", "two"]


async def test_requeued_it_waits_in_front_for_the_server(admission: Open, events: list[Event]) -> None:
    hall = admission(2)
    first, second, third = await take(hall, "a"), await take(hall, "b"), await take(hall, "c")
    assert not first.had_slot
    assert first.requeue(NO_CONNECTION)
    assert (first.had_slot, second.had_slot, third.had_slot) == (True, False, False)
    assert standing(first) == (1, 2, "upstream_down")
    assert standing(third) == (2, 2, "upstream_down")
    assert not await has_slot(first)
    assert not await has_slot(third), "a slot is free, but no server is there"
    second.note_up()
    assert await has_slot(first)
    assert standing(third) == (1, 1, "")
    second.leave("completed")
    assert await has_slot(third)
    assert outcomes(events, "a") == []


async def test_requeued_all_have_their_old_order(admission: Open) -> None:
    hall = admission(3)
    running = [await take(hall, name) for name in "abc"]
    waiting = await take(hall, "d")
    for place in (running[1], running[2], running[0]):
        assert place.requeue(NO_CONNECTION)
    assert [standing(place) for place in (*running, waiting)] == [(n, 4, "upstream_down") for n in (1, 2, 3, 4)]


async def test_requeued_it_goes_to_another_server_at_once(admission: Open) -> None:
    hall = admission(2, endpoints=TWO_SERVERS)
    place = await take(hall, "a")
    assert place.endpoint == "one"
    assert place.requeue(NO_CONNECTION)
    assert (place.endpoint, place.position(), place.had_slot) == ("two", None, True)
    assert [position async for position in place.positions()] == []
    second = await take(hall, "b")
    assert standing(second) == (1, 1, ""), "one server is down, the other one is busy"
    place.leave("completed")
    assert await has_slot(second)
    assert second.endpoint == "two"


async def test_where_nobody_waits_for_a_server_it_keeps_its_slot(admission: Open, events: list[Event]) -> None:
    hall = admission(holds=False)
    first, second = await take(hall, "a"), await take(hall, "b")
    assert not first.requeue(NO_CONNECTION)
    assert (first.position(), first.had_slot) == (None, False)
    assert not await has_slot(second)
    first.leave("upstream_down")
    assert await has_slot(second), "everybody tries for itself"
    assert outcomes(events, "a") == ["upstream_down"]


async def test_where_nobody_waits_it_still_goes_to_another_server(admission: Open) -> None:
    hall = admission(2, endpoints=TWO_SERVERS, holds=False)
    place = await take(hall, "a")
    assert place.requeue(NO_CONNECTION)
    assert place.endpoint == "two"
    assert not place.requeue(NO_CONNECTION), "now both are down"


async def test_who_enters_while_the_server_is_down_waits_for_it(admission: Open) -> None:
    hall = admission(3)
    first, second = await take(hall, "a"), await take(hall, "b")
    first.requeue(NO_CONNECTION)
    late = await take(hall, "c")
    assert (late.queued, standing(late)) == (True, (2, 2, "upstream_down"))
    second.note_up()
    assert await has_slot(late)
    assert not late.had_slot


async def test_that_an_up_server_is_up_is_nothing_new(admission: Open, events: list[Event]) -> None:
    place = await take(admission(), "a")
    told = len(events)
    place.note_up()
    assert len(events) == told


async def test_handed_over_and_requeued_it_is_the_blocks_again(admission: Open, events: list[Event]) -> None:
    hall = admission()
    async with hall.enter("u", Caller(id="a")) as place:
        place.hand_over()
        assert place.requeue(NO_CONNECTION)
    assert outcomes(events, "a") == ["abandoned"], "nothing of it ran"
    assert standing(await take(hall, "b")) == (1, 1, "upstream_down")


async def test_requeued_it_still_has_its_time(admission: Open, events: list[Event]) -> None:
    hall = admission(queue_timeout=0.02)
    place = await take(hall, "a")
    assert place.requeue(NO_CONNECTION)
    async with asyncio.timeout(LIVENESS_SECONDS):
        with pytest.raises(QueueTimeout):
            await place.wait_admitted()
    assert outcomes(events, "a") == ["queue_timeout"]


async def test_requeued_it_waits_since_it_came(admission: Open) -> None:
    hall = admission(2)
    place, other = await take(hall, "a"), await take(hall, "b")
    await asyncio.sleep(0.01)
    assert place.waited < 0.005
    place.requeue(NO_CONNECTION)
    assert place.waited >= 0.009
    await asyncio.sleep(0.01)
    other.note_up()
    assert place.waited >= 0.019
