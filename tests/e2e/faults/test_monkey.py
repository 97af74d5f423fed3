"""Clients that send anything, and a server that answers anything, for a while: nothing but HTTP comes back.

What each connection got is read by a parser that is not ours: it must be one well-formed answer after the other, at
most one for each request, the last one perhaps cut. The server must have seen whole requests only, each once.
"""

import asyncio
import contextlib
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable

import httptools
import pytest
from gateprocess import CHAT, MESSAGES, GateProcess, request_body
from hands import ANSWER, CHAT_ANSWER, START, Hands, Turn
from rawclient import Client, post

MODELS = ("one", "two", "three", "small", "none", "hasty", "free")
CLIENTS = 12
VISITS = 12


class Monkey:
    """One client: a few connections, on each of which it does a few things."""

    def __init__(self, gate: GateProcess, seed: str) -> None:
        self._gate = gate
        self._dice = random.Random(seed)
        self._seed = seed
        self._sent = 0
        self.names: set[str] = set()
        """Of all whole requests that it sent."""

    async def play(self) -> None:
        for _ in range(VISITS):
            client = await Client.connect(self._gate.port)
            deeds = self._dice.choices(DEEDS, k=self._dice.randrange(1, 5))
            for deed in deeds:
                client.send(deed(self))
                await asyncio.sleep(self._dice.choice([0, 0, 0.001, 0.02, 0.3]))
            await self._leave(client)
            check_answers(client, len(deeds) + 1)

    async def _leave(self, client: Client) -> None:
        way = self._dice.choice(["read", "read", "fin", "reset", "half_close"])
        with contextlib.suppress(ConnectionError, TimeoutError):
            if way in ("read", "half_close"):
                if way == "half_close":
                    client.half_close()
                async with asyncio.timeout(self._dice.choice([0.1, 1.0])):
                    await until_closed(client)
        with contextlib.suppress(OSError):
            (client.reset if way == "reset" else client.fin)()

    # ---- what it sends

    def request(self) -> bytes:
        self._sent += 1
        name = f"{self._seed}-{self._sent}"
        self.names.add(name)
        path, stream = self._dice.choice([MESSAGES, CHAT]), self._dice.random() < 0.7
        headers = {"llmgate-max-wait": self._dice.choice(["0", "10ms", "200ms"])} if self._dice.random() < 0.3 else {}
        body = request_body(
            self._dice.choice(MODELS), stream=stream, name=name, padding="x" * self._dice.randrange(3000)
        )
        return post(path, body, headers)

    def half_a_request(self) -> bytes:
        data = self.request()
        return data[: self._dice.randrange(len(data))]

    def two_at_once(self) -> bytes:
        return self.request() + self.request()

    def in_chunks(self) -> bytes:
        head, _, body = self.request().partition(b"\r\n\r\n")
        lines = [line for line in head.split(b"\r\n") if not line.startswith(b"content-length")]
        half = len(body) // 2
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:half], body[half:]) if part)
        return b"\r\n".join([*lines, b"transfer-encoding: chunked", b"", b""]) + chunks + b"0\r\n\r\n"

    def junk(self) -> bytes:
        return self._dice.randbytes(self._dice.choice([1, 20, 5000]))

    def spoilt(self) -> bytes:
        data = bytearray(self.request())
        for _ in range(3):
            data[self._dice.randrange(len(data))] = self._dice.randrange(256)
        self.names |= {"spoilt"}
        return bytes(data)

    def expecting(self) -> bytes:
        return self.request().replace(b"\r\n\r\n", b"\r\nexpect: 100-continue\r\n\r\n", 1)

    def question(self) -> bytes:
        return b"GET /llm/v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"

    def bad_json(self) -> bytes:
        return post(MESSAGES, self._dice.choice([b"", b"{", b"[]", b'{"model": 3}', b"null"]))


DEEDS = (
    Monkey.request,
    Monkey.request,
    Monkey.request,
    Monkey.half_a_request,
    Monkey.two_at_once,
    Monkey.in_chunks,
    Monkey.junk,
    Monkey.spoilt,
    Monkey.expecting,
    Monkey.question,
    Monkey.bad_json,
)


class Answers:
    """What a parser of HTTP makes of the bytes that a client got."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self._parser = httptools.HttpResponseParser(self)

    def on_headers_complete(self) -> None:
        self.statuses.append(self._parser.get_status_code())

    def read(self, data: bytes) -> None:
        self._parser.feed_data(data)


def check_answers(client: Client, most: int) -> None:
    received = bytes(client._reader._buffer)  # type: ignore[attr-defined]
    answers = Answers()
    try:
        answers.read(received)
    except httptools.HttpParserError as error:
        raise AssertionError(f"no HTTP: {error}: {received[-600:]!r}") from error
    assert len([status for status in answers.statuses if status >= 200]) <= most


async def until_closed(client: Client) -> None:
    """Everything that came stays where `check_answers` finds it."""
    while not client._reader._eof:  # type: ignore[attr-defined]  # noqa: ASYNC110
        await asyncio.sleep(0.005)


# ---- the server's part


async def well(turn: Turn) -> None:
    await turn.complete()


async def breaking_off(turn: Turn) -> None:
    await turn.begin(START if turn.path == "/v1/messages" else None)
    turn.connection.close()


async def failing(turn: Turn) -> None:
    await turn.answer(500, b'{"error":{"message":"no"}}')


async def slow(turn: Turn) -> None:
    await turn.begin()
    await asyncio.sleep(0.05)
    await turn.end((ANSWER if turn.path == "/v1/messages" else CHAT_ANSWER)[len(turn.spoken.start) :])


async def silent(turn: Turn) -> None:
    await asyncio.sleep(0.02)
    turn.connection.reset()


MANNERS: tuple[Callable[[Turn], Awaitable[None]], ...] = (well, well, well, slow, slow, breaking_off, failing, silent)


async def serve(hands: Hands, dice: random.Random, seen: list[str]) -> None:
    async with asyncio.TaskGroup() as tasks:
        while True:
            turn = await hands.turn(seconds=600)
            seen.append(json.loads(turn.request.body).get("name", "spoilt"))
            tasks.create_task(serve_one(turn, dice.choice(MANNERS)))


async def serve_one(turn: Turn, manner: Callable[[Turn], Awaitable[None]]) -> None:
    with contextlib.suppress(OSError):
        await (manner if turn.wants_stream or manner in (well, failing, silent) else well)(turn)


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 10))])
async def test_whatever_is_sent_only_http_comes_back(gate: GateProcess, hands: Hands, seed: int) -> None:
    seen: list[str] = []
    serving = asyncio.ensure_future(serve(hands, random.Random(seed), seen))
    monkeys = [Monkey(gate, f"{seed}-{number}") for number in range(CLIENTS)]
    async with asyncio.TaskGroup() as tasks:
        for monkey in monkeys:
            tasks.create_task(monkey.play())
    await gate.wait(gate.is_idle)
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    sent = set().union(*(monkey.names for monkey in monkeys))
    twice = [name for name, count in Counter(seen).items() if count > 1 and name != "spoilt"]
    assert twice == []
    assert len(seen) > CLIENTS
    assert len(set(seen) - sent) <= len(seen) // 20, "what was spoilt on its way is not what was sent"
