"""Accepting: up to the limit, and quietly when no file is left."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from rawclient import Client

from llmgate.server import doorman
from llmgate.server.doorman import AT_ONCE, Doorman
from llmgate.server.sockets import bind_listen

LIMIT = 3


class Guest(asyncio.Protocol):
    """Says hello."""

    def __init__(self, guests: set["Guest"]) -> None:
        self._guests = guests

    def connection_made(self, transport: Any) -> None:
        self._guests.add(self)
        self.transport = transport
        transport.write(b"hello")

    def connection_lost(self, exc: Exception | None) -> None:
        self._guests.discard(self)


class Listening:
    """A listening socket that fails when it is told to."""

    def __init__(self, real: socket.socket) -> None:
        self._real = real
        self.error: OSError | None = None
        self.tried = 0

    def accept(self) -> Any:
        self.tried += 1
        if self.error is not None:
            raise self.error
        return self._real.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Door:
    def __init__(self, limit: int = LIMIT) -> None:
        self.guests: set[Guest] = set()
        self.listening = Listening(bind_listen("127.0.0.1:0"))
        self.port = self.listening.getsockname()[1]
        self.doorman = Doorman([self.listening], lambda: Guest(self.guests), self.guests, limit)  # type: ignore[list-item]
        self.doorman.open()

    async def wait(self, condition) -> None:  # type: ignore[no-untyped-def]
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.001)


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    opened = Door()
    yield opened
    opened.doorman.close()
    for guest in list(opened.guests):
        guest.transport.abort()
    await Client.close_all()
    await opened.wait(lambda: not opened.guests)


async def test_all_get_in_up_to_the_limit_and_the_others_are_told(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    """All at once, so that the limit holds before any of them was seen by its protocol."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", door.port))) for _ in range(20)]
        for client in clients:
            client.setblocking(False)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(10):
            told = [await loop.sock_recv(client, 10) for client in clients]
        assert told == [b"hello"] * LIMIT + [b"HTTP/1.1 5"] * (20 - LIMIT)
        assert len(door.guests) == LIMIT
    assert [record.getMessage() for record in caplog.records] == [
        "max_connections is reached (3): others are turned away"
    ]


async def test_one_who_is_accepted_and_seen_counts_once(door: Door) -> None:
    """Its protocol knows it a turn of the loop before the loop says that it is there."""
    for count in range(LIMIT):
        client = await Client.connect(door.port)
        while len(door.guests) == count:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert not door.doorman._arriving - door.guests
        assert await client._exactly(5) == b"hello"


async def test_it_asks_for_another_only_while_there_were_others(door: Door) -> None:
    door.doorman._limit = 1000
    await door.wait(lambda: True)
    for number in range(1, 9):
        client = await Client.connect(door.port)
        assert await client._exactly(5) == b"hello"
        assert door.listening.tried <= number + number // 2


async def test_the_log_names_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    opened = Door(0)
    opened.doorman._limit_name = "the limit of the back door"
    client = await Client.connect(opened.port)
    assert (await client.wait_closed()).startswith(b"HTTP/1.1 503 ")
    assert caplog.messages == ["the limit of the back door is reached (0): others are turned away"]
    opened.doorman.close()
    await Client.close_all()


async def test_who_comes_after_one_has_left_gets_in(door: Door) -> None:
    clients = [await Client.connect(door.port) for _ in range(LIMIT)]
    await door.wait(lambda: len(door.guests) == LIMIT)
    clients[0].fin()
    await door.wait(lambda: len(door.guests) == LIMIT - 1)
    late = await Client.connect(door.port)
    assert await late._exactly(5) == b"hello"


async def test_more_than_are_taken_at_once(door: Door) -> None:
    door.doorman._limit = 10 * AT_ONCE
    clients = [await Client.connect(door.port) for _ in range(2 * AT_ONCE)]
    await door.wait(lambda: len(door.guests) == len(clients))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EPERM])
async def test_f75_it_rests_where_no_file_is_left(
    door: Door, number: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line in the log, few tries, and all who waited get in afterwards."""
    monkeypatch.setattr(doorman, "REST_SECONDS", 0.02)
    door.listening.error = OSError(number, "no")
    clients = [await Client.connect(door.port) for _ in range(LIMIT)]
    await door.wait(lambda: door.listening.tried == 4)
    assert not door.guests
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"no connection can be accepted now ({errno.errorcode[number]})")
    assert ("limit on open files" in line) == (number != errno.EPERM)
    assert len(door.doorman._rests) <= 2
    door.listening.error = None
    for client in clients:
        assert await client._exactly(5) == b"hello"


async def test_a_client_that_left_before_is_no_trouble(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    door.listening.error = ConnectionAbortedError()
    client = await Client.connect(door.port)
    await door.wait(lambda: door.listening.tried > 0)
    door.listening.error = None
    assert await client._exactly(5) == b"hello"
    assert caplog.records == []


async def test_a_connection_that_cannot_be_taken_up_counts_no_more(door: Door) -> None:
    def fail() -> asyncio.Protocol:
        raise RuntimeError

    good, door.doorman._make_protocol = door.doorman._make_protocol, fail
    for _ in range(LIMIT + 1):
        client = await Client.connect(door.port)
        assert await client.wait_closed() == b""
    assert not door.doorman._arriving
    door.doorman._make_protocol = good
    assert await (await Client.connect(door.port))._exactly(5) == b"hello"


async def test_closed_is_closed_also_while_it_rests(door: Door) -> None:
    door.listening.error = OSError(errno.EMFILE, "no")
    await Client.connect(door.port)
    await door.wait(lambda: door.listening.tried > 0)
    door.doorman.close()
    door.doorman.close()
    with pytest.raises(ConnectionRefusedError):
        await Client.connect(door.port)
