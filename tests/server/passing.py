"""What tests of /upstream/NAME/ share: requests as bytes, a stage whose upstream is open to be passed on to, states."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hands import Hands, Turn, stream_head
from rawclient import Client

from llmgate.errors import Refused
from llmgate.server.passage import Passage
from llmgate.upstreams.answer import Answer, Headers, OnDone, Timeouts
from tests.server.house import UPSTREAM, House
from tests.server.stage import Call, Stage, Upstreams, Wire, settle

HERE = f"/llm/upstream/{UPSTREAM}"
GATED, UNGATED = "POST", "GET"
PATH = "/completion"
PLAIN = [(b"content-type", b"text/x-strange")]
MORE, LAST = b"one\ntwo\0\xff", b"three"


def line(method: str, path: str, body: bytes = b"", version: str = "1.1", **headers: str) -> bytes:
    """The bytes of one request."""
    named = {"host": "127.0.0.1"} | {name.replace("_", "-"): value for name, value in headers.items()}
    if body:
        named["content-length"] = str(len(body))
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"{method} {path} HTTP/{version}\r\n{lines}\r\n".encode("latin-1") + body


class Noting(Upstreams):
    """Keeps what was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[bytes, bytes]] = []
        """Method and target."""
        self.bodies: list[bytes] = []

    async def open(
        self, method: bytes, target: bytes, headers: Headers, body: bytes, timeouts: Timeouts, on_done: OnDone
    ) -> Answer:
        self.asked.append((method, target))
        self.bodies.append(body)
        return await super().open(method, target, headers, body, timeouts, on_done)


class PassStage(Stage):
    """Its one upstream is open to be passed on to."""

    def __init__(self, **sections: Any) -> None:
        upstream = {"passthrough": True, "on_down": "fail", **sections.pop("upstream", {})}
        super().__init__(upstream=upstream, **sections)
        self.noting = self.upstreams = Noting()
        for server in self.services.upstreams.values():
            server._transport = self.upstreams

    @property
    def bodies(self) -> list[bytes]:
        return self.noting.bodies

    def pass_on(self, method: str = GATED, path: str = PATH, body: bytes = b"", **headers: str) -> Wire:
        wire = self.connect()
        wire.send(line(method, HERE + path, body, **headers))
        return wire

    def passage_of(self, wire: Wire) -> Passage:
        for one in self.services.running:
            if isinstance(one, Passage) and one._scope["client"] == wire.peer:
                return one
        raise AssertionError("it is over")

    async def begin(self, call: Call, headers: list[tuple[bytes, bytes]] = PLAIN, status: int = 200) -> None:
        call.connect()
        await settle()
        call.head(status, headers)
        await settle()

    async def occupy(self) -> Wire:
        """Somebody whose answer has begun has the slot."""
        wire = self.pass_on()
        await settle()
        await self.begin(self.calls[-1])
        self.calls[-1].piece(MORE)
        await settle()
        return wire


# ---- states of one of them

STOPPING = Refused("llmgate: llmgate is stopping, this request was cut (REFUSED)")
State = Callable[[PassStage, str], Awaitable[Wire]]


async def waiting(stage: PassStage, method: str) -> Wire:
    await stage.occupy()
    wire = stage.pass_on(method)
    await settle()
    assert stage.taken == (1, 1, 0)
    return wire


async def just_granted(stage: PassStage, method: str) -> Wire:
    wire = await waiting(stage, method)
    stage.set_cap(2)
    return wire


async def connecting(stage: PassStage, method: str) -> Wire:
    wire = stage.pass_on(method)
    await settle()
    return wire


async def before_the_head(stage: PassStage, method: str) -> Wire:
    wire = await connecting(stage, method)
    stage.calls[-1].connect()
    await settle()
    return wire


async def after_the_head(stage: PassStage, method: str) -> Wire:
    wire = await before_the_head(stage, method)
    stage.calls[-1].head(200, PLAIN)
    await settle()
    assert wire.answer.begun
    return wire


async def streaming(stage: PassStage, method: str) -> Wire:
    wire = await after_the_head(stage, method)
    stage.calls[-1].piece(MORE)
    assert wire.answer.body == MORE
    await settle()
    return wire


async def blocked(stage: PassStage, method: str) -> Wire:
    wire = await streaming(stage, method)
    wire.block()
    stage.calls[-1].piece(MORE)
    await settle()
    assert stage.calls[-1].paused
    return wire


async def ended(stage: PassStage, method: str) -> Wire:
    """The server's message is over, its last piece is not sent yet."""
    wire = await streaming(stage, method)
    stage.calls[-1].end(LAST)
    assert wire.answer.body == MORE
    return wire


RUNNING: list[State] = [before_the_head, after_the_head, streaming, blocked]
BOTH = pytest.mark.parametrize("method", [GATED, UNGATED])


def parametrize(states: list[State]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("state", states, ids=lambda state: state.__name__)


async def finish_first(stage: PassStage, wire: Wire) -> None:
    for call, other in zip(stage.calls, stage.wires, strict=False):
        if other is not wire and call.speaks:
            call.end(LAST)
            await settle()
            assert other.answer.is_whole


# ---- over real sockets


async def ask(house: House, method: str, path: str, body: bytes = b"", **headers: str) -> Client:
    client = await Client.connect(house.port)
    client.send(line(method, path, body, **headers))
    return client


async def occupy(house: House, hands: Hands) -> Turn:
    await ask(house, "POST", HERE + PATH)
    return await hands.turn()


async def begin(turn: Turn, data: bytes) -> None:
    """An answer whose end is not known."""
    await turn.connection.send(stream_head(b"x/y"))
    if data:
        await turn.say(data)


def head_of(status: int = 200, *lines: str) -> bytes:
    return f"HTTP/1.1 {status} X\r\n{''.join(each + chr(13) + chr(10) for each in lines)}\r\n".encode("latin-1")


ANTHROPIC = {"anthropic_version": "2023-06-01"}


def check_shape(told: Any, shape: str, code: str) -> None:
    message = told["error"] if shape == "ollama" else told["error"]["message"]
    assert message.endswith(f"({code})")
    assert (
        told.keys()
        == {
            "openai": {"error"},
            "ollama": {"error"},
            "anthropic": {"type", "error", "request_id"},
        }[shape]
    )
    if shape == "openai":
        assert told["error"]["code"] == code
