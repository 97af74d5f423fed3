"""A request that is stopped, at whatever moment: its client is told, once."""

import pytest
from hands import START, STOP
from virtual_loop import turns

from tests.server.house import logged
from tests.server.schedule import UPSTREAM_ERROR
from tests.server.stage import Stage, pass_time, play, settle
from tests.server.states import (
    RUNNING,
    STOPPING,
    WAITING,
    State,
    blocked,
    check_refused,
    connecting,
    ended,
    finish_first,
    just_granted,
    parametrize,
    streaming,
)


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
            assert (wire.answer.body, wire.answer.ended) == (START + STOP, True)
            stage.check_over()

        play(main())

    @pytest.mark.parametrize("last", [STOP, UPSTREAM_ERROR], ids=["complete", "failed"])
    def test_a_stream_that_told_its_end_gets_no_error_of_ours(self, last: bytes) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await streaming(stage)
            stage.calls[0].piece(last)
            await settle()
            assert not wire.answer.ended
            stage.exchange_of(wire).stop(STOPPING)
            await settle()
            assert (wire.answer.body, wire.answer.ended) == (START + last, True)
            assert (stage.taken, stage.outcomes) == ((0, 0, 1), ["completed" if last is STOP else "refused"])
            await pass_time(0.03)
            stage.check_over()

        play(main())

    @pytest.mark.parametrize("first", ["stop", "leave"])
    @parametrize([*WAITING, just_granted, connecting, *RUNNING, ended])
    def test_f13_leaving_in_the_same_turn(self, state: State, first: str) -> None:

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


@pytest.mark.parametrize("after", range(6))
def test_in_any_turn_after_its_server_turned_out_to_be_down(after: int) -> None:
    """It stands in the line again, and its outcome is the stop's."""

    async def main() -> None:
        stage = Stage(upstream={"on_down": "hold"})
        wire = await connecting(stage)
        stage.calls[0].refuse(is_told_first=True)
        await turns(after)
        stage.exchange_of(wire).stop(STOPPING)
        await settle()
        assert (stage.outcomes, stage.figures.waiting, stage.figures.running) == (["refused"], 0, 0)
        check_refused(wire)

    play(main())


@pytest.mark.parametrize("second", ["leave", "stop"])
def test_stopped_and_then_leaving_or_stopped_again(second: str) -> None:
    """Its error is still on its way."""

    async def main() -> None:
        stage = Stage()
        wire = await blocked(stage)
        running = stage.exchange_of(wire)
        running.stop(STOPPING)
        await pass_time(0.1)
        if second == "leave":
            wire.leave()
        else:
            running.stop(STOPPING)
            await settle()
            wire.unblock()
        await settle()
        assert stage.outcomes == ["refused"]
        if second == "stop":
            check_refused(wire)
        stage.check_over()

    with logged() as lines:
        play(main())
    assert lines == []
