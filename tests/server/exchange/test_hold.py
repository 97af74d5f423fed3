"""A server that takes no connection, or loads its model: nobody is lost, nobody is asked twice, nobody overtakes."""

from itertools import permutations

import pytest
from hands import ANSWER, CHAT_ANSWER, START, STOP, WHOLE

from llmgate.core.events import Admitted, EndpointChanged
from llmgate.server.sending import MOST_LOADINGS
from tests.server.holding import (
    AWAYS,
    LOADING,
    SECOND,
    STREAMS,
    TWO,
    Away,
    HoldStage,
    frames,
    load,
    model_of,
    refuse,
    states,
    without_frames,
)
from tests.server.house import UPSTREAM, logged
from tests.server.stage import PLAIN, pass_time, play, settle
from tests.server.states import begin_first, streaming


class TestOneRequest:
    @STREAMS
    @AWAYS
    def test_it_waits_again_is_told_so_and_is_served(self, away: Away, stream: bool) -> None:
        async def main() -> None:
            stage = HoldStage(waiting={"heartbeat": 60})
            wire = stage.ask(stream=stream)
            await settle()
            await away(stage.calls[0])
            assert (stage.taken, stage.is_held, stage.outcomes) == ((1, 0, 0), True, [])
            await pass_time(10)
            assert len(stage.calls) == 1
            assert wire.received if stream else not wire.received
            await stage.come_back()
            await stage.serve(stage.calls[1], stream=stream)
            assert wire.answer.is_whole
            assert states(wire) == ([(1, "upstream_down")] if stream else [])
            assert without_frames(wire) == (ANSWER if stream else WHOLE)
            assert "llmgate-position" not in wire.answer.headers, "it had a slot at once"
            assert (stage.outcomes, stage.requeued) == (["completed"], 1)
            stage.check_over()

        play(main())

    @pytest.mark.parametrize("times", [2, 3])
    @AWAYS
    def test_as_often_as_it_takes(self, away: Away, times: int) -> None:
        async def main() -> None:
            stage = HoldStage()
            wire = stage.ask()
            await settle()
            for number in range(times):
                await away(stage.calls[number])
                await stage.come_back()
            await stage.serve(stage.calls[times])
            assert states(wire) == [(1, "upstream_down")] * times
            assert without_frames(wire) == ANSWER
            assert stage.requeued == times
            stage.check_over()

        play(main())

    def test_a_server_that_will_not_load_has_its_answer_passed_on(self) -> None:
        """It says that it is well in between, and again that it is loading: the others must not wait for that."""

        async def main() -> None:
            stage = HoldStage()
            wire = stage.ask(stream=False)
            await settle()
            for number in range(MOST_LOADINGS + 1):
                await load(stage.calls[number])
                await stage.come_back()
            assert (wire.answer.status, wire.answer.ended, stage.outcomes) == (503, True, ["upstream_error"])
            assert stage.requeued == MOST_LOADINGS
            stage.check_over()

        play(main())

    @AWAYS
    def test_after_a_wait_and_a_slot_it_hears_of_positions_again(self, away: Away) -> None:
        async def main() -> None:
            stage = HoldStage()
            await begin_first(stage)
            wire = stage.ask()
            await settle()
            assert states(wire) == [(1, None)]
            told = without_frames(wire)
            stage.calls[0].end(STOP)
            await settle()
            await away(stage.calls[1])
            await pass_time(40)
            assert states(wire) == [(1, None), (1, "upstream_down")]
            comments = without_frames(wire).removeprefix(told)
            assert set(comments.split(b"\n\n")) == {b": queue 1/1", b""}
            await stage.come_back()
            await pass_time(5)
            assert without_frames(wire).endswith(b": working\n\n")
            comments = without_frames(wire)
            await stage.serve(stage.calls[2])
            assert without_frames(wire) == comments + ANSWER
            stage.check_over()

        play(main())

    @AWAYS
    def test_signs_of_life_open_its_stream(self, away: Away) -> None:
        """Of one that wants no frames, on a surface of comments too: they say that it waits, and that it does not."""

        async def main() -> None:
            stage = HoldStage(waiting={"heartbeat": 5})
            wire = stage.ask(llmgate_queue_events="comment")
            await settle()
            await away(stage.calls[0])
            await pass_time(11)
            waits = wire.answer.body
            assert (wire.answer.status, waits) == (200, b": queue 1/1\n\n" * 3)
            await stage.come_back()
            await pass_time(5)
            assert wire.answer.body == waits + b": working\n\n"
            await stage.serve(stage.calls[1])
            assert wire.answer.body == waits + b": working\n\n" + ANSWER
            assert wire.answer.is_whole
            stage.check_over()

        play(main())

    @AWAYS
    def test_blanks_go_on_where_the_settings_say_so(self, away: Away) -> None:
        async def main() -> None:
            stage = HoldStage(waiting={"heartbeat": 5, "nonstream_keepalive": "whitespace"})
            wire = stage.ask(stream=False)
            await settle()
            await away(stage.calls[0])
            await pass_time(11)
            await stage.come_back()
            await stage.serve(stage.calls[1], stream=False)
            assert wire.answer.body == b"  " + WHOLE
            stage.check_over()

        play(main())

    def test_blanks_go_on_while_the_head_is_here_and_the_answer_is_not(self) -> None:
        """Some servers send their heads at once, whether they stream or not."""

        async def main() -> None:
            stage = HoldStage(waiting={"heartbeat": 5, "nonstream_keepalive": "whitespace"}, force_stream=False)
            wire = stage.ask(stream=False)
            await settle()
            call = stage.calls[0]
            call.connect()
            await settle()
            call.head(200, PLAIN)
            await pass_time(6)
            assert wire.answer.body == b" "
            call.piece(WHOLE[:9])
            await pass_time(6)
            assert wire.answer.body == b"  "
            call.end(WHOLE[9:])
            await settle()
            assert (wire.answer.body, wire.answer.is_whole) == (b"  " + WHOLE, True)
            await pass_time(20)
            assert wire.answer.body == b"  " + WHOLE
            stage.check_over()

        play(main())

    @pytest.mark.parametrize("status", [502, 503])
    def test_either_status_may_say_that_it_loads(self, status: int) -> None:
        async def main() -> None:
            stage = HoldStage()
            wire = stage.ask()
            await settle()
            await load(stage.calls[0], status)
            assert stage.is_held
            await stage.come_back()
            await stage.serve(stage.calls[1])
            assert without_frames(wire) == ANSWER
            stage.check_over()

        play(main())

    def test_a_translated_one_too(self) -> None:
        async def main() -> None:
            stage = HoldStage(kind="openai")
            wire = stage.ask()
            await settle()
            assert stage.calls[0].target == b"/v1/chat/completions"
            await load(stage.calls[0])
            await stage.come_back()
            call = stage.calls[1]
            call.connect()
            await settle()
            call.head()
            await settle()
            call.end(CHAT_ANSWER)
            await settle()
            assert wire.answer.is_whole
            assert b"event: message_stop" in wire.answer.body
            stage.check_over()

        play(main())


class TestNotHeld:
    """Where waiting would be wrong, or is not wished for."""

    @pytest.mark.parametrize("status", [502, 503])
    def test_an_answer_that_may_have_begun_is_passed_on(self, status: int) -> None:
        async def main() -> None:
            stage = HoldStage()
            wire = stage.ask()
            await settle()
            stage.calls[0].connect()
            await settle()
            stage.calls[0].head(status, PLAIN)
            await settle()
            stage.calls[0].end(b'{"error":{"message":"Service Unavailable"}}')
            await settle()
            assert (wire.answer.status >= 500, wire.answer.errors, len(stage.calls)) == (True, 1, 1)
            assert (stage.outcomes, stage.is_held) == (["upstream_error"], False)
            stage.check_over()

        play(main())

    @pytest.mark.parametrize("headed", [False, True])
    def test_one_that_was_sent_is_lost_with_its_connection(self, headed: bool) -> None:
        async def main() -> None:
            stage = HoldStage()
            wire = stage.ask()
            await settle()
            stage.calls[0].connect()
            await settle()
            if headed:
                stage.calls[0].head(503, PLAIN)
                await settle()
                stage.calls[0].piece(LOADING[:20])
            stage.calls[0].lose()
            await settle()
            assert (wire.answer.errors, len(stage.calls), stage.requeued) == (1, 1, 0)
            assert stage.outcomes == ["upstream_error"]
            stage.check_over()

        play(main())

    def test_a_503_that_never_ends_is_not_taken_for_loading(self) -> None:
        async def main() -> None:
            stage = HoldStage(idle_timeout=5)
            wire = stage.ask()
            await settle()
            stage.calls[0].connect()
            await settle()
            stage.calls[0].head(503, PLAIN)
            await settle()
            stage.calls[0].piece(LOADING)
            await settle()
            assert stage.taken == (0, 1, 0)
            await pass_time(6)
            assert (wire.answer.errors, stage.requeued, stage.outcomes) == (1, 0, ["upstream_timeout"])
            await pass_time(1)
            stage.check_over()

        play(main())

    def test_one_that_could_not_be_written_says_nothing_of_the_server(self) -> None:
        """A mistake of ours, found before anything was sent."""

        async def main() -> None:
            stage = HoldStage()
            wire = stage.ask()
            await settle()
            stage.calls[0].connected.set_exception(ValueError("no header"))
            await settle()
            assert (wire.answer.status, wire.answer.headers["llmgate-code"]) == (500, "INTERNAL")
            assert (stage.gate.is_up(UPSTREAM), stage.requeued, len(stage.outcomes)) == (True, 0, 1)
            stage.check_over()

        with logged() as lines:
            play(main())
        assert len(lines) == 1

    @AWAYS
    def test_fail_answers_at_once(self, away: Away) -> None:
        async def main() -> None:
            stage = HoldStage(on_down="fail")
            wire, next_wire = stage.ask(), stage.ask()
            await settle()
            await away(stage.calls[0])
            assert (wire.answer.status, wire.answer.errors) == (503, 1)
            assert not stage.is_held
            assert len(stage.calls) == 2, "the next one tries for itself"
            await stage.serve(stage.calls[1])
            assert next_wire.answer.is_whole
            assert stage.requeued == 0
            stage.check_over()

        play(main())

    def test_an_answer_says_that_it_is_back(self) -> None:
        """Where everybody tries for itself, the first who has an answer is the sign."""

        async def main() -> None:
            stage = HoldStage(on_down="fail")
            stage.ask()
            await settle()
            await refuse(stage.calls[0])
            assert not stage.gate.is_up(UPSTREAM)
            stage.ask()
            await settle()
            await stage.serve(stage.calls[1])
            assert stage.gate.is_up(UPSTREAM)
            stage.check_over()

        play(main())


class TestOrder:
    @pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
    def test_refused_at_the_same_moment_they_keep_it(self, order: tuple[int, ...]) -> None:
        async def main() -> None:
            stage = HoldStage(3)
            wires = [stage.ask(model=f"m-{number}") for number in range(5)]
            await settle()
            assert [model_of(call) for call in stage.calls] == ["m-0", "m-1", "m-2"]
            for number in order:
                stage.calls[number].refuse()
            await settle()
            assert stage.taken == (5, 0, 0)
            late = stage.ask(model="m-5")
            await settle()
            stage.set_cap(1)
            await stage.come_back()
            for number in range(6):
                call = stage.calls[3 + number]
                assert model_of(call) == f"m-{number}"
                assert stage.taken == (5 - number, 1, 0)
                await stage.serve(call)
            assert all(wire.answer.is_whole for wire in [*wires, late])
            assert stage.outcomes == ["completed"] * 6
            assert sum(isinstance(event, EndpointChanged) for event in stage.events) == 2, "down once, back once"
            stage.check_over()

        play(main())

    def test_one_in_flight_that_is_answered_brings_the_others_back(self) -> None:
        """Its connection was there before the server took no more."""

        async def main() -> None:
            stage = HoldStage(2)
            answered, refused = stage.ask(model="m-0"), stage.ask(model="m-1")
            await settle()
            stage.calls[0].connect()
            await refuse(stage.calls[1])
            assert stage.taken == (1, 1, 0)
            stage.calls[0].head()
            await settle()
            assert [model_of(call) for call in stage.calls] == ["m-0", "m-1", "m-1"]
            stage.calls[0].end(ANSWER)
            await stage.serve(stage.calls[2])
            assert answered.answer.is_whole
            assert refused.answer.is_whole
            stage.check_over()

        play(main())

    def test_those_it_works_on_go_on_while_it_takes_no_more(self) -> None:
        async def main() -> None:
            stage = HoldStage(2)
            running = await streaming(stage)
            wire = stage.ask()
            await settle()
            await refuse(stage.calls[1])
            stage.calls[0].end(STOP)
            await settle()
            assert running.answer.body == START + STOP
            assert stage.taken == (1, 0, 0)
            await stage.come_back()
            await stage.serve(stage.calls[2])
            assert wire.answer.is_whole
            stage.check_over()

        play(main())


class TestTold:
    def test_all_hear_that_it_is_down_and_those_who_still_wait_that_it_is_back(self) -> None:
        async def main() -> None:
            stage = HoldStage()
            refused, waits = stage.ask(), stage.ask()
            await settle()
            await refuse(stage.calls[0])
            await stage.come_back()
            assert states(waits) == [(1, None), (2, "upstream_down"), (1, None)]
            assert states(refused) == [(1, "upstream_down")]
            await stage.serve(stage.calls[1])
            await stage.serve(stage.calls[2])
            assert waits.answer.body.endswith(ANSWER)
            stage.check_over()

        play(main())

    def test_who_comes_while_it_is_down_hears_it_at_once(self) -> None:
        async def main() -> None:
            stage = HoldStage()
            stage.services.admission.set_endpoint(UPSTREAM, UPSTREAM, up=False, reason="it takes no connection")
            wires = [stage.ask(), stage.ask(), stage.ask(stream=False)]
            await settle()
            assert len(stage.calls) == 0
            assert [[frame["state"] for frame in frames(wire)] for wire in wires] == [["upstream_down"]] * 2 + [[]]
            assert wires[2].received == b""
            await stage.come_back()
            assert [states(wire) for wire in wires] == [
                [(1, "upstream_down")],
                [(2, "upstream_down"), (1, None)],
                [],
            ]
            for number in range(3):
                await stage.serve(stage.calls[number], stream=number < 2)
            assert wires[2].answer.body == WHOLE
            stage.check_over()

        play(main())


class TestSecondEndpoint:
    @pytest.mark.parametrize("on_down", ["hold", "fail"])
    @AWAYS
    def test_it_takes_the_request_at_once(self, away: Away, on_down: str) -> None:
        async def main() -> None:
            stage = HoldStage(endpoints=TWO, on_down=on_down)
            wire = stage.ask()
            await settle()
            await away(stage.calls[0])
            first, second = stage.calls
            assert (first.target, second.target) == (b"/a/v1/messages", b"/b/v1/messages")
            assert (stage.is_held, stage.gate.is_up(UPSTREAM), stage.gate.is_up(SECOND)) == (False, False, True)
            await stage.serve(second)
            assert wire.answer.body == ANSWER
            stage.check_over()

        play(main())

    def test_refused_by_both_it_waits_for_either(self) -> None:
        async def main() -> None:
            stage = HoldStage(endpoints=TWO)
            wire = stage.ask()
            await settle()
            await refuse(stage.calls[0])
            await refuse(stage.calls[1])
            assert (stage.taken, stage.is_held) == ((1, 0, 0), True)
            await stage.come_back(SECOND)
            assert stage.calls[2].target == b"/b/v1/messages"
            await stage.serve(stage.calls[2])
            assert wire.answer.is_whole
            stage.check_over()

        play(main())

    def test_refused_by_both_it_fails_where_nobody_waits(self) -> None:
        async def main() -> None:
            stage = HoldStage(endpoints=TWO, on_down="fail")
            wire = stage.ask()
            await settle()
            await refuse(stage.calls[0])
            await refuse(stage.calls[1])
            assert (wire.answer.status, wire.answer.headers["llmgate-code"]) == (503, "UPSTREAM_DOWN")
            assert stage.outcomes == ["upstream_down"]
            stage.check_over()

        play(main())

    def test_it_takes_a_request_that_must_wait_for_it_before_those_who_came_later(self) -> None:
        async def main() -> None:
            stage = HoldStage(endpoints=TWO)
            wires = [stage.ask(model=f"m-{number}") for number in range(3)]
            await settle()
            stage.calls[1].connect()
            await refuse(stage.calls[0])
            assert stage.taken == (2, 1, 0)
            stage.calls[1].head()
            await settle()
            stage.calls[1].end(ANSWER)
            await settle()
            for number, model in ((2, "m-0"), (3, "m-2")):
                assert (model_of(stage.calls[number]), stage.calls[number].target) == (model, b"/b/v1/messages")
                await stage.serve(stage.calls[number])
            assert all(wire.answer.is_whole for wire in wires)
            stage.check_over()

        play(main())


def test_every_slot_was_at_a_server_that_was_there() -> None:
    async def main() -> None:
        stage = HoldStage(2)
        wires = [stage.ask() for _ in range(4)]
        await settle()
        for number in range(2):
            await refuse(stage.calls[number])
        await stage.come_back()
        for number in range(2, 6):
            await stage.serve(stage.calls[number])
        assert all(wire.answer.is_whole for wire in wires)
        up = True
        for event in stage.events:
            if isinstance(event, EndpointChanged):
                up = event.up
            assert up or not isinstance(event, Admitted)
        stage.check_over()

    play(main())
