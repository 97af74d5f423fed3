"""One request on its way: what its client gets and what becomes of its slot, whatever happens, wherever it stands."""

import asyncio
import contextlib
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from gateprocess import CHAT, MESSAGES, request_body
from hands import ANSWER, CHAT_ANSWER, CHAT_WHOLE, START, STOP, WHOLE, Hands, Turn, delta
from hypothesis import given
from puppet import refusing_port
from rawclient import Client, CutOff, Head, data_of, name_of, names_of, positions_of, post

from llmgate.core.events import Limits
from llmgate.errors import GateError, Refused
from llmgate.protocols.anthropic import MessagesSurface
from llmgate.server import exchange
from llmgate.upstreams.answer import Answer, Done
from tests.server.faults import CALLED_BACK, ERROR, ERRORS, HOOKS, LATE, STORIES, Fault, Foreign, Story
from tests.server.house import UPSTREAM, House, OpenHouse, logged
from tests.server.schedule import SCHEDULES, UPSTREAM_ERROR, Player
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
        assert answer.body.endswith((STOP, ERROR))
        assert fault.name in ("wait_sent", "wait_over"), "it came when all was said"
        assert stage.outcomes == ["completed"]
    elif answer.ended:
        assert answer.errors == 1
    else:
        assert wire.gone
        assert answer.errors == 0


class TestFaults:
    """F31, F32: whatever is raised, and wherever."""

    @pytest.mark.parametrize("error", ERRORS, ids=lambda make: type(make()).__name__)
    @pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name.replace(" ", "-"))
    def test_everywhere(self, story: Story, error: Callable[[], BaseException]) -> None:
        struck = 0
        for owner, name in HOOKS:
            if name in CALLED_BACK and not isinstance(error(), Exception):
                continue
            for late in (False, True) if name in LATE else (False,):
                fault = Fault(owner, name, error(), late=late)
                while self.strike(story, fault):
                    struck += 1
                    fault = fault.next(error())
        assert struck >= 12

    def strike(self, story: Story, fault: Fault) -> bool:
        """Whether the story came so far."""
        with logged() as told:
            play(self.tell(story, fault))
        assert len(told) <= 1, told
        assert told or not fault.struck or isinstance(fault.error, GateError), f"{fault.name} left no line in the log"
        return fault.struck

    async def tell(self, story: Story, fault: Fault) -> None:
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
RUNNING: list[State] = [
    before_the_headers,
    streaming,
    streaming_after_a_wait,
    blocked,
    reading_a_whole,
    reading_an_error,
]


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


# ---- the table of answers, over real sockets

SURFACES = [
    pytest.param(MESSAGES, ANSWER, id="messages"),
    pytest.param(CHAT, CHAT_ANSWER, id="chat"),
]
PATHS = pytest.mark.parametrize("path", [MESSAGES, CHAT], ids=["messages", "chat"])
STRANGE_HEADERS = (
    b"request-id: up-1\r\nx-ratelimit-limit: 5\r\nretry-after: 7\r\nserver: llama.cpp\r\nset-cookie: a=b\r\n"
    b"access-control-allow-origin: *\r\nconnection: keep-alive, x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=5\r\n"
)
PASSED_HEADERS = {"request-id": "up-1", "x-ratelimit-limit": "5", "retry-after": "7"}
STRIPPED_HEADERS = {"server", "set-cookie", "access-control-allow-origin", "x-hop", "keep-alive", "connection"}
OVERLOADED = b'{"type":"error","error":{"type":"overloaded_error","message":"come again"}}'


def sse_head(headers: bytes = b"") -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=x\r\ntransfer-encoding: chunked\r\n"
        + headers
        + b"\r\n"
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
        ("status", "outcome"), [(400, None), (429, "upstream_error"), (500, "upstream_error"), (529, "upstream_error")]
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
    async def test_headers_and_no_body(self, house: House, hands: Hands, path: str) -> None:
        """F39: both when it says there is none, and when it breaks off."""
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


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
def test_a_stream_that_is_cut_at_any_byte(path: str) -> None:
    """F40: whole events and one error event, or the whole stream."""
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


# ---- limits, refusals, faults of the request


def check_queue_error(head: Head, code: str) -> None:
    assert head.headers["llmgate-code"] == code
    assert head.headers["x-should-retry"] == "false"
    assert 1 <= int(head.headers["retry-after"]) <= 10


class TestLimits:
    @PATHS
    async def test_the_queue_is_full(self, open_house: OpenHouse, path: str, hands: Hands) -> None:
        house = await open_house(upstream={"max_queued": 1})
        _, turn = await house.occupy()
        waiter = await house.queue()
        client = await house.ask(path=path)
        head = await client.head()
        check_queue_error(head, "QUEUE_FULL")
        assert (head.status, head.headers["llmgate-depth"], head.headers["llmgate-limit"]) == (503, "1", "1")
        assert "llmgate-queued-ms" not in head.headers
        assert "the queue of upstream reasoning is full (QUEUE_FULL)" in (await client.json())["error"]["message"]
        waiter.fin()
        await house.wait(lambda: house.outcomes == ["queue_full", "abandoned"])
        await turn.end()

    @PATHS
    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
    async def test_a_wait_that_took_too_long(
        self, open_house: OpenHouse, hands: Hands, path: str, stream: bool
    ) -> None:
        house = await open_house(upstream={"queue_timeout": 0.02})
        _, turn = await house.occupy()
        client = await house.ask(path=path, stream=stream)
        head = await client.head()
        body = await client.body()
        assert b"(QUEUE_TIMEOUT)" in body
        if stream:
            assert head.status == 200
            assert body.count(b"QUEUE_TIMEOUT") >= 1
        else:
            check_queue_error(head, "QUEUE_TIMEOUT")
            assert head.status == 504
            assert int(head.headers["llmgate-queued-ms"]) >= 15
        await turn.end()
        assert house.outcomes[0] == "queue_timeout"
        assert hands.untaken == 0

    async def test_one_without_a_stream_waits_less(self, open_house: OpenHouse, hands: Hands) -> None:
        house = await open_house(upstream={"queue_timeout_nonstream": 0.02})
        _, turn = await house.occupy()
        client = await house.queue()
        assert (await (await house.ask(stream=False)).head()).status == 504
        assert house.figures.waiting == 1
        await turn.end()
        await (await hands.turn()).complete()
        await client.body()

    @pytest.mark.parametrize(("wait", "status", "code"), [("0", 503, "QUEUE_FULL"), ("20ms", 504, "QUEUE_TIMEOUT")])
    async def test_a_request_may_shorten_its_wait(
        self, house: House, hands: Hands, wait: str, status: int, code: str
    ) -> None:
        _, turn = await house.occupy()
        client = await house.ask(headers={"llmgate-max-wait": wait, "llmgate-queue-events": "off"})
        head = await client.head()
        check_queue_error(head, code)
        assert head.status == status
        await turn.end()

    async def test_zero_means_a_slot_now(self, house: House, hands: Hands) -> None:
        client = await house.ask(headers={"llmgate-max-wait": "0"})
        await (await hands.turn()).complete()
        assert (await client.head()).status == 200
        await client.body()

    @pytest.mark.parametrize(
        ("runs", "slots", "seconds"),
        [([], 1, "1"), ([0.2], 1, "1"), ([6.0, 4.0, 5.0], 1, "5"), ([8.0], 2, "4"), ([90.0], 1, "10"), ([8.0], 0, "8")],
    )
    async def test_retry_after_tells_when_a_slot_may_fall_free(
        self, open_house: OpenHouse, runs: list[float], slots: int, seconds: str
    ) -> None:
        house = await open_house(upstream={"max_concurrent": slots, "max_queued": 0})
        house.ledger.figures(UPSTREAM).runs.extend(runs)
        gate = house.gate
        gate.set_paused(True, asyncio.get_running_loop().time())
        assert (await (await house.ask()).head()).headers["retry-after"] == seconds

    async def test_a_closed_gate_refuses(self, house: House) -> None:
        _, turn = await house.occupy()
        waiter = await house.queue(stream=False)
        house.services.admission.close()
        check_queue_error(await waiter.head(), "REFUSED")
        head = await (await house.ask()).head()
        check_queue_error(head, "REFUSED")
        assert head.status == 503
        await turn.end()
        await house.wait(lambda: "completed" in house.outcomes)
        assert house.outcomes == ["refused", "refused", "completed"]


class TestBadRequests:
    """None takes a place, and each is answered in the shape of its surface."""

    @PATHS
    @pytest.mark.parametrize(
        ("body", "headers", "status", "code"),
        [
            (b"{", {}, 400, "BAD_REQUEST"),
            (b"{}", {}, 400, "BAD_REQUEST"),
            (request_body("m"), {"llmgate-max-wait": "soon"}, 400, "BAD_REQUEST"),
            (request_body("m"), {"llmgate-queue-events": "yes"}, 400, "BAD_REQUEST"),
            (request_body("nobody"), {}, 404, "UNKNOWN_MODEL"),
            (b" " * 2000, {}, 413, "BODY_TOO_LARGE"),
        ],
    )
    async def test_is_told(
        self, open_house: OpenHouse, path: str, body: bytes, headers: dict[str, str], status: int, code: str
    ) -> None:
        house = await open_house(server={"max_body": 1000})
        client = await Client.connect(house.port)
        client.post(path, body, headers)
        head = await client.head()
        assert (head.status, head.headers["llmgate-code"]) == (status, code)
        assert "llmgate-upstream" not in head.headers
        told = await client.json()
        assert ("type" in told) == (path == MESSAGES)
        assert f"({code})" in told["error"]["message"]
        assert house.events == []
        if status == 413:
            assert head.headers["connection"] == "close"
            await client.wait_closed()

    async def test_a_body_that_does_not_come(self, open_house: OpenHouse) -> None:
        house = await open_house(server={"body_timeout": 0.02})
        client = await Client.connect(house.port)
        client.send(post(MESSAGES, request_body("m"))[:-5])
        head = await client.head()
        assert (head.status, head.headers["connection"]) == (408, "close")
        await client.wait_closed()
        assert house.events == []


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


class TestSlowClients:
    async def test_one_that_reads_nothing_is_cut(self, open_house: OpenHouse, hands: Hands) -> None:
        """F16: the upstream is paused meanwhile; the connection is closed at once, although it has unread data."""
        house = await open_house(server={"client_stall_timeout": 0.05})
        client = await house.ask(receive_buffer=4096)
        turn = await hands.turn()
        await turn.begin()
        piece = b"".join(delta("x" * 900) for _ in range(64))
        with contextlib.suppress(ConnectionError):
            for _ in range(2000):
                await turn.say(piece)
        assert not turn.connection.is_open
        await house.wait(lambda: house.taken == (0, 0, 0))
        assert house.outcomes == ["client_stalled"]
        with pytest.raises(CutOff):
            await client.body()

    async def test_one_that_reads_nothing_and_leaves(self, house: House, hands: Hands) -> None:
        """F14."""
        client = await house.ask(receive_buffer=4096)
        turn = await hands.turn()
        await turn.begin()
        piece = b"".join(delta("x" * 900) for _ in range(64))
        sending = asyncio.ensure_future(turn.say(*[piece] * 2000))
        await house.wait(lambda: any(exchange._reply.blocked for exchange in house.services.running))
        client.reset()
        await turn.wait_closed()
        await house.wait(lambda: house.taken == (0, 0, 0))
        assert house.outcomes == ["client_gone"]
        with pytest.raises(ConnectionError):
            await sending


# ---- storms


async def answer_all(hands: Hands) -> None:
    while True:
        turn = await hands.turn()
        with contextlib.suppress(ConnectionError):
            await turn.complete()


@pytest.mark.parametrize("cap", [1, 3])
class TestStorms:
    """F07, F13: a client leaves in the moment in which something else happens to it; at the end nobody is missed."""

    ROUNDS = 500

    async def test_leaving_as_the_slot_falls_free(self, open_house: OpenHouse, hands: Hands, cap: int) -> None:
        house = await open_house(upstream={"max_concurrent": cap, "release_timeout": 0.001})
        chance = random.Random(cap)
        answering = asyncio.ensure_future(answer_all(hands))
        clients: list[Client] = []
        for _ in range(self.ROUNDS):
            clients.append(await house.ask(stream=chance.random() < 0.7))
            if chance.random() < 0.5:
                await asyncio.sleep(chance.choice([0, 0, 0.001]))
            if len(clients) > cap:
                client = clients.pop(chance.randrange(len(clients)))
                chance.choice([client.fin, client.reset])()
        await self.finish(house, hands, cap, answering, clients)

    async def test_leaving_as_the_wait_runs_out(self, open_house: OpenHouse, hands: Hands, cap: int) -> None:
        house = await open_house(upstream={"max_concurrent": cap, "queue_timeout": 0.005, "release_timeout": 0.001})
        chance = random.Random(cap)
        held = [await house.ask() for _ in range(cap)]
        turns = [await hands.turn() for _ in range(cap)]
        clients: list[Client] = []
        for number in range(self.ROUNDS):
            clients.append(await house.ask(stream=chance.random() < 0.7))
            if number % 4 == 3:
                await asyncio.sleep(0.005)
                for client in clients:
                    chance.choice([client.fin, client.reset])()
                clients.clear()
        await house.wait(lambda: house.figures.waiting == 0 and len(house.services.running) == cap)
        assert set(house.outcomes) <= {"queue_timeout", "abandoned"}
        for turn in turns:
            await turn.complete()
        await self.finish(house, hands, cap, asyncio.ensure_future(answer_all(hands)), held)

    async def test_leaving_as_it_is_stopped(self, open_house: OpenHouse, hands: Hands, cap: int) -> None:
        house = await open_house(upstream={"max_concurrent": cap, "release_timeout": 0.001})
        chance = random.Random(cap)
        clients: list[Client] = []
        for number in range(self.ROUNDS):
            clients.append(await house.ask(stream=chance.random() < 0.7))
            if number % 5 == 4:
                await asyncio.sleep(chance.choice([0, 0, 0.001]))
                for client in clients:
                    chance.choice([client.fin, client.reset])()
                await asyncio.sleep(0)
                for running in house.services.running:
                    running.stop(STOPPING)
                clients.clear()
        await house.wait(lambda: len(house.services.running) == 0)
        assert set(house.outcomes) <= {"abandoned", "client_gone", "refused", "upstream_error"}
        await self.finish(house, hands, cap, asyncio.ensure_future(answer_all(hands)), clients)

    async def finish(
        self, house: House, hands: Hands, cap: int, answering: "asyncio.Future[None]", clients: list[Client]
    ) -> None:
        """Everybody is answered; then so many run at once as may, and one more does not."""
        for client in clients:
            assert (await client.head()).status == 200
            await client.body()
        await house.wait(lambda: house.taken == (0, 0, 0))
        assert len(house.services.running) == 0
        await asyncio.sleep(0.01)
        answering.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await answering
        house.check_empty()
        house.services.admission.set_limits(UPSTREAM, Limits(cap))  # the one that waits may do so for long
        probes = [await house.ask() for _ in range(cap + 1)]
        await house.wait(lambda: house.taken == (1, cap, 0))
        for _ in probes:
            await (await self.fresh_turn(hands)).complete()
        for probe in probes:
            await probe.body()

    async def fresh_turn(self, hands: Hands) -> Turn:
        """One whose client is still there."""
        while True:
            turn = await hands.turn()
            if turn.connection.is_open:
                return turn


# ---- what is left


def test_a_stopped_client_that_takes_nothing_is_cut_when_its_time_is_over() -> None:
    async def main() -> None:
        stage = Stage(server={"client_stall_timeout": 5})
        wire = await blocked(stage)
        stage.exchange_of(wire).stop(STOPPING)
        await pass_time(4)
        assert not wire.aborted
        await pass_time(2)
        assert wire.aborted
        assert not wire.answer.ended
        assert stage.outcomes == ["refused"]
        stage.check_over()

    play(main())


def test_signs_of_life_do_not_pile_up_before_a_client_that_does_not_read() -> None:
    async def main() -> None:
        stage = Stage(waiting={"heartbeat": 0.05})
        wire = await waiting(stage)
        wire.block()
        await pass_time(3)
        before = wire.answer.body
        wire.unblock()
        await settle()
        assert wire.answer.body == before + b": queue 1/1\n\n"
        wire.leave()
        await finish_first(stage, wire)
        stage.check_over()

    play(main())


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


def test_a_fault_of_ours_is_no_timeout_of_the_upstream(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> bytes:
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
