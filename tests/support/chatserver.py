"""A server that speaks OpenAI chat completions and not Anthropic Messages, answered by the test's hands.

    async with ChatServer(listening) as server:
        turn = await server.turn()                  # of a path that it knows
        await play(turn, CASES["text"].stream, [10, 20])
        assert server.asked == ["/v1/messages", "/v1/chat/completions"]

Any other path is answered 404 by itself. What llmgate itself asks, to find out what the server is, is answered so that
it tells nothing, and is not seen in `asked`.
"""

import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

from hands import Hands, TimedConnection, Turn
from puppet import Connection, Request

CHAT_PATH = "/v1/chat/completions"
LLAMA_SERVER = b'{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}'
FASTAPI = b'{"detail":"Not Found"}'
GO = b"404 page not found"
_NO_KEY = b'{"error":{"message":"no key","type":"authentication_error"}}'


class ChatServer(Hands):
    """`refusal` is the status and the body for a path that it does not know."""

    def __init__(
        self,
        listening: socket.socket,
        *,
        knows: Iterable[str] = (CHAT_PATH,),
        refusal: tuple[int, bytes] = (404, LLAMA_SERVER),
    ) -> None:
        super().__init__(listening=listening)
        self._knows = frozenset(knows)
        self._refusal = refusal
        self.asked: list[str] = []
        """The path of each request that came, in their order."""
        self.questions: Counter[bytes] = Counter()
        """How often llmgate itself asked what, as in b"GET /health"."""

    async def _take_turns(self, connection: Connection) -> None:
        assert isinstance(connection, TimedConnection)
        while True:
            request = await connection.read_request()
            turn = Turn(connection, request)
            if _is_question(request):
                self.questions[request.line.rpartition(b" ")[0]] += 1
                await turn.answer(401, _NO_KEY)
                continue
            self.asked.append(turn.path)
            if turn.path in self._knows:
                self._turns.put_nowait(turn)
            else:
                await turn.answer(*self._refusal)


OpenServer = Callable[..., Awaitable[ChatServer]]


def _is_question(request: Request) -> bool:
    return request.line.startswith(b"GET ") or request.body == b"{}"


async def play(turn: Turn, stream: bytes, ends: Iterable[int] = ()) -> None:
    """A whole stream and its regular end, in pieces that end at these places."""
    await turn.begin(b"")
    start = 0
    for end in sorted({*ends, len(stream)}):
        if stream[start:end]:
            await turn.say(stream[start:end])
        start = end
    await turn.end(b"")
