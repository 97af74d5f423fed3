"""The whole admission, and that nothing is left behind by any storm."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvloop
from virtual_loop import StandstillError, VirtualLoop, run, this_loop

from llmgate.admission.local import LocalAdmission
from llmgate.core.account import Account
from llmgate.core.caller import Caller
from llmgate.core.events import Dismissed, Event, Limits
from llmgate.core.gate import Gate
from llmgate.errors import GateError, Refused
from tests.admission.hall import UPSTREAM, Hall, hall_of, leave_all, queue_up, settle
from tests.admission.storm import CAP, Storm

REST_SECONDS = 0.5


# ---- the whole admission


def test_the_listener_hears_every_event_in_order() -> None:
    async def main() -> list[Event]:
        hall = hall_of(max_queued=1)
        first, second = await hall.take("a"), await hall.take("b")
        with pytest.raises(GateError):
            await hall.take("c")
        first.leave("completed")
        second.drain("client_gone", 1.0)
        await asyncio.sleep(2)
        return hall.events

    events = run(main())
    assert [type(event).__name__ for event in events] == [
        "Admitted", "Queued", "Refused", "Released", "Admitted", "Drained", "Released",
    ]  # fmt: skip
    assert [event.number for event in events] == list(range(1, 8))


def test_close_sends_away_who_waits_and_who_comes() -> None:
    async def main() -> None:
        hall = hall_of()
        first = await hall.take("a")
        async with asyncio.TaskGroup() as tasks:
            await queue_up(hall, ["b", "c"], tasks)
            hall.admission.close()
        with pytest.raises(Refused, match="llmgate is stopping"):
            await hall.take("d")
        assert hall.story[-2:] == ["b:REFUSED", "c:REFUSED"]
        dismissed = [event for event in hall.events if isinstance(event, Dismissed)]
        assert [(event.outcome, event.reason) for event in dismissed] == [("refused", "llmgate is stopping")] * 2
        assert hall.gate.statistics().running == 1
        first.leave("completed")
        hall.check_empty()

    run(main())


def test_a_higher_cap_admits_at_once_a_lower_one_kills_nothing() -> None:
    async def main() -> None:
        hall = hall_of()
        await hall.take("a")
        async with asyncio.TaskGroup() as tasks:
            places = await queue_up(hall, ["b", "c", "d"], tasks)
            hall.admission.set_limits(UPSTREAM, Limits(3))
            await settle()
            assert hall.story[-3:] == ["b:runs", "c:runs", "d:1"]
            hall.admission.set_limits(UPSTREAM, Limits(1))
            assert hall.admission.gate(UPSTREAM).statistics().running == 3
            leave_all(hall, places)

    run(main())


def test_upstreams_are_known_by_their_names() -> None:
    async def main() -> None:
        hall = hall_of()
        assert list(hall.admission.upstreams()) == [UPSTREAM]
        with pytest.raises(KeyError):
            hall.admission.gate("other")

    run(main())


# ---- storms


LOOPS: list[Any] = [
    pytest.param(asyncio.SelectorEventLoop, id="asyncio"),
    pytest.param(uvloop.new_event_loop, id="uvloop"),
]


@pytest.fixture(params=LOOPS)
def run_in_loop(request: pytest.FixtureRequest) -> Iterator[Callable[[Any], Any]]:
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner.run


@pytest.mark.parametrize("seed", range(8))
def test_a_storm_of_cancellations_leaves_nothing_behind(run_in_loop: Callable[[Any], Any], seed: int) -> None:
    async def main() -> None:
        storm = Storm(seed, 2000)
        await storm.run()
        storm.hall.check_empty()
        storm.hall.check_order()
        assert storm.most_inside == CAP
        assert storm.in_the_tick > 20, "the storm reaches what it is made for"
        await check_cap(storm.hall)

    run_in_loop(main())


async def check_cap(hall: Hall) -> None:
    """No permit was lost, and none was doubled."""
    hall.desk._listener = hall.events.append
    probes = [await hall.take(f"probe{number}") for number in range(CAP + 1)]
    assert [probe.position() is None for probe in probes] == [True] * CAP + [False]
    hall.admission.close()
    for probe in probes:
        probe.leave("completed")
    assert hall.desk._timer is None
    hall.admission.stop()


def test_f07_a_client_that_leaves_in_the_turn_of_its_grant(run_in_loop: Callable[[Any], Any]) -> None:
    """5,000 rounds around the same moment; the slot is never lost and never doubled."""

    async def main() -> None:
        chance = random.Random(7)
        hall = Hall(Limits(CAP))
        running = [await hall.take(f"r{number}") for number in range(CAP)]
        ends: Counter[str] = Counter()

        async def ask(name: str) -> None:
            async with hall.place(name) as place:
                await place.wait_admitted()
                place.hand_over()
                running.append(place)

        for number in range(5000):
            name = str(number)
            task = asyncio.get_running_loop().create_task(ask(name))
            await settle(2)
            moves = [running.pop(0).leave, task.cancel]
            chance.shuffle(moves)
            for move in moves:
                move("completed")
                await settle(chance.randrange(3))
            await asyncio.gather(task, return_exceptions=True)
            if len(running) < CAP:
                running.append(await hall.take(f"again{name}"))
            assert len(running) == CAP
            assert hall.gate.statistics().running == CAP
            ends["cancelled" if task.cancelled() else "ran"] += 1
        assert min(ends.values()) > 500
        for place in running:
            place.leave("completed")
        hall.check_empty()
        await check_cap(hall)

    run_in_loop(main())


def test_the_clock_is_the_monotonic_one_unless_told(run_in_loop: Callable[[Any], Any]) -> None:
    async def main() -> None:
        hall = Hall(Limits(1))
        before = time.monotonic()
        await hall.take("a")
        assert before <= hall.events[0].at <= time.monotonic()

    run_in_loop(main())


def test_the_virtual_loop_fails_when_nothing_can_ever_happen() -> None:
    """What the tests above rely on: a waiter that nobody wakes is an error, not a hang."""

    async def main() -> None:
        hall = hall_of()
        assert isinstance(this_loop(), VirtualLoop)
        await hall.take("a")
        await (await hall.take("b")).wait_admitted()

    with pytest.raises(StandstillError):
        run(main())


async def test_a_listener_that_fails_loses_neither_slot_nor_waiter(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Event) -> None:
        raise ZeroDivisionError

    admission = LocalAdmission([Gate("a", Limits(1))], fail)
    async with admission.enter("a", Caller(id="1")) as first, admission.enter("a", Caller(id="2")) as second:
        first.leave("completed")
        async with asyncio.timeout(60):
            await second.wait_admitted()
    assert admission.gate("a").statistics().running == 0
    assert "what happened at a could not be told" in caplog.text
    admission.stop()


# ---- what a reload does


def test_a_queue_of_another_name_keeps_everybody() -> None:
    async def main() -> None:
        hall = Hall(Limits(1))
        running, waiting = await hall.take("a"), await hall.take("b")
        hall.admission.rename(UPSTREAM, "thinking")
        assert list(hall.admission.upstreams()) == ["thinking"]
        position = hall.admission.position("thinking", "b")
        assert position is not None
        assert position.position == 1
        running.leave("completed")
        waiting.leave("completed")
        assert [event.upstream for event in hall.events[-3:]] == ["thinking"] * 3
        hall.check_empty()

    run(main())


def test_gates_are_changed_together() -> None:
    """What one gives up is the other's only once both are changed, in whatever order."""

    async def main() -> None:
        account = Account()
        first, second = (Gate(name, Limits(1), {name: 0}, accounts={name: account}) for name in ("a", "b"))
        events: list[Event] = []
        admission = LocalAdmission([first, second], events.append)
        admission.pause("b")
        running = await admission.enter("a", Caller(id="r")).__aenter__()
        await admission.enter("b", Caller(id="w")).__aenter__()
        with admission.standstill():
            admission.resume("b")
            assert second.depth == 1
            admission.retire("a", dismiss=False)
        assert second.depth == 1, "the server has what it may have"
        running.leave("completed")
        admission.look_again("b")
        assert second.depth == 0
        admission.remove("a")
        assert account.owners == 1
        admission.stop()

    run(main())
