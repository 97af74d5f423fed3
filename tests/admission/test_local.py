"""Gates in memory: who is woken when, by which timer, and that nothing is left behind by any storm."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st
from virtual_loop import StandstillError, VirtualLoop, run, this_loop

from llmgate.admission.local import LocalAdmission, LocalPlace
from llmgate.core.caller import Caller
from llmgate.core.events import Dismissed, Event, Limits
from llmgate.core.gate import Gate
from llmgate.core.line import Position
from llmgate.errors import Cancelled, GateError, QueueTimeout, Refused
from tests.admission.hall import UPSTREAM, Hall, settle
from tests.admission.storm import CAP, Storm

REST_SECONDS = 0.5


def hall_of(cap: int = 1, **limits: Any) -> Hall:
    """In the virtual loop's time."""
    return Hall(Limits(cap, **limits), this_loop().time)


async def queue_up(hall: Hall, names: list[str], tasks: asyncio.TaskGroup) -> list[LocalPlace]:
    """They enter in this order, and listen."""
    places = [await hall.take(name) for name in names]
    for name, place in zip(names, places, strict=True):
        tasks.create_task(hall.listen(name, place))
    await settle()
    return places


def leave_all(hall: Hall, places: list[LocalPlace]) -> None:
    for place in reversed(places):
        place.leave("completed")


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each waiter was woken to look."""
    counted: Counter[str] = Counter()
    wait_for_news = LocalPlace.wait_for_news

    async def counting(place: LocalPlace) -> None:
        await wait_for_news(place)
        counted[place._caller.id] += 1

    monkeypatch.setattr(LocalPlace, "wait_for_news", counting)
    return counted


# ---- who is woken


def test_who_got_the_slot_goes_first_then_the_others_are_told() -> None:
    async def main() -> list[str]:
        hall = hall_of()
        first = await hall.take("a")
        async with asyncio.TaskGroup() as tasks:
            places = await queue_up(hall, ["b", "c", "d"], tasks)
            hall.story.clear()
            first.leave("completed")
            hall.story.append("freed")
            await settle()
            told = list(hall.story)
            leave_all(hall, places)
        return told

    assert run(main()) == ["freed", "b:runs", "c:1", "d:2"]


def test_two_changes_in_one_turn_are_told_once_after_the_slot() -> None:
    """The leaver's news is on its way already when the slot falls free."""

    async def main() -> list[str]:
        hall = hall_of()
        first = await hall.take("a")
        async with asyncio.TaskGroup() as tasks:
            _, leaver, *places = await queue_up(hall, ["b", "c", "d", "e"], tasks)
            hall.story.clear()
            leaver.leave("cancelled")
            first.leave("completed")
            await settle()
            told = list(hall.story)
            leave_all(hall, places)
        return told

    assert run(main()) == ["c:CANCELLED", "b:runs", "d:1", "e:2"]


def test_a_freed_slot_wakes_one_and_the_others_at_most_once(looks: Counter[str]) -> None:
    async def main() -> None:
        hall = hall_of()
        first = await hall.take("first")
        async with asyncio.TaskGroup() as tasks:
            places = await queue_up(hall, [str(number) for number in range(50)], tasks)
            looks.clear()
            hall.story.clear()
            first.leave("completed")
            await asyncio.sleep(10)
            assert looks["0"] == 1
            assert max(looks.values()) == 1
            assert hall.story.count("0:runs") == 1
            assert len(hall.story) == 50
            leave_all(hall, places)

    run(main())


def test_who_does_not_ask_for_positions_is_woken_by_its_slot_only(looks: Counter[str]) -> None:
    async def main() -> None:
        hall = hall_of()
        places = [await hall.take(str(number)) for number in range(51)]
        async with asyncio.TaskGroup() as tasks:
            waiting = [tasks.create_task(place.wait_admitted()) for place in places]
            await settle()
            for gone, place in enumerate(places):
                place.leave("completed")
                await asyncio.sleep(1)
                assert sum(looks.values()) == min(gone + 1, 50)
                assert [task.done() for task in waiting].count(True) == min(gone + 2, 51)
        assert set(looks.values()) == {1}

    run(main())


def test_a_slow_reader_skips_positions() -> None:
    async def main() -> list[int]:
        hall = hall_of()
        places = [await hall.take(name) for name in "abcdef"]
        told = []
        positions = places[-1].positions()
        told.append((await anext(positions)).position)
        for place in places[:3]:
            place.leave("completed")
            await asyncio.sleep(1)  # it is busy with the first one all this time
        told.append((await anext(positions)).position)
        places[3].leave("completed")
        told.append((await anext(positions)).position)
        for place in places[4:5]:
            place.leave("completed")
        told += [position.position async for position in positions]
        return told

    assert run(main()) == [5, 2, 1]


def test_a_change_that_comes_back_to_the_same_position_is_not_told() -> None:
    async def main() -> None:
        hall = hall_of()
        _, waits = await hall.take("a"), await hall.take("b")
        positions = waits.positions()
        assert await anext(positions) == Position(1, 1, 0)
        waits.wake()
        waiting = asyncio.get_running_loop().create_task(anext(positions))
        await settle()
        waits.wake()
        await settle()
        assert not waiting.done()
        waiting.cancel()

    run(main())


def test_the_first_ten_hear_at_once_the_rest_now_and_then() -> None:
    async def main() -> None:
        hall, loop = hall_of(), this_loop()
        running = [await hall.take("r")]
        names = [f"w{number:02}" for number in range(30)]
        async with asyncio.TaskGroup() as tasks:
            places = await queue_up(hall, names, tasks)
            running.append(places[0])
            running.pop(0).leave("completed")
            await asyncio.sleep(0.01)  # the first news of all goes to everybody at once
            assert [hall.heard[name][-1] for name in names[1:]] == list(range(1, 30))
            begun = loop.time()
            for place in places[:3]:
                place.leave("completed")
                await settle()
            assert loop.time() == begun
            assert [hall.heard[name][-1] for name in names[4:14]] == list(range(1, 11))
            assert [hall.heard[name][-1] for name in names[14:]] == list(range(14, 30)), "not yet"
            await asyncio.sleep(REST_SECONDS - 0.02)
            assert hall.heard["w29"][-1] == 29
            await asyncio.sleep(0.02)
            assert [hall.heard[name][-1] for name in names[14:]] == list(range(11, 27))
            assert hall.heard["w29"] == [30, 29, 26], "what lay between is skipped"
            leave_all(hall, places)

    run(main())


def test_the_rest_is_told_in_batches_that_leave_the_loop_free(looks: Counter[str]) -> None:
    async def main() -> None:
        hall = hall_of()
        first = await hall.take("first")
        async with asyncio.TaskGroup() as tasks:
            places = await queue_up(hall, [str(number) for number in range(10 + 3 * 256)], tasks)
            looks.clear()
            first.leave("completed")
            woken = [0]
            while woken[-1] < len(places):
                await asyncio.sleep(0)
                woken.append(sum(looks.values()))
            steps = {after - before for before, after in pairwise(woken)}
            assert max(steps) <= 256
            hall.admission.close()
            leave_all(hall, places)

    run(main())


@pytest.mark.parametrize("turns", range(10))
def test_what_changes_while_the_rest_is_told_is_told_too(turns: int) -> None:
    """However the change falls between two batches, once it is quiet everybody has heard the truth."""

    async def main() -> None:
        hall = hall_of()
        first = await hall.take("first")
        async with asyncio.TaskGroup() as tasks:
            names = [str(number) for number in range(10 + 5 * 256)]
            places = await queue_up(hall, names, tasks)
            first.leave("completed")
            await asyncio.sleep(0.001) if turns == 0 else await settle(turns)
            places[0].leave("completed")
            await asyncio.sleep(10)
            assert [hall.heard[name][-1] for name in names[2:]] == list(range(1, len(names) - 1))
            hall.admission.close()
            leave_all(hall, places)

    run(main())


schedules = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), st.sampled_from([None, 0.0, 0.3, 2.0])),
        st.tuples(st.sampled_from(["leave", "cancel"]), st.integers(0, 30)),
        st.tuples(st.just("sleep"), st.sampled_from([0.0, 0.1, 0.5])),
    ),
    max_size=60,
)


@given(schedules, st.integers(1, 3))
def test_under_any_schedule_everybody_hears_falling_positions_and_an_end(
    schedule: list[tuple[str, Any]], cap: int
) -> None:
    async def main() -> None:
        hall = hall_of(cap, max_queued=20)
        listeners: list[tuple[str, LocalPlace, asyncio.Task[None]]] = []
        async with asyncio.TaskGroup() as tasks:
            for number, (what, how) in enumerate(schedule):
                if what == "enter":
                    await _enter(hall, str(number), how, listeners, tasks)
                elif what == "sleep":
                    await asyncio.sleep(how)
                elif listeners and what == "leave":
                    listeners[how % len(listeners)][1].leave("cancelled")
                elif listeners:
                    _, place, task = listeners[how % len(listeners)]
                    task.cancel()
                    place.leave("abandoned")
            await asyncio.sleep(5)
            _check_told(hall, listeners)
            hall.admission.close()
            for _, place, _ in listeners:
                place.leave("completed")
        hall.check_empty()
        for name, _, task in listeners:
            told = [entry.removeprefix(f"{name}:") for entry in hall.story if entry.startswith(f"{name}:")]
            ends = [word for word in told if not word.isdigit()]
            assert len(ends) == (0 if task.cancelled() else 1), "a slot, or one typed error"

    run(main())


async def _enter(
    hall: Hall,
    name: str,
    max_wait: float | None,
    listeners: list[tuple[str, LocalPlace, asyncio.Task[None]]],
    tasks: asyncio.TaskGroup,
) -> None:
    place = hall.place(name, max_wait)
    try:
        await place.__aenter__()
    except GateError:
        return
    listeners.append((name, place, tasks.create_task(hall.listen(name, place))))


def _check_told(hall: Hall, listeners: list[tuple[str, LocalPlace, asyncio.Task[None]]]) -> None:
    for name, place, task in listeners:
        heard = hall.heard.get(name, [])
        assert all(after < before for before, after in pairwise(heard)), "only ever nearer"
        position = place.position()
        if not task.done():
            assert position is not None
            assert heard[-1] == position.position, "when it is quiet everybody knows the truth"
        else:
            assert position is None, "whose listening is over waits no more"


# ---- timers


def test_one_timer_a_gate_at_the_earliest_end() -> None:
    async def main() -> None:
        hall, loop = hall_of(queue_timeout=60.0), this_loop()
        running = await hall.take("a")
        assert loop.timers == []
        ends = []
        places = []
        for max_wait in (None, 30.0, 10.0, 20.0):
            places.append(await hall.take(f"w{max_wait}", max_wait))
            (timer,) = loop.timers
            ends.append(timer.when() - loop.time())
        assert ends == [60.0, 30.0, 10.0, 10.0]
        places[2].leave("abandoned")
        assert [timer.when() - loop.time() for timer in loop.timers] == [20.0]
        running.drain("client_gone", 5.0)
        assert [timer.when() - loop.time() for timer in loop.timers] == [5.0]
        hall.admission.stop()
        assert loop.timers == []

    run(main())


def test_a_timer_whose_time_has_not_changed_stays() -> None:
    async def main() -> None:
        hall, loop = hall_of(queue_timeout=60.0), this_loop()
        for name in "ab":
            await hall.take(name)
        (timer,) = loop.timers
        for max_wait in (None, 61.0, 62.0):
            await hall.take("later", max_wait)
            assert loop.timers == [timer]
        hall.admission.stop()

    run(main())


def test_stop_ends_the_timers_of_those_who_are_told() -> None:
    async def main() -> None:
        hall, loop = hall_of(), this_loop()
        first = await hall.take("first")
        async with asyncio.TaskGroup() as tasks:
            places = await queue_up(hall, [str(number) for number in range(20)], tasks)
            for place in (first, places[0]):
                place.leave("completed")
                await settle()
            assert len(loop.timers) == 1, "the rest is told later"
            hall.admission.stop()
            assert loop.timers == []
            places[1].leave("completed")
            hall.admission.stop()
            heard = len(hall.story)
            await settle()
            assert len(hall.story) == heard + 1, "the one with the slot, nobody else"
            hall.admission.close()
            leave_all(hall, places)
        hall.admission.stop()
        assert loop.timers == []

    run(main())


def test_a_gate_without_limits_needs_no_timer() -> None:
    async def main() -> None:
        hall = hall_of()
        await hall.take("a")
        await hall.take("b")
        assert this_loop().timers == []
        hall.admission.stop()

    run(main())


def test_each_wait_ends_at_its_own_time() -> None:
    async def main() -> list[tuple[str, float]]:
        hall, loop = hall_of(queue_timeout=3.0), this_loop()
        begun, ends = loop.time(), []
        await hall.take("a")

        async def wait(name: str, max_wait: float | None) -> None:
            async with hall.place(name, max_wait) as place:
                with pytest.raises(QueueTimeout, match="no slot of upstream reasoning fell free in time"):
                    await place.wait_admitted()
                ends.append((name, round(loop.time() - begun, 6)))

        async with asyncio.TaskGroup() as tasks:
            for name, max_wait in (("b", None), ("c", 1.0), ("d", 2.0), ("e", 9.0)):
                tasks.create_task(wait(name, max_wait))
        return ends

    assert run(main()) == [("c", 1.0), ("d", 2.0), ("b", 3.0), ("e", 3.0)]


def test_a_timer_that_fires_early_is_set_again() -> None:
    """Loops round: uvloop to a millisecond."""

    async def main() -> None:
        hall, loop = hall_of(queue_timeout=1.0), this_loop()
        hall.desk.clock = lambda: loop.time() - 0.0004
        await hall.take("a")
        place = await hall.take("b")
        loop.now += 0.0004
        with pytest.raises(QueueTimeout):
            await place.wait_admitted()
        assert place.waited >= 1.0

    run(main())


def test_a_process_that_slept_gives_everybody_one_outcome() -> None:
    """F79: queue timeouts, drained slots and a grant are all due when it wakes."""

    async def main() -> None:
        hall, loop = hall_of(2, queue_timeout=5.0), this_loop()
        running = [await hall.take("r1"), await hall.take("r2")]
        running[0].drain("client_gone", 1.0)
        async with asyncio.TaskGroup() as tasks:
            places = [await hall.take(f"w{number}", 3.0 + number) for number in range(4)]
            for number, place in enumerate(places):
                tasks.create_task(hall.listen(f"w{number}", place))
            await settle()
            loop.now += 10.0
            late = await hall.take("late")
            assert not late.queued
            assert hall.gate.statistics().running == 2
            await settle()
        running[1].leave("completed")
        late.leave("completed")
        assert [entry for entry in hall.story if entry.endswith("TIMEOUT")] == [f"w{n}:QUEUE_TIMEOUT" for n in range(4)]
        hall.check_empty()

    run(main())


def test_timeout_and_grant_in_one_turn_is_one_of_both() -> None:
    """F23: 5,000 rounds; the release falls just before, at, or just after the end of the wait."""

    async def main() -> Counter[str]:
        hall, loop, chance = hall_of(queue_timeout=1.0), this_loop(), random.Random(23)
        seen: Counter[str] = Counter()
        for number in range(5000):
            name = str(number)
            first = await hall.take(f"first{name}")
            slack = chance.choice([-1e-6, 0.0, 0.0, 1e-6])
            early = chance.random() < 0.5
            if early:
                loop.call_at(loop.time() + 1.0 + slack, first.leave, "completed")
            place = await hall.take(name)
            if not early:
                loop.call_at(loop.time() + 1.0 + slack, first.leave, "completed")
            await hall.listen(name, place)
            await asyncio.sleep(0.001)
            place.leave("completed")
            end = hall.story[-1].split(":")[1]
            assert hall.outcomes()[name] == ["queue_timeout" if end == "QUEUE_TIMEOUT" else "completed"]
            seen[end] += 1
            hall.check_empty()
            hall.events.clear()
            hall.gate._tally._outcomes.clear()
        return seen

    seen = run(main())
    assert set(seen) == {"runs", "QUEUE_TIMEOUT"}
    assert min(seen.values()) > 500


# ---- giving back


@pytest.mark.parametrize("how", ["twice", "from a done callback", "after an exception", "drained and left"])
def test_however_it_is_given_back_the_next_but_one_blocks(how: str) -> None:
    """F31: permits never exceed the cap."""

    async def fail_after_giving_back(hall: Hall) -> None:
        async with hall.place("b") as second:
            second.leave("upstream_error")
            raise ZeroDivisionError

    async def give_back(hall: Hall) -> None:
        place = await hall.take("a")
        if how == "twice":
            place.leave("completed")
            place.leave("completed")
        elif how == "drained and left":
            place.drain("client_gone", 0.5)
            place.leave("client_gone")
            place.leave("client_gone")
        elif how == "from a done callback":
            task = asyncio.get_running_loop().create_task(asyncio.sleep(0))
            task.add_done_callback(lambda _: place.leave("completed"))
            task.add_done_callback(lambda _: place.leave("completed"))
            await task
        else:
            place.leave("completed")
            with pytest.raises(ZeroDivisionError):
                await fail_after_giving_back(hall)

    async def main() -> None:
        hall = hall_of(CAP)
        await give_back(hall)
        await settle()
        probes = [await hall.take(f"probe{number}") for number in range(CAP + 1)]
        await asyncio.sleep(5)
        assert [probe.position() is None for probe in probes] == [True] * CAP + [False]

    run(main())


def test_a_block_that_ends_without_waiting_for_its_slot_has_abandoned_it() -> None:
    async def main() -> None:
        hall = hall_of()
        first = await hall.take("a")
        async with hall.place("b"):
            pass
        first.leave("completed")
        assert hall.outcomes() == {"b": ["abandoned"], "a": ["completed"]}
        hall.check_empty()

    run(main())


@pytest.mark.parametrize("outcome", ["abandoned", "cancelled", "client_gone"])
def test_drain_while_it_waits_leaves_nothing_behind(outcome: Any) -> None:
    async def main() -> None:
        hall = hall_of()
        first, second = await hall.take("a"), await hall.take("b")
        second.drain(outcome, 60.0)
        assert hall.desk._places == {}
        first.leave("completed")
        hall.check_empty()

    run(main())


def test_one_who_waits_can_be_sent_away_from_outside() -> None:
    async def main() -> None:
        hall = hall_of()
        await hall.take("a")
        places = [await hall.take(name) for name in "bc"]
        waiting = [asyncio.ensure_future(place.wait_admitted()) for place in places]
        await settle()
        places[0].leave("cancelled")
        places[1].drain("cancelled", None)
        await settle()
        for task in waiting:
            with pytest.raises(Cancelled, match="an operator cancelled this request"):
                task.result()

    run(main())


def test_a_cancellation_in_the_tick_of_the_grant_gives_the_slot_on() -> None:
    async def main() -> None:
        hall = hall_of()
        first = await hall.take("a")

        async def ask(name: str) -> None:
            async with hall.place(name) as place:
                await place.wait_admitted()
                hall.story.append(name)

        async with asyncio.TaskGroup() as tasks:
            cancelled = tasks.create_task(ask("b"))
            tasks.create_task(ask("c"))
            await settle()
            first.leave("completed")
            cancelled.cancel()
        assert hall.story == ["c"]
        assert hall.outcomes() == {"a": ["completed"], "b": ["client_gone"], "c": ["completed"]}
        hall.check_empty()

    run(main())


def test_a_place_is_no_use_before_its_block() -> None:
    async def main() -> None:
        place = hall_of().place("a")
        with pytest.raises(RuntimeError, match="async with"):
            place.position()
        with pytest.raises(RuntimeError, match="async with"):
            place.leave("completed")

    run(main())


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
        with pytest.raises(Refused):
            await hall.take("d")
        assert hall.story[-2:] == ["b:REFUSED", "c:REFUSED"]
        dismissed = [event for event in hall.events if isinstance(event, Dismissed)]
        assert [event.outcome for event in dismissed] == ["refused", "refused"]
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


def test_a_client_that_leaves_in_the_turn_of_its_grant(run_in_loop: Callable[[Any], Any]) -> None:
    """F07: 5,000 rounds around the same moment; the slot is never lost and never doubled."""

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
        async with asyncio.timeout(5):
            await second.wait_admitted()
    assert admission.gate("a").statistics().running == 0
    assert "what happened at a could not be told" in caplog.text
    admission.stop()
