"""A server that turns out not to know /v1/messages: its request is asked once more, translated, with the same slot."""

import json

import pytest
from anthropic_message import seen_in
from hands import CHAT_SPOKEN, MESSAGES_SPOKEN
from rawclient import name_of
from virtual_loop import turns

from tests.server.calls import DIRECT, TRANSLATED, answer, begin, check_hello, play_on, refuse, targets
from tests.server.house import logged
from tests.server.stage import PLAIN, Stage, pass_time, play, settle
from tests.server.states import (
    NO_SUCH_PATH,
    STOPPING,
    State,
    asking_again,
    check_refused,
    connecting,
    connecting_again,
    finish_first,
    just_learnt,
    parametrize,
    reading_a_refusal,
    streaming_translated,
    waiting,
)


class TestLearnt:
    @pytest.mark.parametrize(
        ("status", "body"),
        [(404, NO_SUCH_PATH), (404, b""), (404, b"404 page not found"), (405, b"{}"), (501, b"model")],
    )
    def test_its_client_notices_nothing(self, status: int, body: bytes) -> None:
        async def main() -> None:
            stage = Stage()
            wire = stage.ask(model="nick")
            await settle()
            await refuse(stage.calls[0], status, body)
            assert (wire.received, stage.taken, stage.outcomes) == (b"", (0, 1, 0), [])
            await answer(stage.calls[1])
            check_hello(wire)
            assert json.loads(stage.calls[1].body)["model"] == "m-real"
            assert "llmgate-position" not in wire.answer.headers
            assert (targets(stage), stage.outcomes) == ([DIRECT, TRANSLATED], ["completed"])
            stage.check_over()

        play(main())

    def test_the_next_ones_are_translated_at_once(self) -> None:
        async def main() -> None:
            stage = Stage()
            await connecting_again(stage)
            await play_on(stage)
            wire = stage.ask()
            await settle()
            await answer(stage.calls[-1])
            check_hello(wire)
            assert targets(stage) == [DIRECT, TRANSLATED, TRANSLATED]
            stage.check_over()

        play(main())

    def test_when_it_is_forgotten_it_is_asked_again(self) -> None:
        async def main() -> None:
            stage = Stage()
            await connecting_again(stage)
            await play_on(stage)
            stage.speech.forget()
            await connecting_again(stage)
            await play_on(stage)
            assert targets(stage) == [DIRECT, TRANSLATED] * 2
            stage.check_over()

        play(main())

    @pytest.mark.parametrize("again", [True, False], ids=["refuses again", "was wrong"])
    def test_one_that_knew_the_path_is_asked_once_more(self, again: bool) -> None:
        """One odd answer of a server that speaks Messages must not translate everything from then on."""

        async def main() -> None:
            stage = Stage()
            stage.speech.messages = True
            wire = stage.ask(stream=False)
            await settle()
            await refuse(stage.calls[0])
            if again:
                await refuse(stage.calls[1])
            await begin(stage.calls[-1], 200)
            stage.calls[-1].end(CHAT_SPOKEN.whole if again else MESSAGES_SPOKEN.whole)
            await settle()
            assert targets(stage) == [DIRECT, DIRECT] + [TRANSLATED] * again
            assert (wire.answer.status, stage.outcomes) == (200, ["completed"])
            assert stage.speech.messages is (False if again else None)
            stage.check_over()

        play(main())

    def test_one_without_a_stream(self) -> None:
        async def main() -> None:
            stage = Stage()
            wire = stage.ask(stream=False)
            await settle()
            await refuse(stage.calls[0])
            await begin(stage.calls[1], 200)
            stage.calls[1].end(CHAT_SPOKEN.whole)
            await settle()
            assert json.loads(wire.answer.body)["content"] == [{"type": "text", "text": "Hello"}]
            assert (wire.answer.status, wire.answer.ended, stage.outcomes) == (200, True, ["completed"])
            stage.check_over()

        play(main())

    def test_a_plain_answer_to_a_stream_becomes_one(self) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await asking_again(stage)
            stage.calls[1].head(200, PLAIN)
            await settle()
            stage.calls[1].end(CHAT_SPOKEN.whole)
            await settle()
            check_hello(wire)
            assert wire.answer.headers["content-type"] == "text/event-stream; charset=utf-8"
            assert stage.outcomes == ["completed"]
            stage.check_over()

        play(main())

    def test_signs_of_life_go_on_through_both_calls(self) -> None:
        async def main() -> None:
            stage = Stage(waiting={"heartbeat": 2})
            wire = await waiting(stage)
            await finish_first(stage, wire)
            first, second = stage.calls[-1], len(stage.calls)
            await begin(first, 404)
            await pass_time(3)
            first.end(NO_SUCH_PATH)
            await settle()
            await pass_time(3)
            await answer(stage.calls[second])
            frames = [name_of(frame) for frame in wire.answer.body.split(b"\n\n")[:-1]]
            begun = frames.index("message_start")
            assert (frames[:begun], ":" in frames[begun:]) == (["queue", ":", ":", ":"], False)
            stage.check_over()

        play(main())

    def test_two_may_learn_it_at_once(self) -> None:
        async def main() -> None:
            stage = Stage(upstream={"max_concurrent": 2})
            wires = [stage.ask(), stage.ask()]
            await settle()
            await begin(stage.calls[1], 404)
            await refuse(stage.calls[0])
            assert (targets(stage), stage.taken) == ([DIRECT, DIRECT, TRANSLATED], (0, 2, 0))
            await answer(stage.calls[2])
            stage.calls[1].end(NO_SUCH_PATH)
            await settle()
            await answer(stage.calls[3])
            for wire in wires:
                check_hello(wire)
            assert stage.outcomes == ["completed"] * 2
            stage.check_over()

        play(main())

    def test_what_was_learnt_while_it_waited_is_known_when_it_runs(self) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await connecting(stage)
            second = stage.ask()
            await settle()
            await refuse(stage.calls[0])
            await answer(stage.calls[1])
            await answer(stage.calls[2])
            check_hello(wire)
            assert b"Hello" in second.answer.body
            assert (targets(stage), stage.outcomes) == ([DIRECT, TRANSLATED, TRANSLATED], ["completed"] * 2)
            stage.check_over()

        play(main())


class TestSlot:
    def test_who_waits_is_not_let_in_between(self) -> None:
        """F05: at no moment between the two calls, nor at their seam."""

        async def main() -> None:
            stage = Stage()
            wire = await reading_a_refusal(stage)
            other = stage.ask()
            await settle()
            stage.calls[0].end(NO_SUCH_PATH[9:])
            for _ in range(20):
                assert (stage.taken, set(targets(stage)[1:])) in (((1, 1, 0), set()), ((1, 1, 0), {TRANSLATED}))
                assert len(stage.calls) <= 2
                await turns(1)
            await answer(stage.calls[1])
            check_hello(wire)
            assert stage.outcomes == ["completed"]
            await answer(stage.calls[2])
            assert other.answer.is_whole
            stage.check_over()

        play(main())

    @pytest.mark.parametrize("after", range(8))
    @pytest.mark.parametrize("event", ["leaves", "is-reset", "is-stopped", "leaves-and-is-stopped"])
    def test_an_end_in_any_turn_between_the_calls(self, event: str, after: int) -> None:
        """The upstream is free: where no second call was begun the slot is back at once, and does not drain."""

        async def main() -> None:
            stage = Stage()
            wire = await just_learnt(stage)
            other = stage.ask()
            await turns(after)
            running = stage.exchange_of(wire)
            if "leaves" in event:
                wire.leave()
            if event == "is-reset":
                wire.leave(ConnectionResetError())
            if "stopped" in event:
                running.stop(STOPPING)
            await settle()
            assert stage.outcomes == ["refused" if "stopped" in event else "client_gone"]
            assert not any(call.sent for call in stage.calls[1:])
            assert stage.taken == (0, 1, 0)
            if event == "is-stopped":
                check_refused(wire)
            await answer(stage.calls[-1])
            assert other.answer.is_whole
            stage.check_over()

        with logged() as lines:
            play(main())
        assert lines == []

    @parametrize([reading_a_refusal, just_learnt, connecting_again, asking_again, streaming_translated])
    def test_a_cap_that_changes(self, state: State) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await state(stage)
            stage.set_cap(2)
            other = stage.ask()
            await settle()
            assert stage.taken == (0, 2, 0)
            stage.set_cap(1)
            third = stage.ask()
            await settle()
            assert stage.taken == (1, 2, 0)
            await play_on(stage)
            assert stage.taken == (1, 1, 0)
            assert len([call for call in stage.calls if not call.over]) == 1
            await play_on(stage)
            await play_on(stage)
            assert [one.answer.is_whole for one in (wire, other, third)] == [True] * 3
            assert stage.outcomes == ["completed"] * 3
            stage.check_over()

        play(main())

    def test_a_second_call_that_finds_nobody(self) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await connecting_again(stage)
            stage.calls[1].refuse()
            await settle()
            assert (wire.answer.status, stage.outcomes) == (503, ["upstream_down"])
            assert b"UPSTREAM_DOWN" in wire.answer.body
            stage.check_over()

        play(main())

    def test_a_second_call_that_breaks_off(self) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await streaming_translated(stage)
            stage.calls[1].lose()
            await settle()
            seen = seen_in(wire.answer.body)
            assert (seen.faults, seen.stop_reason, stage.outcomes) == ([], None, ["upstream_error"])
            assert seen.error is not None
            stage.check_over()

        play(main())
