"""One request on its way: what its client gets and what becomes of its slot, whatever happens, wherever it stands."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from gateprocess import CHAT, MESSAGES, request_body
from hands import ANSWER, CHAT_ANSWER, CHAT_WHOLE, START, STOP, WHOLE, Hands, Turn, delta
from hypothesis import given
from puppet import refusing_port
from rawclient import Client, CutOff, data_of, name_of, names_of, positions_of, post
from virtual_loop import turns

from llmgate.errors import GateError, Refused
from llmgate.server import exchange
from tests.server.faults import CALLED_BACK, ERRORS, HOOKS, LATE, STORIES, Fault, Foreign, Story
from tests.server.house import UPSTREAM, House
from tests.server.schedule import SCHEDULES, UPSTREAM_ERROR, Player, logged
from tests.server.stage import PLAIN, Stage, Wire, pass_time, play, settle

OpenHouse = Callable[..., Awaitable[House]]


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
            assert (stage.taken, stage.outcomes) == ((0, 0, 1), ["refused"])
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

    async def test_the_answer_to_one_who_wanted_none_is_held_whole(self, house: House, hands: Hands) -> None:
        """An event stream for a client that did not ask for one: as it is, in one piece."""
        client = await house.ask(stream=False)
        turn = await hands.turn()
        await turn.begin()
        await turn.end()
        assert await client.body() == START + STOP
        assert house.outcomes == ["completed"]


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


def test_the_next_is_dispatched_before_the_last_bytes_go_out() -> None:
    async def main() -> None:
        stage = Stage()
        first = await streaming(stage)
        second = stage.ask()
        await settle()
        stage.calls[0].end(STOP)
        while len(stage.calls) == 1:
            assert first.answer.body == START
            await turns(1)
        assert first.answer.body == START
        await settle()
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
        assert house.outcomes == ["upstream_error"]

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
            while await client.chunk():
                pass
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
