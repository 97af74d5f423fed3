"""One request on its way."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hands import START, STOP, WHOLE, delta
from hypothesis import given
from rawclient import post

from llmgate.errors import GateError, Refused
from tests.server.faults import CALLED_BACK, ERRORS, HOOKS, LATE, STORIES, Fault, Foreign, Story
from tests.server.schedule import SCHEDULES, Player, logged
from tests.server.stage import PLAIN, Stage, Wire, pass_time, play, settle


async def begin_first(stage: Stage) -> None:
    stage.ask()
    await settle()
    (call,) = stage.calls
    call.connect()
    await settle()
    call.head()
    await settle()
    call.piece(START)
    await settle()


async def probe_cap(stage: Stage) -> None:
    """One slot: of two more requests one runs at once, the other one waits, and both are answered."""
    stage.set_cap(1)
    number = len(stage.calls)
    wires = [stage.ask(), stage.ask()]
    await settle()
    assert (stage.taken, len(stage.calls)) == ((1, 1, 0), number + 1)
    for call_number in (number, number + 1):
        assert len(stage.calls) == call_number + 1
        call = stage.calls[call_number]
        call.connect()
        await settle()
        call.head()
        await settle()
        call.end(START + STOP)
        await settle()
    assert all(wire.answer.is_whole for wire in wires)


def check_told_once(stage: Stage, wire: Wire, fault: Fault) -> None:
    """One answer, with one error; or a connection that broke off and holds nothing that looks whole."""
    answer = wire.answer
    if answer.is_whole:
        assert fault.name in ("wait_sent", "wait_over"), "it came when all was said"
        assert stage.outcomes == ["completed"]
    elif answer.ended:
        assert answer.errors == 1
    else:
        assert wire.gone
        assert answer.errors == 0


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


class TestFaults:
    """F31, F32: whatever is raised, and wherever."""

    @pytest.mark.parametrize("error", ERRORS, ids=lambda make: type(make()).__name__)
    @pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name.replace(" ", "-"))
    def test_everywhere(
        self, story: Story, error: Callable[[], BaseException], caplog: pytest.LogCaptureFixture
    ) -> None:
        struck = 0
        for owner, name in HOOKS:
            if name in CALLED_BACK and not isinstance(error(), Exception):
                continue
            for late in (False, True) if name in LATE else (False,):
                fault = Fault(owner, name, error(), late=late)
                caplog.clear()
                play(self.strike(story, fault))
                while fault.struck:
                    struck += 1
                    told = lines_of(caplog)
                    assert len(told) <= 1, told
                    assert told or isinstance(error(), GateError), f"{name} left no line in the log"
                    caplog.clear()
                    fault = fault.next(error())
                    play(self.strike(story, fault))
        assert struck >= 12

    async def strike(self, story: Story, fault: Fault) -> None:
        stage = Stage()
        if story.waits:
            await begin_first(stage)
        with fault.installed():
            wire = await story.tell(stage)
        if fault.struck:
            check_told_once(stage, wire, fault)
            assert "upstream_timeout" not in stage.outcomes or isinstance(fault.error, Foreign)
        wire.leave()
        stage.set_cap(1)
        if story.waits:
            stage.calls[0].end(STOP)
        await pass_time(1)
        stage.check_empty()
        await probe_cap(stage)
        stage.check_over()


STOPPING = Refused("llmgate: llmgate is stopping, this request was cut (REFUSED)")


async def waiting(stage: Stage) -> Wire:
    await begin_first(stage)
    wire = stage.ask()
    await settle()
    assert stage.taken == (1, 1, 0)
    return wire


async def waiting_in_silence(stage: Stage) -> Wire:
    await begin_first(stage)
    wire = stage.ask(stream=False)
    await settle()
    assert stage.taken == (1, 1, 0)
    return wire


async def just_granted(stage: Stage) -> Wire:
    """The slot is there, the request has not run since."""
    wire = await waiting(stage)
    stage.set_cap(2)
    return wire


async def connecting(stage: Stage) -> Wire:
    wire = stage.ask()
    await settle()
    return wire


async def before_the_headers(stage: Stage) -> Wire:
    wire = await connecting(stage)
    stage.calls[-1].connect()
    await settle()
    return wire


async def streaming(stage: Stage) -> Wire:
    wire = await before_the_headers(stage)
    stage.calls[-1].head()
    await settle()
    stage.calls[-1].piece(START)
    await settle()
    assert wire.answer.body == START
    return wire


async def streaming_after_a_wait(stage: Stage) -> Wire:
    wire = await just_granted(stage)
    await settle()
    call = stage.calls[-1]
    call.connect()
    await settle()
    call.head()
    await settle()
    call.piece(START)
    await settle()
    return wire


async def blocked(stage: Stage) -> Wire:
    wire = await streaming(stage)
    wire.block()
    stage.calls[-1].piece(delta("more"))
    await settle()
    assert stage.calls[-1].paused
    return wire


async def reading_a_whole(stage: Stage) -> Wire:
    wire = stage.ask(stream=False)
    await settle()
    call = stage.calls[-1]
    call.connect()
    await settle()
    call.head(200, PLAIN)
    await settle()
    call.piece(WHOLE[:10])
    await settle()
    return wire


async def reading_an_error(stage: Stage) -> Wire:
    wire = await before_the_headers(stage)
    stage.calls[-1].head(500, PLAIN)
    await settle()
    stage.calls[-1].piece(b"{")
    await settle()
    return wire


async def ended(stage: Stage) -> Wire:
    """The upstream's message is over, its last piece is not sent yet."""
    wire = await streaming(stage)
    stage.calls[-1].end(STOP)
    return wire


State = Callable[[Stage], Awaitable[Wire]]
WAITING: list[State] = [waiting, waiting_in_silence]
RUNNING: list[State] = [before_the_headers, streaming, streaming_after_a_wait, blocked, reading_a_whole, reading_an_error]


async def finish_first(stage: Stage, wire: Wire) -> None:
    """Whoever had the slot before goes on to its end."""
    for call, other in zip(stage.calls, stage.wires, strict=False):
        if other is not wire and call.speaks:
            call.end(STOP)
            await settle()
            assert other.answer.is_whole


def parametrize(states: list[State]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("state", states, ids=lambda state: state.__name__)


class TestClientGone:
    @pytest.mark.parametrize("error", [None, ConnectionResetError()], ids=["fin", "rst"])
    @parametrize(WAITING)
    def test_while_it_waits(self, state: State, error: Exception | None) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await state(stage)
            wire.leave(error)
            await settle()
            assert (stage.taken, stage.outcomes, len(stage.calls)) == ((0, 1, 0), ["abandoned"], 1)
            await finish_first(stage, wire)
            stage.check_over()

        play(main())

    def test_in_the_turn_in_which_it_got_its_slot(self) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await just_granted(stage)
            wire.leave()
            await settle()
            assert (stage.taken, stage.outcomes) == ((0, 1, 0), ["client_gone"])
            assert not any(call.sent for call in stage.calls[1:])
            await finish_first(stage, wire)
            stage.check_over()

        play(main())

    def test_while_connecting_the_slot_is_back_at_once(self) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await connecting(stage)
            wire.leave()
            await settle()
            assert (stage.taken, stage.outcomes) == ((0, 0, 0), ["client_gone"])
            stage.check_over()

        play(main())

    @pytest.mark.parametrize("error", [None, ConnectionResetError()], ids=["fin", "rst"])
    @parametrize(RUNNING)
    def test_while_it_runs_the_slot_drains(self, state: State, error: Exception | None) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await state(stage)
            running = stage.figures.running
            wire.leave(error)
            await settle()
            assert (stage.taken, stage.outcomes) == ((0, running - 1, 1), ["client_gone"])
            await pass_time(0.019)
            assert stage.figures.draining == 1
            await pass_time(0.002)
            assert stage.figures.draining == 0
            await finish_first(stage, wire)
            stage.check_over()

        play(main())

    def test_after_the_end_it_is_complete_and_drains_not(self) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await ended(stage)
            wire.leave()
            await settle()
            assert (stage.taken, stage.outcomes) == ((0, 0, 0), ["completed"])
            stage.check_over()

        play(main())

    def test_before_its_body_is_here_nothing_happened(self) -> None:
        async def main() -> None:
            stage = Stage()
            wire = stage.connect()
            wire.send(post("/v1/messages", b"x" * 100)[:-50])
            await settle()
            wire.leave()
            await settle()
            assert stage.events == []
            stage.check_over()

        play(main())


class TestStop:
    @parametrize([*WAITING, just_granted])
    def test_who_waits_gets_its_error(self, state: State) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await state(stage)
            stage.exchange_of(wire).stop(STOPPING)
            await settle()
            assert (stage.taken, stage.outcomes) == ((0, 1, 0), ["refused"])
            assert len(stage.calls) == 1
            check_refused(wire)
            await finish_first(stage, wire)
            stage.check_over()

        play(main())

    @parametrize([connecting, *RUNNING])
    def test_who_runs_gets_its_error(self, state: State) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await state(stage)
            exchange = stage.exchange_of(wire)
            exchange.stop(STOPPING)
            exchange.stop(STOPPING)
            wire.unblock()
            await settle()
            assert stage.outcomes == ["refused"]
            assert stage.figures.draining == (state is not connecting)
            check_refused(wire)
            await pass_time(0.03)
            await finish_first(stage, wire)
            stage.check_over()

        play(main())

    def test_after_the_end_there_is_nothing_to_stop(self) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await ended(stage)
            stage.exchange_of(wire).stop(STOPPING)
            await settle()
            assert (stage.taken, stage.outcomes) == ((0, 0, 0), ["completed"])
            assert wire.answer.ended
            stage.check_over()

        play(main())

    @pytest.mark.parametrize("first", ["stop", "leave"])
    @parametrize([*WAITING, just_granted, connecting, *RUNNING, ended])
    def test_leaving_in_the_same_turn(self, state: State, first: str) -> None:
        """F13."""

        async def main() -> None:
            stage = Stage()
            wire = await state(stage)
            exchange = stage.exchange_of(wire)
            if first == "leave":
                wire.leave()
            exchange.stop(STOPPING)
            if first == "stop":
                wire.leave()
            await settle()
            assert len(stage.outcomes) == 1
            assert not wire.answer.is_whole
            await pass_time(0.03)
            await finish_first(stage, wire)
            stage.check_over()

        play(main())


def check_refused(wire: Wire) -> None:
    answer = wire.answer
    assert (answer.ended, answer.errors) == (True, 1)
    assert b"this request was cut (REFUSED)" in answer.body
    if answer.status == 503:
        assert answer.headers["llmgate-code"] == "REFUSED"
        assert answer.headers["x-should-retry"] == "false"


@given(SCHEDULES)
def test_whatever_the_order(steps: list[Any]) -> None:
    """One answer begun at most, ended at most once, told once; every slot back once; nothing left, nothing logged."""

    async def main() -> None:
        await Player().play(steps)

    with logged() as lines:
        play(main())
    assert lines == []
