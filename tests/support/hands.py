"""An upstream that a test answers by hand: each request that arrives is a Turn, begun and ended as the test says."""

import asyncio
import json
import socket
import time
from typing import Any, Self

from puppet import LIVENESS_SECONDS, Connection, Puppet, Request
from spoken import SPOKEN, Spoken


def stream_head(content_type: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n" % content_type


STREAM_HEAD = stream_head(b"text/event-stream")


def event(name: str, **fields: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode()


def delta(text: str) -> bytes:
    return event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})


_MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 0},
}
START = event("message_start", message=_MESSAGE) + event(
    "content_block_start", index=0, content_block={"type": "text", "text": ""}
)
STOP = (
    event("content_block_stop", index=0)
    + event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage={"output_tokens": 2})
    + event("message_stop")
)
ANSWER = START + delta("Hello") + delta(" there") + STOP
WHOLE = json.dumps({**_MESSAGE, "content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn"}).encode()


def chat_chunk(delta: dict[str, str], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


CHAT_START = chat_chunk({"role": "assistant", "content": "Hello"})
CHAT_ANSWER = CHAT_START + chat_chunk({}, "stop") + b"data: [DONE]\n\n"
CHAT_WHOLE = json.dumps(
    {
        "id": "c1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
    }
).encode()


MESSAGES_SPOKEN = Spoken(WHOLE, START, delta("Hello") + delta(" there") + STOP)
CHAT_SPOKEN = Spoken(CHAT_WHOLE, CHAT_START, CHAT_ANSWER.removeprefix(CHAT_START))


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class TimedConnection(Connection):
    """Knows when its newest bytes came."""

    read_at = 0.0

    def data_received(self, data: bytes) -> None:
        self.read_at = time.monotonic()
        super().data_received(data)


class Turn:
    """One request, waiting to be answered."""

    def __init__(self, connection: TimedConnection, request: Request) -> None:
        self.connection = connection
        self.request = request
        self.read_at = connection.read_at
        """When it came, on the monotonic clock."""

    @property
    def fields(self) -> Any:
        return json.loads(self.request.body)

    @property
    def path(self) -> str:
        return self.request.line.split()[1].decode().partition("?")[0]

    @property
    def spoken(self) -> Spoken:
        """What is said on this request's surface."""
        return {"/v1/messages": MESSAGES_SPOKEN, "/v1/chat/completions": CHAT_SPOKEN, **SPOKEN}[self.path]

    @property
    def wants_stream(self) -> bool:
        return bool(self.spoken.stream and self.fields.get("stream", self.path.startswith("/api/")))

    async def begin(self, data: bytes | None = None) -> None:
        """The head of a stream, and the first of it; without `data` the start of what is said on this surface."""
        data = self.spoken.start if data is None else data
        await self.connection.send(stream_head(self.spoken.content_type) + (chunk(data) if data else b""))

    async def say(self, *pieces: bytes) -> None:
        for piece in pieces:
            await self.connection.send(chunk(piece))

    async def end(self, data: bytes = STOP) -> None:
        """The last of a stream and its regular end, in one piece."""
        await self.connection.send((chunk(data) if data else b"") + b"0\r\n\r\n")

    async def answer(self, status: int = 200, body: bytes = WHOLE, headers: bytes = b"") -> None:
        """Not a stream."""
        head = b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n" % (status, len(body))
        await self.connection.send(head + headers + b"\r\n" + body)

    async def complete(self) -> None:
        """Whatever was asked for, at once."""
        if self.wants_stream:
            await self.begin(self.spoken.stream)
            await self.end(b"")
        else:
            await self.answer(body=self.spoken.whole)

    async def wait_closed(self) -> None:
        async with asyncio.timeout(LIVENESS_SECONDS):
            await self.connection.wait_closed()


def is_question(request: Request) -> bool:
    """Whether llmgate itself asks, of what kind the server is or how it is, and no client."""
    own = (request.header(b"user-agent") or b"").startswith(b"llmgate/")
    return own or request.line.startswith((b"GET /health ", b"GET /slots "))


def answer_to_question(request: Request, headers: bytes = b"") -> bytes:
    """That of a server of no known kind, which speaks Messages."""
    knows = request.line.startswith(b"POST /v1/messages ")
    status, message = (400, b"'messages' is required") if knows else (404, b"File Not Found")
    body = b'{"error":{"message":"%b"}}' % message
    return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n%b\r\n%b" % (status, len(body), headers, body)


class Hands(Puppet):
    """`await hands.turn()` is the next request that arrives.

    It may listen on a port that `hold_port` reserved, or on a socket that listens already: whoever connects before it
    is there, or after it, waits for the next one instead of being refused.

    What llmgate itself asks now and then is answered out of the test's sight.
    """

    def __init__(self, port: int = 0, *, listening: socket.socket | None = None) -> None:
        super().__init__(self._take_turns)
        self._port = port
        self._listening = listening
        self._turns: asyncio.Queue[Turn] = asyncio.Queue()
        self._askers: list[Connection] = []

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        if self._listening is not None:
            self._server = await loop.create_server(lambda: TimedConnection(self), sock=self._listening.dup())
        else:
            self._server = await loop.create_server(
                lambda: TimedConnection(self), "127.0.0.1", self._port, backlog=1024, reuse_address=True
            )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self.connections += self._askers
        self._askers = self.connections  # who asks from now on stays among them
        await super().__aexit__(*error)

    async def _take_turns(self, connection: Connection) -> None:
        assert isinstance(connection, TimedConnection)
        while True:
            request = await connection.read_request()
            if is_question(request):
                await self._answer_question(connection, request)
            else:
                self._turns.put_nowait(Turn(connection, request))

    async def _answer_question(self, connection: TimedConnection, request: Request) -> None:
        """A connection that had no other request is closed and forgotten, so that no request of the test gets it."""
        self.requests.pop()
        connection.requests.pop()
        if connection.requests:
            await connection.send(answer_to_question(request))
            return
        self.connections.remove(connection)
        self._askers.append(connection)
        await connection.send(answer_to_question(request, b"connection: close\r\n"))
        connection.close()

    async def turn(self, seconds: float = LIVENESS_SECONDS) -> Turn:
        async with asyncio.timeout(seconds):
            return await self._turns.get()

    @property
    def untaken(self) -> int:
        """Requests that arrived and that the test did not take."""
        return self._turns.qsize()


def hold_port() -> socket.socket:
    """Keeps a port of 127.0.0.1 for later servers of this test run; until one listens, connections are refused."""
    holder = socket.socket(proto=socket.IPPROTO_TCP)  # else asyncio leaves TCP_NODELAY off what it accepts
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


def free_port() -> int:
    """For programs that cannot take a free one by themselves; until this process ends nobody else is given it.

    A program may listen there all the same, be it with SO_REUSEADDR or with SO_REUSEPORT: the holder does not listen.
    """
    with hold_port() as holder:
        port = int(holder.getsockname()[1])
        holder.detach()
    return port
