"""A server that turns out not to know /v1/messages: its request is asked once more, translated, with the same slot."""

import json
from typing import Any

import pytest
from anthropic_message import seen_in
from gateprocess import MESSAGES, request_body
from hands import CHAT_SPOKEN, MESSAGES_SPOKEN
from rawclient import name_of, post
from virtual_loop import turns

from llmgate.server import exchange
from tests.server.house import logged
from tests.server.stage import PLAIN, Call, Stage, Wire, pass_time, play, settle
from tests.server.states import (
    NO_SUCH_MODEL,
    NO_SUCH_PATH,
    STOPPING,
    State,
    asking_again,
    before_the_headers,
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

DIRECT, TRANSLATED = b"/v1/messages", b"/v1/chat/completions"
SERVER_TOOL = [{"type": "web_search_20250305", "name": "web_search"}]


async def begin(call: Call, status: int) -> None:
    """Up to the head of its answer."""
    call.connect()
    await settle()
    call.head(status, PLAIN)
    await settle()


async def refuse(call: Call, status: int = 404, body: bytes = NO_SUCH_PATH) -> None:
    await begin(call, status)
    call.end(body)
    await settle()


async def answer(call: Call) -> None:
    """A whole stream."""
    call.connect()
    await settle()
    call.head()
    await settle()
    call.end(call.spoken.start + call.spoken.rest)
    await settle()


async def play_on(stage: Stage) -> None:
    """The oldest call that is open goes on to its end, from wherever it stands; so does the one that follows a 404."""
    call = next(call for call in stage.calls if not call.over)
    if not call.answer.has_head:
        await answer(call)
        return
    refused = call.answer.status == 404
    call.end(NO_SUCH_PATH[9:] if refused else call.spoken.rest)
    await settle()
    if refused:
        await answer(stage.calls[-1])


def targets(stage: Stage) -> list[bytes]:
    return [call.target for call in stage.calls]


def check_hello(wire: Wire) -> None:
    """One good message, and nothing of how it came about."""
    seen = seen_in(wire.answer.body)
    assert (seen.faults, seen.content) == ([], [{"type": "text", "text": "Hello"}])
    assert wire.answer.is_whole


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


class TestNotLearnt:
    def check_told(self, stage: Stage, wire: Wire, status: int, text: bytes) -> None:
        assert (wire.answer.status, wire.answer.errors) == (status, 1)
        assert json.loads(wire.answer.body)["type"] == "error"
        assert text in wire.answer.body
        assert (stage.speech.messages, stage.taken, len(stage.calls)) == (None, (0, 0, 0), 1)
        stage.check_over()

    def test_a_refusal_of_the_model_is_passed_on(self) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await before_the_headers(stage)
            stage.calls[0].head(404, [*PLAIN, (b"request-id", b"up-1")])
            await settle()
            stage.calls[0].end(NO_SUCH_MODEL)
            await settle()
            assert wire.answer.headers["request-id"] == "up-1"
            assert stage.outcomes == ["completed"]
            self.check_told(stage, wire, 404, b"The model `m` does not exist.")

        play(main())

    def test_then_who_waits_is_let_in(self) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await before_the_headers(stage)
            other = stage.ask()
            await settle()
            stage.calls[0].head(404, PLAIN)
            await settle()
            stage.calls[0].end(NO_SUCH_MODEL)
            await settle()
            assert (wire.answer.status, stage.taken) == (404, (0, 1, 0))
            await answer(stage.calls[1])
            assert other.answer.is_whole
            stage.check_over()

        play(main())

    def test_a_refusal_that_breaks_off(self) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await reading_a_refusal(stage)
            stage.calls[0].lose()
            await settle()
            assert stage.outcomes == ["upstream_error"]
            self.check_told(stage, wire, 502, b"UPSTREAM_ERROR")

        play(main())

    def test_a_refusal_that_does_not_end(self) -> None:
        async def main() -> None:
            stage = Stage(upstream={"idle_timeout": 1})
            wire = await reading_a_refusal(stage)
            await pass_time(2)
            assert stage.outcomes == ["upstream_timeout"]
            self.check_told(stage, wire, 504, b"UPSTREAM_TIMEOUT")

        play(main())

    def test_a_refusal_too_long_to_be_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(exchange, "LARGEST_ERROR", 20)

        async def main() -> None:
            stage = Stage()
            wire = await reading_a_refusal(stage)
            stage.calls[0].piece(NO_SUCH_PATH)
            await settle()
            assert (stage.taken, stage.outcomes) == ((0, 0, 1), ["upstream_error"])
            await pass_time(0.03)
            self.check_told(stage, wire, 502, b"too long")

        play(main())

    @pytest.mark.parametrize("status", [400, 403, 500, 503])
    def test_another_status_is_about_something_else(self, status: int) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await connecting(stage)
            await refuse(stage.calls[0], status)
            self.check_told(stage, wire, status, b"File Not Found")

        play(main())

    def test_a_server_that_speaks_no_chat_either(self) -> None:
        async def main() -> None:
            stage = Stage(upstream={"kind": "anthropic"})
            wire = await connecting(stage)
            await refuse(stage.calls[0])
            self.check_told(stage, wire, 404, b"File Not Found")

        play(main())

    @pytest.mark.parametrize(
        "path", ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/v1/rerank"]
    )
    def test_other_surfaces_pass_it_on(self, path: str) -> None:
        async def main() -> None:
            stage = Stage()
            wire = stage.ask(path=path, stream=False)
            await settle()
            await refuse(stage.calls[0])
            assert (wire.answer.status, wire.answer.body) == (404, NO_SUCH_PATH)
            assert targets(stage) == [path.encode()]
            stage.check_over()

        play(main())


class TestTwice:
    """Once it was learnt nothing more is: the second answer is the last one."""

    @pytest.mark.parametrize("body", [NO_SUCH_PATH, NO_SUCH_MODEL])
    def test_the_second_answer_is_passed_on(self, body: bytes) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await connecting_again(stage)
            await refuse(stage.calls[1], 404, body)
            told = json.loads(wire.answer.body)
            assert (wire.answer.status, told["error"]["type"]) == (404, "not_found_error")
            assert told["error"]["message"] == json.loads(body)["error"]["message"]
            assert (targets(stage), stage.outcomes) == ([DIRECT, TRANSLATED], ["completed"])
            stage.check_over()

        play(main())


class TestUnspeakable:
    """What cannot be said in chat completions is a fault of the request, whenever that is noticed."""

    def ask(self, stage: Stage, **fields: Any) -> Wire:
        wire = stage.connect()
        wire.send(post(MESSAGES, request_body("m", tools=SERVER_TOOL, **fields)))
        return wire

    def test_where_it_is_known_no_place_is_taken(self) -> None:
        async def main() -> None:
            stage = Stage(upstream={"kind": "openai"})
            wire = self.ask(stage)
            await settle()
            assert (wire.answer.status, wire.answer.headers["llmgate-code"]) == (400, "BAD_REQUEST")
            assert (stage.events, stage.calls) == ([], [])
            stage.check_over()

        play(main())

    def test_where_it_is_learnt_the_slot_comes_back(self) -> None:
        async def main() -> None:
            stage = Stage()
            wire = self.ask(stage)
            await settle()
            await refuse(stage.calls[0])
            assert (wire.answer.status, stage.outcomes, len(stage.calls)) == (400, ["refused"], 1)
            assert b"BAD_REQUEST" in wire.answer.body
            assert stage.speech.messages is False
            stage.check_over()

        play(main())

    def test_where_it_was_learnt_while_it_waited_its_stream_tells_it(self) -> None:
        async def main() -> None:
            stage = Stage()
            await connecting(stage)
            wire = self.ask(stage)
            await settle()
            await refuse(stage.calls[0])
            await answer(stage.calls[1])
            assert (wire.answer.status, wire.answer.errors, wire.answer.ended) == (200, 1, True)
            assert b"invalid_request_error" in wire.answer.body
            assert (stage.outcomes, len(stage.calls)) == (["completed", "refused"], 2)
            stage.check_over()

        play(main())
