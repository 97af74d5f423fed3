"""Answers that teach nothing of the path, and requests that cannot be asked in another way."""

import json
from typing import Any

import pytest
from gateprocess import MESSAGES, request_body
from rawclient import post

from llmgate.server import exchange
from tests.server.calls import DIRECT, TRANSLATED, answer, refuse, targets
from tests.server.stage import PLAIN, Stage, Wire, pass_time, play, settle
from tests.server.states import (
    NO_SUCH_MODEL,
    NO_SUCH_PATH,
    before_the_headers,
    connecting,
    connecting_again,
    reading_a_refusal,
)

SERVER_TOOL = [{"type": "web_search_20250305", "name": "web_search"}]


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
