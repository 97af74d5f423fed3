"""One request on its way: what its client gets and what becomes of its slot. Its rarer fates: folder `exchange`."""

import asyncio
import threading
from typing import Any

import pytest
from gateprocess import CHAT, MESSAGES, request_body
from hands import ANSWER, CHAT_ANSWER, CHAT_WHOLE, START, STOP, WHOLE, Hands, delta
from rawclient import name_of, positions_of

from llmgate.protocols.anthropic import MessagesSurface
from llmgate.protocols.translate.way import Translated
from llmgate.server import exchange
from llmgate.server.asgi import LARGE_BODY
from llmgate.upstreams.answer import Answer, Done
from tests.server.answers import (
    OVERLOADED,
    PASSED_HEADERS,
    PATHS,
    STRANGE_HEADERS,
    STRIPPED_HEADERS,
    SURFACES,
    sse_head,
)
from tests.server.house import UPSTREAM, House, OpenHouse
from tests.server.stage import Stage, play, settle
from tests.server.states import (
    STOPPING,
    streaming,
)


class TestSlotFree:
    @pytest.mark.parametrize(("path", "answer"), SURFACES)
    async def test_a_stream_passes_as_it_is(self, house: House, hands: Hands, path: str, answer: bytes) -> None:
        """F53: and of the upstream's headers those on the list."""
        client = await house.ask(path=path)
        turn = await hands.turn()
        await turn.connection.send(sse_head(STRANGE_HEADERS))
        head = await client.head()
        assert head.status == 200
        assert head.headers.items() >= PASSED_HEADERS.items()
        assert not head.headers.keys() & STRIPPED_HEADERS
        assert head.headers["content-type"] == "text/event-stream; charset=x"
        assert (head.headers["cache-control"], head.headers["x-accel-buffering"]) == ("no-cache", "no")
        assert head.headers["llmgate-upstream"] == UPSTREAM
        assert head.headers["llmgate-request-id"] == turn.request.header(b"llmgate-request-id").decode()  # type: ignore[union-attr]
        assert not head.headers.keys() & {"llmgate-position", "llmgate-depth", "llmgate-queued-ms"}
        await turn.end(answer)
        assert await client.body() == answer
        assert (house.outcomes, house.queued) == (["completed"], 0)

    @pytest.mark.parametrize(("path", "body"), [(MESSAGES, WHOLE), (CHAT, CHAT_WHOLE)])
    async def test_a_whole_answer_passes_as_it_is(self, house: House, hands: Hands, path: str, body: bytes) -> None:
        client = await house.ask(path=path, stream=False)
        turn = await hands.turn()
        await turn.answer(201, body, STRANGE_HEADERS)
        head = await client.head()
        assert (head.status, head.headers["content-length"]) == (201, str(len(body)))
        assert head.headers.items() >= PASSED_HEADERS.items()
        assert not head.headers.keys() & {*STRIPPED_HEADERS, "llmgate-position", "llmgate-queued-ms"}
        assert await client.body() == body
        assert house.outcomes == ["completed"]

    async def test_the_request_is_forwarded_unchanged(self, house: House, hands: Hands) -> None:
        client = await house.ask(path=MESSAGES + "?beta=true", headers={"anthropic-version": "2023-06-01"})
        turn = await hands.turn()
        assert turn.request.line == b"POST /v1/messages?beta=true HTTP/1.1"
        assert turn.request.body == request_body("m")
        assert turn.request.header(b"anthropic-version") == b"2023-06-01"
        await turn.complete()
        await client.body()

    async def test_an_alias_is_replaced_and_nothing_else(self, house: House, hands: Hands) -> None:
        client = await house.ask("nick")
        turn = await hands.turn()
        assert turn.request.body == request_body("nick").replace(b'"nick"', b'"m-real"')
        await turn.complete()
        await client.body()

    async def test_a_stream_for_one_who_wanted_none_is_an_error(self, house: House, hands: Hands) -> None:
        client = await house.ask(stream=False)
        turn = await hands.turn()
        await turn.begin()
        await turn.end()
        assert (await client.head()).status == 502
        assert b"no JSON document" in await client.body()
        assert house.outcomes == ["upstream_error"]


class TestWaiting:
    async def test_positions_then_the_stream(self, house: House, hands: Hands) -> None:
        first, turn = await house.occupy()
        second, third = await house.queue(1), await house.queue(2)
        assert positions_of([await third.frame()]) == [(2, 2)]
        head = (await third.head()).headers
        assert (head["llmgate-position"], head["llmgate-depth"]) == ("2", "2")
        assert "llmgate-queued-ms" not in head
        await turn.end()
        assert await first.body() == START + STOP
        assert positions_of([await third.frame()]) == [(1, 1)]
        for client in (second, third):
            await (await hands.turn()).complete()
            frames = await client.frames()
            assert b"".join(frame for frame in frames if name_of(frame) != "queue") == ANSWER
        assert house.outcomes == ["completed"] * 3

    async def test_chat_is_told_by_comments(self, house: House, hands: Hands) -> None:
        _, turn = await house.occupy()
        client = await house.queue(path=CHAT)
        assert await client.frame() == b": queue 1/1\n\n"
        await turn.end()
        await (await hands.turn()).complete()
        assert b"".join(await client.frames()) == CHAT_ANSWER

    async def test_comments_where_a_client_wants_them(self, house: House, hands: Hands) -> None:
        _, turn = await house.occupy()
        client = await house.queue(headers={"llmgate-queue-events": "comment"})
        assert await client.frame() == b": queue 1/1\n\n"
        await turn.end()
        await (await hands.turn()).complete()
        assert b"".join(await client.frames()) == ANSWER

    async def test_nothing_where_a_client_wants_nothing(self, open_house: OpenHouse, hands: Hands) -> None:
        """Not even a sign of life; an error of the upstream then comes with its status."""
        house = await open_house(waiting={"heartbeat": 0.01})
        _, turn = await house.occupy()
        client = await house.queue(headers={"llmgate-queue-events": "off"})
        await turn.end()
        turn = await hands.turn()
        await asyncio.sleep(0.03)
        await turn.answer(529, OVERLOADED)
        head = await client.head()
        assert (head.status, head.headers["llmgate-position"]) == (529, "1")
        assert await client.body() == OVERLOADED

    @PATHS
    async def test_a_whole_answer_tells_how_long_it_waited(self, house: House, hands: Hands, path: str) -> None:
        _, turn = await house.occupy()
        client = await house.queue(path=path, stream=False)
        await turn.end()
        await (await hands.turn()).complete()
        head = (await client.head()).headers
        assert (head["llmgate-position"], head["llmgate-depth"]) == ("1", "1")
        assert 0 <= int(head["llmgate-queued-ms"]) < 10_000
        assert await client.body() == (CHAT_WHOLE if path == CHAT else WHOLE)

    async def test_signs_of_life_until_the_first_event(self, open_house: OpenHouse, hands: Hands) -> None:
        house = await open_house(waiting={"heartbeat": 0.01})
        _, turn = await house.occupy()
        client = await house.queue()
        assert name_of(await client.frame()) == "queue"
        assert await client.frame() == b": queue 1/1\n\n"
        await turn.end()
        turn = await hands.turn()
        while await client.frame() != b": working\n\n":
            pass
        await turn.begin()
        while await client.frame() == b": working\n\n":
            pass
        await asyncio.sleep(0.03)
        await turn.end()
        assert b": working" not in b"".join(await client.frames())

    @PATHS
    async def test_a_sign_of_life_opens_the_stream(self, open_house: OpenHouse, hands: Hands, path: str) -> None:
        """When the upstream sends no headers: from then on its error is an event."""
        house = await open_house(waiting={"heartbeat": 0.01})
        client = await house.ask(path=path)
        turn = await hands.turn()
        assert await client.frame() == b": working\n\n"
        await turn.answer(503, OVERLOADED)
        frames = [frame for frame in await client.frames() if frame != b": working\n\n"]
        assert "come again" in str(frames[0])
        assert frames[1:] == ([b"data: [DONE]\n\n"] if path == CHAT else [])


def test_the_next_is_dispatched_before_the_last_bytes_go_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        stage = Stage()
        first = await streaming(stage)
        second = stage.ask()
        await settle()
        open_really, seen = stage.upstreams.open, []

        async def open_seen(*request: Any) -> Answer:
            seen.append(first.answer.body)
            return await open_really(*request)

        monkeypatch.setattr(stage.upstreams, "open", open_seen)
        stage.calls[0].end(STOP)
        await settle()
        assert seen == [START]
        assert first.answer.is_whole
        second.leave()
        await settle()
        stage.check_over()

    play(main())


class TestInside:
    async def test_a_fault_of_ours_is_told_and_logged(
        self, house: House, hands: Hands, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> bytes:
            raise ZeroDivisionError

        monkeypatch.setattr(MessagesSurface, "with_model", fail)
        client = await house.ask("nick")
        head = await client.head()
        assert (head.status, head.headers["llmgate-code"]) == (500, "INTERNAL")
        assert (await client.json())["error"]["message"].endswith("see the log of llmgate (INTERNAL)")
        assert house.outcomes == ["upstream_error"]
        house.expected_log.append(f"request {head.headers['llmgate-request-id']} failed inside llmgate")

    async def test_what_the_ledger_learns(self, house: House, hands: Hands) -> None:
        """Tokens and the time of the first byte, while it runs."""
        client, turn = await house.occupy()
        (record,) = house.ledger.live()
        began = record.first_byte_at
        assert began is not None
        await turn.say(delta("a"), delta("b"))
        await client.until("content_block_start")
        await client.frame()
        await client.frame()
        assert (record.output_tokens, record.first_byte_at) == (2, began)
        await turn.end()
        await client.body()
        assert record.caller.client == ""
        assert record.caller.peer.startswith("127.0.0.1:")
        assert record.caller.body_bytes == len(request_body("m"))


@pytest.mark.parametrize("stops", [False, True], ids=["leaves", "stopped"])
async def test_on_a_server_without_our_abort(house: House, stops: bool) -> None:
    """Any ASGI server will do, but for what only ours can."""
    sent: list[Any] = []
    gone: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    messages = [{"type": "http.request", "body": request_body("m"), "more_body": False}]

    async def receive() -> Any:
        return messages.pop() if messages else await gone

    async def send(message: Any) -> None:
        sent.append(message)

    house.gate.set_paused(True, asyncio.get_running_loop().time())
    scope = {"type": "http", "query_string": b"", "headers": []}
    surface = MessagesSurface()
    one = exchange.Exchange(house.services, surface, "/v1/messages", scope, receive, send)
    one._upstream_done(Done.ENDED, None)
    running = asyncio.ensure_future(one.run())
    await house.wait(lambda: house.figures.waiting == 1)
    if stops:
        one.stop(STOPPING)
    else:
        gone.set_result({"type": "http.disconnect"})
    await running
    assert house.outcomes == ["refused" if stops else "abandoned"]
    assert (sent[-1]["more_body"] is False) == stops


@pytest.mark.parametrize("waits", [False, True], ids=["at-once", "waited"])
async def test_a_byte_order_mark_passes_only_at_the_start(house: House, hands: Hands, waits: bool) -> None:
    mark = b"\xef\xbb\xbf"
    if waits:
        _, first = await house.occupy()
        client = await house.queue()
        await client.frame()
        await first.end()
    else:
        client = await house.ask()
    turn = await hands.turn()
    await turn.begin(mark + ANSWER)
    await turn.end(b"")
    body = await client.body()
    assert body.endswith(ANSWER)
    assert (mark in body) != waits


@pytest.mark.parametrize("learns", [False, True])
async def test_a_large_request_is_translated_beside_the_loop(
    house: House, hands: Hands, monkeypatch: pytest.MonkeyPatch, learns: bool
) -> None:
    """It takes seconds, in which nobody else must stand still."""
    translated = []
    true = exchange.way_of

    def noted(*arguments: Any) -> Any:
        way = true(*arguments)
        if isinstance(way, Translated):
            translated.append(threading.get_ident())
        return way

    monkeypatch.setattr(exchange, "way_of", noted)
    house.services.upstreams[UPSTREAM].speech.messages = None if learns else False
    client = await house.ask(messages=[{"role": "user", "content": "x" * (LARGE_BODY + 1)}])
    turn = await hands.turn()
    if learns:
        await turn.answer(404, b'{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}')
        turn = await hands.turn()
    await turn.complete()
    assert name_of((await client.frames())[-1]) == "message_stop"
    assert len(translated) == 1
    assert threading.get_ident() not in translated


@pytest.mark.parametrize("fields", [{"stream": False}, {"model": "nick"}])
async def test_a_large_body_is_changed_off_the_loop(
    open_house: OpenHouse, hands: Hands, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    house = await open_house(upstream={"force_stream": True})
    changed = []
    original, replace = exchange.as_stream, MessagesSurface.with_model

    def as_stream(path: str, body: bytes) -> bytes | None:
        changed.append(threading.get_ident())
        return original(path, body)

    def with_model(surface: MessagesSurface, body: bytes, model: str) -> bytes:
        changed.append(threading.get_ident())
        return replace(surface, body, model)

    monkeypatch.setattr(exchange, "as_stream", as_stream)
    monkeypatch.setattr(MessagesSurface, "with_model", with_model)
    client = await house.ask(**fields, messages=[{"role": "user", "content": "x" * (LARGE_BODY + 1)}])
    turn = await hands.turn()
    assert b'"model":"m' in turn.request.body.replace(b" ", b"")
    await turn.complete()
    assert await client.body()
    assert len(changed) == 1
    assert threading.get_ident() not in changed


async def test_a_client_that_leaves_while_its_body_is_changed_frees_its_slot(
    open_house: OpenHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = await open_house(upstream={"force_stream": True})
    begun, go = threading.Event(), threading.Event()

    def as_stream(_: str, __: bytes) -> bytes | None:
        begun.set()
        go.wait(10)
        return None

    monkeypatch.setattr(exchange, "as_stream", as_stream)
    client = await house.ask(stream=False, messages=[{"role": "user", "content": "x" * (LARGE_BODY + 1)}])
    await house.wait(begun.is_set)
    assert house.figures.running == 1
    client.fin()
    await house.wait(lambda: house.figures.running == 0)
    go.set()
    assert house.outcomes == ["client_gone"]
