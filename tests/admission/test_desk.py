"""One gate with its timer: who is woken when, and that every wait ends at its time."""

import asyncio
import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_loop import run, this_loop

from llmgate.admission.place import LocalPlace
from llmgate.core.eta import ENOUGH
from llmgate.core.line import Position
from llmgate.errors import GateError, QueueTimeout
from tests.admission.hall import UPSTREAM, Hall, hall_of, leave_all, queue_up, settle

REST_SECONDS = 0.5


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


def test_f25_a_freed_slot_wakes_one_and_the_others_at_most_once(looks: Counter[str]) -> None:
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


@pytest.mark.parametrize("act", ["drain", "pause"])
def test_who_waits_where_an_operator_holds_it_hears_that_its_server_is_down(act: str) -> None:
    """The gate's mode is the operator's before and after: the server's end is news of its own, and ends estimates."""

    async def main() -> None:
        hall = hall_of()
        for number in range(ENOUGH + 1):
            first = await hall.take(f"past {number}")
            await asyncio.sleep(10)
            if number < ENOUGH:
                first.leave("completed")
        waiting = await hall.take("waiting")
        getattr(hall.admission, act)(UPSTREAM)
        assert (hall.admission.schedule(UPSTREAM) is None) is (act == "pause")
        assert waiting.next_position() is not None
        hearing = asyncio.ensure_future(waiting.wait_for_news())
        await settle()
        assert not hearing.done()
        hall.admission.set_endpoint(UPSTREAM, UPSTREAM, up=False, reason="it takes no connection")
        await asyncio.wait_for(hearing, 5)
        position = waiting.position()
        assert position is not None
        assert position.state == "upstream_down"
        assert hall.admission.schedule(UPSTREAM) is None
        leave_all(hall, [waiting, first])

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


def test_f79_a_process_that_slept_gives_everybody_one_outcome() -> None:
    """Queue timeouts, drained slots and a grant are all due when it wakes."""

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


def test_f23_timeout_and_grant_in_one_turn_is_one_of_both() -> None:
    """5,000 rounds; the release falls just before, at, or just after the end of the wait."""

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
            hall.gate._story.tally._outcomes.clear()
        return seen

    seen = run(main())
    assert set(seen) == {"runs", "QUEUE_TIMEOUT"}
    assert min(seen.values()) > 500
