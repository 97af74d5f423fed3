"""F38 to F40: an upstream that fails: before anything was sent with a status, after that with an error event."""

import asyncio
import json

import pytest
from gateprocess import CHAT, MESSAGES
from hands import ANSWER, CHAT_ANSWER, STOP, WHOLE, Hands, Turn, delta
from puppet import refusing_port
from rawclient import Client, CutOff, data_of, name_of, names_of

from llmgate.protocols.anthropic import MessagesSurface
from llmgate.server import exchange
from tests.server.answers import (
    OVERLOADED,
    PASSED_HEADERS,
    PATHS,
    STRANGE_HEADERS,
    STRIPPED_HEADERS,
)
from tests.server.house import UPSTREAM, House, OpenHouse, logged
from tests.server.schedule import UPSTREAM_ERROR
from tests.server.stage import Stage, pass_time, play, settle
from tests.server.states import (
    before_the_headers,
)


class TestUpstreamFails:
    """F38 to F40: before anything was sent with a status, after queue frames with an error event."""

    async def ask(self, house: House, hands: Hands, path: str, *, waits: bool) -> tuple[Client, Turn]:
        if not waits:
            return await house.ask(path=path), await hands.turn()
        _, first = await house.occupy()
        client = await house.queue(path=path)
        await client.frame()
        await first.end()
        return client, await hands.turn()

    async def check_error(self, client: Client, path: str, *, waits: bool, status: int, text: str) -> None:
        head = await client.head()
        body = await client.body()
        assert head.status == (200 if waits else status)
        assert text in body.decode()
        if waits:
            assert body.count(b"event: error" if path == MESSAGES else b'data: {"error"') == 1
            assert body.endswith(b"data: [DONE]\n\n") == (path == CHAT)
        else:
            assert head.headers["content-type"] == "application/json"
            assert json.loads(body)["error"]

    @pytest.mark.parametrize("waits", [False, True], ids=["at-once", "waited"])
    @PATHS
    @pytest.mark.parametrize(
        ("status", "outcome"), [(400, None), (429, "upstream_error"), (500, "upstream_error"), (599, "upstream_error")]
    )
    async def test_with_a_status(
        self, house: House, hands: Hands, path: str, waits: bool, status: int, outcome: str | None
    ) -> None:
        client, turn = await self.ask(house, hands, path, waits=waits)
        await turn.answer(status, OVERLOADED, STRANGE_HEADERS)
        await self.check_error(client, path, waits=waits, status=status, text="come again")
        if not waits:
            head = (await client.head()).headers
            assert head.items() >= PASSED_HEADERS.items()
            assert not head.keys() & STRIPPED_HEADERS
            assert head["llmgate-upstream"] == UPSTREAM
        if outcome is not None:
            assert house.outcomes[-1] == outcome

    @pytest.mark.parametrize("waits", [False, True], ids=["at-once", "waited"])
    @PATHS
    @pytest.mark.parametrize("status", [600, 999])
    async def test_with_a_status_that_http_does_not_have(
        self, house: House, hands: Hands, path: str, waits: bool, status: int
    ) -> None:
        client, turn = await self.ask(house, hands, path, waits=waits)
        await turn.answer(status, OVERLOADED)
        await self.check_error(client, path, waits=waits, status=502, text="none of HTTP's (UPSTREAM_ERROR)")
        assert house.outcomes[-1] == "upstream_error"

    @pytest.mark.parametrize("waits", [False, True], ids=["at-once", "waited"])
    @PATHS
    @pytest.mark.parametrize(
        "answer",
        [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-le"],
        ids=["closed", "no-http", "half-a-head"],
    )
    async def test_without_a_head(self, house: House, hands: Hands, path: str, waits: bool, answer: bytes) -> None:
        client, turn = await self.ask(house, hands, path, waits=waits)
        await turn.connection.send(answer)
        turn.connection.close()
        await self.check_error(client, path, waits=waits, status=502, text="(UPSTREAM_ERROR)")
        assert house.outcomes[-1] == "upstream_error"

    @pytest.mark.parametrize("waits", [False, True], ids=["at-once", "waited"])
    @PATHS
    async def test_nobody_there(self, open_house: OpenHouse, path: str, waits: bool) -> None:
        with refusing_port() as port:
            house = await open_house(f"http://127.0.0.1:{port}")
            house.set_cap(0 if not waits else 1)
            house.services.admission._desks[UPSTREAM].gate.set_paused(waits, asyncio.get_running_loop().time())
            client = await house.ask(path=path)
            if waits:
                await client.frame()
                house.services.admission._desks[UPSTREAM].gate.set_paused(False, asyncio.get_running_loop().time())
                house.services.admission._desks[UPSTREAM].pump()
            await self.check_error(client, path, waits=waits, status=503, text="(UPSTREAM_DOWN)")
            assert house.outcomes == ["upstream_down"]

    @pytest.mark.parametrize("waits", [False, True], ids=["at-once", "waited"])
    @PATHS
    async def test_no_stream(self, house: House, hands: Hands, path: str, waits: bool) -> None:
        """Before anything was sent it passes as it is; after that it can only be an error."""
        client, turn = await self.ask(house, hands, path, waits=waits)
        await turn.answer(200, WHOLE)
        if waits:
            await self.check_error(client, path, waits=True, status=200, text="without a stream (UPSTREAM_ERROR)")
        else:
            assert await client.body() == WHOLE
        assert house.outcomes[-1] == ("upstream_error" if waits else "completed")

    @pytest.mark.parametrize("waits", [False, True], ids=["at-once", "waited"])
    @pytest.mark.parametrize("end", ["close", "reset", "regular"])
    @pytest.mark.parametrize("half", [b"", delta("half")[:30]])
    async def test_mid_stream(self, house: House, hands: Hands, waits: bool, end: str, half: bytes) -> None:
        """Whole events, then the error event, then the regular end of the body."""
        client, turn = await self.ask(house, hands, MESSAGES, waits=waits)
        await turn.begin()
        assert name_of(await client.frame()) == "message_start"
        assert name_of(await client.frame()) == "content_block_start"
        if half:
            await turn.say(half)
        if end == "regular":
            await turn.end(b"")
        else:
            getattr(turn.connection, end)()
        frames = await client.frames()
        assert names_of(frames) == ["error"]
        assert "(UPSTREAM_ERROR)" in data_of(frames[0])["error"]["message"]
        assert house.outcomes[-1] == "upstream_error"

    @PATHS
    async def test_f39_headers_and_no_body(self, house: House, hands: Hands, path: str) -> None:
        """Both when it says there is none, and when it breaks off."""
        for close in (False, True):
            client = await house.ask(path=path)
            turn = await hands.turn()
            await turn.begin(b"")
            await client.head()
            if close:
                turn.connection.close()
            else:
                await turn.end(b"")
            assert b"UPSTREAM_ERROR" in await client.body()
            await house.wait(lambda: house.taken == (0, 0, 0))
        assert house.outcomes == ["upstream_error"] * 2

    @pytest.mark.parametrize("last", [STOP, UPSTREAM_ERROR], ids=["complete", "failed"])
    async def test_after_its_own_end(self, house: House, hands: Hands, last: bytes) -> None:
        """A stream that told its end, by its own error even, gets none of ours behind it."""
        client, turn = await self.ask(house, hands, MESSAGES, waits=False)
        await turn.begin()
        await turn.say(last)
        await client.until("message_stop" if last is STOP else "error")
        turn.connection.reset()
        assert await client.frames() == []
        assert house.outcomes == ["completed" if last is STOP else "upstream_error"]

    @PATHS
    async def test_an_event_without_an_end(self, house: House, hands: Hands, path: str) -> None:
        """It passes as it comes, and when it breaks off the connection is aborted: nothing in it looks complete."""
        client, turn = await self.ask(house, hands, path, waits=False)
        await turn.begin(b"data: ")
        for _ in range(40):
            await turn.say(b"x" * 65536)
        while len(client.received) < 2_000_000:
            await client.chunk()
        turn.connection.close()
        with pytest.raises(CutOff):
            await client.body()
        assert client.received.strip(b"x") == b"data: "
        assert house.outcomes == ["upstream_error"]

    async def test_too_slow(self, open_house: OpenHouse, hands: Hands) -> None:
        house = await open_house(upstream={"idle_timeout": 0.02})
        client, turn = await self.ask(house, hands, MESSAGES, waits=False)
        await turn.begin()
        assert name_of((await client.frames())[-1]) == "error"
        await turn.wait_closed()
        assert house.outcomes == ["upstream_timeout"]

    async def test_an_answer_too_long_to_be_held(
        self, house: House, hands: Hands, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(exchange, "LARGEST_ANSWER", 10)
        client = await house.ask(stream=False)
        await (await hands.turn()).complete()
        assert (await client.head()).status == 502
        assert "too long" in (await client.json())["error"]["message"]


TOLD = [
    (400, "n_prompt_tokens", "invalid_request_error", "prompt is too long: 9 tokens > 5 maximum", "completed"),
    (429, "n", "rate_limit_error", "slowly", "upstream_error"),
    (503, "n", "overloaded_error", "slowly", "upstream_error"),
    (500, "n", "api_error", "slowly", "upstream_error"),
]


@pytest.mark.parametrize(("status", "count", "kind", "message", "outcome"), TOLD)
@pytest.mark.parametrize("how", ["at-once", "in-the-middle", "whole"])
async def test_an_error_told_within_an_answer_is_an_answer_of_its_own(
    open_house: OpenHouse, hands: Hands, how: str, status: int, count: str, kind: str, message: str, outcome: str
) -> None:
    """To a client that asked for no stream, from a server that speaks chat completions."""
    house = await open_house(upstream={"kind": "openai", "force_stream": True})
    client = await house.ask(path=MESSAGES, stream=False)
    turn = await hands.turn()
    error = json.dumps({"error": {"message": "slowly", "code": status, count: 9, "n_ctx": 5}}).encode()
    if how == "whole":
        await turn.answer(200, error)
    else:
        await turn.begin(b"" if how == "at-once" else b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n')
        await turn.say(b"data: " + error + b"\n\n")
    told = (await client.json())["error"]
    assert ((await client.head()).status, told["type"], told["message"]) == (status, kind, message)
    await house.wait(lambda: house.taken == (0, 0, 0))
    assert house.outcomes == [outcome]


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
def test_f40_a_stream_that_is_cut_at_any_byte(path: str) -> None:
    """Whole events and one error event, or the whole stream."""
    answer = ANSWER if path == "/v1/messages" else CHAT_ANSWER
    error = b"event: error\n" if path == "/v1/messages" else b'data: {"error"'

    async def main() -> None:
        stage = Stage(upstream={"release_timeout": 0})
        for cut in range(len(answer) + 1):
            wire = stage.ask(path=path)
            await settle()
            call = stage.calls[-1]
            call.connect()
            await settle()
            call.head()
            await settle()
            if cut:
                call.piece(answer[:cut])
            call.lose()
            await settle()
            got = wire.answer.body
            whole = answer[: answer.rfind(b"\n\n", 0, cut) + 2] if b"\n\n" in answer[:cut] else b""
            assert wire.answer.ended
            assert got.startswith(whole)
            rest = got[len(whole) :]
            assert rest.startswith(error) if cut < len(answer) else rest == b""
            wire.leave()
        await settle()
        stage.check_over()

    play(main())


def test_a_fault_of_ours_is_no_timeout_of_the_upstream(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bytes:
        raise ZeroDivisionError

    async def main() -> None:
        stage = Stage()
        await before_the_headers(stage)
        monkeypatch.setattr(MessagesSurface, "watch", fail)
        stage.calls[0].head()
        await settle()
        assert (stage.taken, stage.outcomes) == ((0, 0, 1), ["upstream_error"])
        await pass_time(0.03)
        stage.check_over()

    with logged() as lines:
        play(main())
    assert len(lines) == 1


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 302 Found\r\nlocation: /\r\n", b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n"]
)
@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_that_cannot_be_passed_on_is_the_upstreams_fault(
    house: House, hands: Hands, head: bytes, stream: bool
) -> None:
    client = await house.ask(stream=stream)
    turn = await hands.turn()
    await turn.connection.send(head + b"content-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
    assert (await client.head()).status == 502
    await client.body()
    await house.wait(lambda: house.outcomes == ["upstream_error"])


@PATHS
async def test_an_error_inside_a_stream_that_is_put_together_is_told_without_our_secrets(
    open_house: OpenHouse, hands: Hands, path: str
) -> None:
    house = await open_house(upstream={"force_stream": True, "headers": {"x-tenant": "tenant-secret"}})
    client = await house.ask(path=path, stream=False)
    turn = await hands.turn()
    assert turn.request.header(b"x-tenant") == b"tenant-secret"
    await turn.begin(b'data: {"error":{"message":"unknown tenant tenant-secret","code":401}}\n\n')
    told = (await client.body()).decode()
    assert (await client.head()).status == 401
    assert "unknown tenant ***" in told
    assert "tenant-secret" not in told
    await turn.wait_closed()


@pytest.mark.parametrize(
    ("path", "error"),
    [
        (MESSAGES, b'event: error\ndata: {"type":"error","error":{"type":"x","message":"unknown tenant %s: "}}\n\n'),
        (CHAT, b'data: {"error":{"message":"unknown tenant %s: ","type":"x","param":null,"code":"c"}}\n\n'),
        ("/api/chat", b'{"error":"unknown tenant %s: "}\n'),
    ],
)
async def test_an_error_inside_a_clients_own_stream_is_told_without_our_secrets(
    open_house: OpenHouse, hands: Hands, path: str, error: bytes
) -> None:
    house = await open_house(upstream={"headers": {"x-tenant": "tenant-secret"}})
    client = await house.ask(path=path)
    turn = await hands.turn()
    await turn.begin(error % b"tenant-secret")
    await turn.end()
    assert (error % b"***") in await client.body()
    await house.wait(lambda: house.outcomes == ["upstream_error"])
