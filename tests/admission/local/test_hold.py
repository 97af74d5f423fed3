"""While a server is down: who waits is told so, and told when it is over; who was refused waits in front."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_loop import run, this_loop

from llmgate.admission.base import NO_CONNECTION
from llmgate.admission.place import LocalPlace
from llmgate.core.events import AlarmCleared, AlarmRaised, EndpointChanged, Limits, Requeued
from llmgate.errors import GateError, QueueTimeout, Refused
from tests.admission.hall import UPSTREAM, Hall, settle

DOWN = "upstream_down"
REST_SECONDS = 0.5


def hall_of(cap: int = 1, *, endpoints: dict[str, int] | None = None, holds: bool = True, **limits: Any) -> Hall:
    """In the virtual loop's time."""
    return Hall(Limits(cap, **limits), this_loop().time, endpoints=endpoints, holds=holds)


def set_up(hall: Hall, up: bool, endpoint: str = UPSTREAM) -> None:
    hall.admission.set_endpoint(UPSTREAM, endpoint, up=up, reason="" if up else NO_CONNECTION)


class Ear:
    """Follows one place, and keeps what it heard."""

    def __init__(self, place: LocalPlace, tasks: asyncio.TaskGroup) -> None:
        self.place = place
        self.listen(tasks)

    def listen(self, tasks: asyncio.TaskGroup) -> None:
        """From here on."""
        self.heard: list[tuple[int, str]] = []
        self.end = ""
        tasks.create_task(self._listen())

    async def _listen(self) -> None:
        try:
            async for position in self.place.positions():
                self.heard.append((position.position, position.state))
        except GateError as error:
            self.end = error.code
        else:
            self.end = "runs"


def test_who_waits_hears_that_it_is_down_and_that_it_is_back() -> None:
    async def main() -> None:
        hall = hall_of()
        first = await hall.take("a")
        async with asyncio.TaskGroup() as tasks:
            ears = [Ear(await hall.take(name), tasks) for name in "bc"]
            await settle()
            set_up(hall, False)
            await settle()
            set_up(hall, True)
            await settle()
            assert [ear.heard for ear in ears] == [[(n, ""), (n, DOWN), (n, "")] for n in (1, 2)]
            first.leave("completed")
            for ear in ears:
                await settle()
                ear.place.leave("completed")
        assert [ear.end for ear in ears] == ["runs", "runs"]
        hall.check_empty()

    run(main())


def test_who_comes_while_it_is_down_hears_it_first() -> None:
    async def main() -> None:
        hall = hall_of()
        set_up(hall, False)
        async with asyncio.TaskGroup() as tasks:
            ear = Ear(await hall.take("a"), tasks)
            await settle()
            set_up(hall, True)
            await settle()
        assert (ear.heard, ear.end) == ([(1, DOWN)], "runs"), "the slot is the end of it"
        ear.place.leave("completed")
        hall.check_empty()

    run(main())


def test_one_who_is_slow_hears_only_how_it_is_now() -> None:
    """There is one mailbox, and nothing in it but that there is something new."""

    async def main() -> None:
        hall = hall_of()
        await hall.take("a")
        place = await hall.take("b")
        positions = place.positions()
        assert (await anext(positions)).state == ""
        for up in (False, True, False, True, False):
            set_up(hall, up)
            await settle()
        assert (await anext(positions)).state == DOWN
        set_up(hall, True)
        set_up(hall, False)
        waiting = asyncio.get_running_loop().create_task(anext(positions))
        await settle()
        assert not waiting.done(), "it is down, as it was told"
        waiting.cancel()

    run(main())


def test_the_first_ten_hear_it_at_once_and_everybody_in_the_end() -> None:
    async def main() -> None:
        hall, loop = hall_of(), this_loop()
        first = await hall.take("first")
        async with asyncio.TaskGroup() as tasks:
            ears = [Ear(await hall.take(str(number)), tasks) for number in range(40)]
            await settle()
            for up in (False, True):
                begun, state = loop.time(), "" if up else DOWN
                set_up(hall, up)
                await settle()
                assert loop.time() == begun
                assert {ear.heard[-1][1] for ear in ears[:10]} == {state}
                await asyncio.sleep(REST_SECONDS + 0.02)
                assert {ear.heard[-1][1] for ear in ears} == {state}
            hall.admission.close()
            first.leave("completed")
        hall.check_empty()

    run(main())


def test_who_does_not_ask_for_positions_is_not_woken_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    wait_for_news = LocalPlace.wait_for_news

    async def counting(place: LocalPlace) -> None:
        await wait_for_news(place)
        looks.append(place)

    async def main() -> None:
        hall = hall_of()
        first, second = await hall.take("a"), await hall.take("b")
        waiting = asyncio.get_running_loop().create_task(second.wait_admitted())
        await settle()
        for up in (False, True):
            set_up(hall, up)
            await asyncio.sleep(1)
        assert looks == []
        first.leave("completed")
        await waiting
        assert looks == [second]
        second.leave("completed")

    monkeypatch.setattr(LocalPlace, "wait_for_news", counting)
    run(main())


def test_with_a_server_left_nobody_is_told_anything() -> None:
    async def main() -> None:
        hall = hall_of(0, endpoints={"one": 1, "two": 1})
        running = [await hall.take(name) for name in "ab"]
        async with asyncio.TaskGroup() as tasks:
            ear = Ear(await hall.take("c"), tasks)
            await settle()
            set_up(hall, False, "one")
            await settle()
            assert ear.heard == [(1, "")]
            set_up(hall, False, "two")
            await settle()
            set_up(hall, True, "one")
            await settle()
            assert ear.heard == [(1, ""), (1, DOWN), (1, "")]
            for place in running:
                place.leave("completed")
        assert (ear.end, ear.place.endpoint) == ("runs", "one")
        ear.place.leave("completed")
        hall.check_empty()

    run(main())


# ---- who is requeued


def test_requeued_it_is_woken_by_its_next_slot_and_those_behind_it_are_told() -> None:
    async def main() -> None:
        hall = hall_of()
        first = await hall.take("a")
        async with asyncio.TaskGroup() as tasks:
            ear = Ear(await hall.take("b"), tasks)
            await settle()
            assert first.requeue(NO_CONNECTION)
            waiting = tasks.create_task(first.wait_admitted())
            await settle()
            assert ear.heard == [(1, ""), (2, DOWN)]
            set_up(hall, True)
            await settle()
            assert waiting.done()
            assert ear.heard == [(1, ""), (2, DOWN), (1, "")]
            first.leave("completed")
        ear.place.leave("completed")
        assert sum(isinstance(event, Requeued) for event in hall.events) == 1
        assert hall.admitted() == ["a", "a", "b"]
        hall.check_empty()

    run(main())


def test_requeued_it_is_told_anew_where_it_stands_if_it_asks_and_else_nothing() -> None:
    async def main() -> None:
        hall = hall_of()
        set_up(hall, False)
        async with asyncio.TaskGroup() as tasks:
            ear = Ear(await hall.take("a"), tasks)
            await settle()
            set_up(hall, True)
            await settle()
            place = ear.place
            assert place.requeue(NO_CONNECTION)
            assert (await anext(place.positions())).state == DOWN, "as it was told before"
            set_up(hall, True)
            assert place.requeue(NO_CONNECTION)
            waiting = tasks.create_task(place.wait_admitted())
            await settle()
            look = place._look
            assert look is not None
            other = await hall.take("b")
            hall.gate.move_to_front(other._taken(), this_loop().time())
            hall.desk.pump()
            await asyncio.sleep(1)
            assert not look.done(), "woken for nothing"
            other.leave("completed")
            set_up(hall, True)
            await waiting
        place.leave("completed")
        hall.check_empty()

    run(main())


def test_requeued_while_llmgate_stops_it_is_sent_away() -> None:
    async def main() -> None:
        hall = hall_of()
        place = await hall.take("a")
        hall.admission.close()
        assert place.requeue(NO_CONNECTION)
        with pytest.raises(Refused):
            await place.wait_admitted()
        place.leave("abandoned")
        assert hall.outcomes() == {"a": ["refused"]}
        hall.check_empty()

    run(main())


def test_requeued_after_its_time_it_is_late() -> None:
    async def main() -> None:
        hall = hall_of(queue_timeout=5.0)
        place = await hall.take("a")
        await asyncio.sleep(5.0)
        assert place.requeue(NO_CONNECTION)
        with pytest.raises(QueueTimeout):
            await place.wait_admitted()
        hall.check_empty()

    run(main())


def test_requeued_and_gone_nothing_of_it_is_left() -> None:
    async def main() -> None:
        hall = hall_of(queue_timeout=5.0)
        place = await hall.take("a")
        assert place.requeue(NO_CONNECTION)
        assert [timer.when() - this_loop().time() for timer in this_loop().timers] == [5.0]
        place.leave("abandoned")
        assert this_loop().timers == []
        set_up(hall, True)
        assert hall.admitted() == ["a"]
        hall.check_empty()

    run(main())


def test_it_is_down_once_for_all_who_were_refused() -> None:
    async def main() -> None:
        hall = hall_of(3)
        places = [await hall.take(name) for name in "abc"]
        for place in places:
            assert place.requeue(NO_CONNECTION)
        (down,) = [event for event in hall.events if isinstance(event, EndpointChanged)]
        assert (down.endpoint, down.up, down.reason) == (UPSTREAM, False, NO_CONNECTION)
        set_up(hall, True)
        assert hall.admitted() == ["a", "b", "c"] * 2
        for place in places:
            place.leave("completed")
        hall.check_empty()

    run(main())


# ---- endpoints and alarms


def test_a_server_that_takes_more_lets_in_more() -> None:
    async def main() -> None:
        hall = hall_of(0, endpoints={"one": 1})
        places = [await hall.take(name) for name in "abc"]
        waiting = [asyncio.get_running_loop().create_task(place.wait_admitted()) for place in places]
        await settle()
        assert [task.done() for task in waiting] == [True, False, False]
        hall.admission.set_endpoint(UPSTREAM, "one", max_concurrent=3)
        await settle()
        assert all(task.done() for task in waiting)
        for place in places:
            place.leave("completed")
        hall.check_empty()

    run(main())


def test_an_alarm_is_told_once_until_it_is_over() -> None:
    async def main() -> None:
        hall = hall_of()
        for _ in range(2):
            hall.admission.set_alarm(UPSTREAM, "draining", "it drains")
        assert hall.gate.statistics().alarms == {"draining": "it drains"}
        hall.admission.set_alarm(UPSTREAM, "hidden_wait", "it waits")
        for _ in range(2):
            hall.admission.set_alarm(UPSTREAM, "draining", None)
        assert hall.gate.statistics().alarms == {"hidden_wait": "it waits"}
        told = [(type(event), event.alarm) for event in hall.events if isinstance(event, (AlarmRaised, AlarmCleared))]
        assert told == [
            (AlarmRaised, "draining"),
            (AlarmRaised, "hidden_wait"),
            (AlarmCleared, "draining"),
        ]

    run(main())


# ---- in any order

_who = st.integers(0, 9)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), st.sampled_from([None, 0.4])),
        st.tuples(st.sampled_from(["leave", "refused", "refused", "up"]), _who),
        st.tuples(st.just("set"), st.booleans()),
        st.tuples(st.just("sleep"), st.sampled_from([0.0, 0.1, 0.6])),
    ),
    max_size=50,
)


class Crowd:
    """Requests that listen until they have a slot, and again once they are requeued."""

    def __init__(self, hall: Hall, tasks: asyncio.TaskGroup) -> None:
        self.hall, self.tasks = hall, tasks
        self.ears: list[Ear] = []

    async def enter(self, max_wait: float | None) -> None:
        place = await self.hall.take(str(len(self.ears)), max_wait)
        self.ears.append(Ear(place, self.tasks))

    def running(self) -> list[Ear]:
        over = self.hall.outcomes()
        return [ear for ear in self.ears if ear.end == "runs" and ear.place._caller.id not in over]

    def set(self, up: bool) -> None:
        set_up(self.hall, up)

    def leave(self, who: int) -> None:
        if self.ears:
            self.ears[who % len(self.ears)].place.leave("completed")

    def up(self, who: int) -> None:
        if running := self.running():
            running[who % len(running)].place.note_up()

    def refused(self, who: int) -> None:
        if running := self.running():
            ear = running[who % len(running)]
            assert ear.place.requeue(NO_CONNECTION)
            ear.listen(self.tasks)


@given(STEPS, st.integers(1, 3))
def test_whatever_the_order_who_waits_knows_and_who_came_first_goes_first(steps: list[Any], cap: int) -> None:
    async def main() -> None:
        hall = hall_of(cap)
        async with asyncio.TaskGroup() as tasks:
            crowd = Crowd(hall, tasks)
            for name, argument in steps:
                if name == "enter":
                    await crowd.enter(argument)
                elif name == "sleep":
                    await asyncio.sleep(argument)
                else:
                    getattr(crowd, name)(argument)
                await settle()
                assert hall.gate.statistics().running <= cap
            await asyncio.sleep(2)
            held = not hall.gate.is_up(UPSTREAM)
            positions = [ear.place.position() for ear in crowd.ears]
            for ear, position in zip(crowd.ears, positions, strict=True):
                if position is not None:
                    assert ear.heard[-1] == (position.position, position.state) == (position.position, held * DOWN)
            in_line = [position.position for position in positions if position is not None]
            assert all(one < next_one for one, next_one in pairwise(in_line)), "nobody stands before who came first"
            set_up(hall, True)
            for ear in crowd.ears:
                await settle()
                ear.place.leave("completed")
        assert all(ear.end for ear in crowd.ears)
        hall.check_empty()

    run(main())


@pytest.mark.parametrize(
    "change", [lambda hall: set_up(hall, False), lambda hall: hall.admission.close()], ids=["down", "close"]
)
def test_what_happens_in_the_turn_of_the_grant_changes_nothing_about_it(change: Callable[[Hall], None]) -> None:
    async def main() -> None:
        hall = hall_of()
        first = await hall.take("a")
        async with asyncio.TaskGroup() as tasks:
            ear = Ear(await hall.take("b"), tasks)
            await settle()
            first.leave("completed")
            change(hall)
        assert ear.end == "runs"
        ear.place.leave("completed")
        hall.check_empty()

    run(main())
