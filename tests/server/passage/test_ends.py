"""Clients that leave or stop reading, a daemon that stops, at every moment: nothing is lost, nothing looks whole."""

import pytest

from llmgate.upstreams.answer import Done
from tests.server.passing import (
    BOTH,
    GATED,
    HERE,
    LAST,
    MORE,
    PATH,
    RUNNING,
    STOPPING,
    UNGATED,
    PassStage,
    State,
    after_the_head,
    before_the_head,
    blocked,
    connecting,
    ended,
    finish_first,
    just_granted,
    line,
    parametrize,
    streaming,
    waiting,
)
from tests.server.stage import Wire, pass_time, play, settle


class TestClientGone:
    @pytest.mark.parametrize("error", [None, ConnectionResetError()], ids=["fin", "rst"])
    def test_while_it_waits(self, error: Exception | None) -> None:
        async def main() -> None:
            stage = PassStage()
            wire = await waiting(stage, GATED)
            assert wire.received == b""
            wire.leave(error)
            await settle()
            assert (stage.taken, stage.outcomes, len(stage.calls)) == ((0, 1, 0), ["abandoned"], 1)
            await finish_first(stage, wire)
            stage.check_over()

        play(main())

    def test_in_the_turn_in_which_it_got_its_slot(self) -> None:
        async def main() -> None:
            stage = PassStage()
            wire = await just_granted(stage, GATED)
            wire.leave()
            await settle()
            assert (stage.taken, stage.outcomes) == ((0, 1, 0), ["client_gone"])
            assert not any(call.sent for call in stage.calls[1:])
            await finish_first(stage, wire)
            stage.check_over()

        play(main())

    @BOTH
    def test_while_connecting(self, method: str) -> None:
        async def main() -> None:
            stage = PassStage()
            wire = await connecting(stage, method)
            wire.leave()
            await settle()
            assert stage.taken == (0, 0, 0)
            assert stage.upstreams.dones == [Done.UNSENT]
            assert stage.outcomes == (["client_gone"] if method == GATED else [])
            stage.check_over()

        play(main())

    @parametrize(RUNNING)
    def test_while_it_runs_the_slot_drains(self, state: State) -> None:
        async def main() -> None:
            stage = PassStage()
            wire = await state(stage, GATED)
            wire.leave()
            await settle()
            assert stage.upstreams.dones == [Done.CUT]
            assert (stage.taken, stage.outcomes) == ((0, 0, 1), ["client_gone"])
            await pass_time(0.019)
            assert stage.figures.draining == 1
            await pass_time(0.002)
            assert stage.figures.draining == 0
            stage.check_over()

        play(main())

    @parametrize(RUNNING)
    def test_straight_through_the_call_is_closed(self, state: State) -> None:
        async def main() -> None:
            stage = PassStage()
            wire = await state(stage, UNGATED)
            wire.leave()
            await settle()
            assert (stage.upstreams.dones, stage.events) == ([Done.CUT], [])
            stage.check_over()

        play(main())

    @BOTH
    def test_after_the_end_it_is_complete(self, method: str) -> None:
        async def main() -> None:
            stage = PassStage()
            wire = await ended(stage, method)
            wire.leave()
            await settle()
            assert stage.taken == (0, 0, 0)
            assert stage.outcomes == (["completed"] if method == GATED else [])
            stage.check_over()

        play(main())

    def test_before_its_body_is_here_nothing_happened(self) -> None:
        async def main() -> None:
            stage = PassStage()
            wire = stage.connect()
            wire.send(line(GATED, HERE + PATH, b"x" * 100)[:-50])
            await settle()
            wire.leave()
            await settle()
            assert (stage.events, stage.calls) == ([], [])
            stage.check_over()

        play(main())


class TestClientStalled:
    @BOTH
    def test_who_reads_nothing_is_cut(self, method: str) -> None:
        async def main() -> None:
            stage = PassStage(server={"client_stall_timeout": 5})
            wire = await blocked(stage, method)
            await pass_time(4.9)
            assert not wire.gone
            await pass_time(0.2)
            assert wire.aborted
            assert not wire.answer.ended
            assert stage.outcomes == (["client_stalled"] if method == GATED else [])
            assert stage.upstreams.dones == [Done.CUT]
            await pass_time(1)
            stage.check_over()

        play(main())

    def test_who_does_not_take_its_error_is_cut(self) -> None:
        async def main() -> None:
            stage = PassStage(server={"client_stall_timeout": 5})
            first = await stage.occupy()
            wire = stage.connect()
            wire.block()
            wire.send(line(GATED, HERE + PATH, llmgate_max_wait="0"))
            await settle()
            assert (stage.outcomes, wire.gone) == (["queue_full"], False)
            await pass_time(5.1)
            assert wire.aborted
            stage.calls[0].end(LAST)
            await settle()
            assert first.answer.is_whole
            stage.check_over()

        play(main())

    def test_who_reads_on_gets_all_of_it(self) -> None:
        async def main() -> None:
            stage = PassStage(server={"client_stall_timeout": 5})
            wire = await blocked(stage, GATED)
            await pass_time(4)
            wire.unblock()
            await settle()
            assert not stage.calls[0].paused
            stage.calls[0].end(LAST)
            await settle()
            assert (wire.answer.body, wire.answer.ended) == (MORE + MORE + LAST, True)
            stage.check_over()

        play(main())


class TestStop:
    @parametrize([waiting, just_granted])
    def test_who_waits_gets_its_error(self, state: State) -> None:
        async def main() -> None:
            stage = PassStage()
            wire = await state(stage, GATED)
            stage.passage_of(wire).stop(STOPPING)
            await settle()
            assert (stage.taken, stage.outcomes) == ((0, 1, 0), ["refused"])
            assert len(stage.calls) == 1
            check_refused(wire)
            await finish_first(stage, wire)
            stage.check_over()

        play(main())

    @BOTH
    @parametrize([connecting, before_the_head])
    def test_who_has_nothing_yet_gets_its_error(self, state: State, method: str) -> None:
        async def main() -> None:
            stage = PassStage()
            wire = await state(stage, method)
            stage.passage_of(wire).stop(STOPPING)
            stage.passage_of(wire).stop(STOPPING)
            await settle()
            check_refused(wire)
            assert stage.outcomes == (["refused"] if method == GATED else [])
            await pass_time(0.03)
            stage.check_over()

        play(main())

    @BOTH
    @parametrize([after_the_head, streaming, blocked])
    def test_who_has_some_is_cut_off(self, state: State, method: str) -> None:
        async def main() -> None:
            stage = PassStage()
            wire = await state(stage, method)
            stage.passage_of(wire).stop(STOPPING)
            await settle()
            assert wire.aborted
            assert not wire.answer.ended
            assert b"llmgate: " not in wire.received
            assert stage.outcomes == (["refused"] if method == GATED else [])
            await pass_time(0.03)
            stage.check_over()

        play(main())

    @BOTH
    def test_after_the_end_there_is_nothing_to_stop(self, method: str) -> None:
        async def main() -> None:
            stage = PassStage()
            wire = await ended(stage, method)
            stage.passage_of(wire).stop(STOPPING)
            await settle()
            assert (wire.answer.body, wire.answer.ended) == (MORE + LAST, True)
            assert stage.outcomes == (["completed"] if method == GATED else [])
            stage.check_over()

        play(main())

    def test_given_up_it_hears_nothing_more(self) -> None:
        async def main() -> None:
            stage = PassStage()
            wire = await blocked(stage, GATED)
            one = stage.passage_of(wire)
            one.stop(STOPPING)
            one.give_up()
            await settle()
            assert wire.aborted
            await pass_time(0.03)
            stage.check_over()

        play(main())

    def test_who_does_not_take_its_error_is_given_up(self) -> None:
        async def main() -> None:
            stage = PassStage(server={"client_stall_timeout": 5})
            wire = await before_the_head(stage, GATED)
            wire.block()
            stage.passage_of(wire).stop(STOPPING)
            await settle()
            assert (wire.received, wire.gone) == (b"", False)
            await pass_time(5.1)
            assert (wire.aborted, stage.outcomes) == (True, ["refused"])
            stage.check_over()

        play(main())

    @pytest.mark.parametrize("first", ["stop", "leave"])
    @BOTH
    @parametrize([just_granted, connecting, *RUNNING, ended])
    def test_leaving_in_the_same_turn(self, state: State, method: str, first: str) -> None:
        async def main() -> None:
            stage = PassStage()
            if state is just_granted and method == UNGATED:
                return
            wire = await state(stage, method)
            one = stage.passage_of(wire)
            if first == "leave":
                wire.leave()
            one.stop(STOPPING)
            if first == "stop":
                wire.leave()
            await settle()
            assert len(stage.outcomes) == (method == GATED)
            await pass_time(0.03)
            await finish_first(stage, wire)
            stage.check_over()

        play(main())

    def test_the_end_and_the_stop_in_one_turn(self) -> None:
        """What was cut is not told as complete, in whichever order it became known."""

        async def main() -> None:
            stage = PassStage()
            wire = await streaming(stage, GATED)
            stage.passage_of(wire).stop(STOPPING)
            stage.calls[0].end(LAST)
            await settle()
            assert (stage.outcomes, wire.answer.ended) == (["refused"], False)
            assert wire.aborted
            stage.check_over()

        play(main())


def check_refused(wire: Wire) -> None:
    answer = wire.answer
    assert (answer.ended, answer.status, answer.headers["llmgate-code"]) == (True, 503, "REFUSED")
    assert answer.headers["x-should-retry"] == "false"
    assert b"this request was cut (REFUSED)" in answer.body
