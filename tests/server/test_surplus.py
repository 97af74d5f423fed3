"""Connections for which there is no room: each client can read why."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from llmgate.server import surplus
from llmgate.server.surplus import Surplus
from llmgate.server.tls import ALERT


class Pair(NamedTuple):
    ours: socket.socket
    client: socket.socket


@pytest.fixture
async def held() -> AsyncIterator[Surplus]:
    surplus = Surplus(2)
    yield surplus
    surplus.close()
    assert len(surplus) == 0


@pytest.fixture
def connect() -> AsyncIterator[object]:
    with contextlib.ExitStack() as stack, socket.create_server(("127.0.0.1", 0)) as listening:

        def make() -> Pair:
            client = stack.enter_context(socket.create_connection(listening.getsockname()))
            ours = stack.enter_context(listening.accept()[0])
            ours.setblocking(False)
            client.settimeout(10)
            return Pair(ours, client)

        yield make


async def wait(condition) -> None:  # type: ignore[no-untyped-def]
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def read(client: socket.socket) -> bytes:
    received = b""
    while data := client.recv(1000):
        received += data
    return received


async def test_the_client_is_told_and_when_to_come_again(held: Surplus, connect) -> None:  # type: ignore[no-untyped-def]
    pair = connect()
    held.take(pair.ours)
    received = read(pair.client)
    assert received.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"\r\nretry-after: 1\r\n" in received
    assert b"\r\nconnection: close\r\n" in received
    assert b"(TOO_MANY_CONNECTIONS)" in received
    pair.client.close()
    await wait(lambda: not held)


async def test_a_client_that_is_still_sending_can_read_it(held: Surplus, connect) -> None:  # type: ignore[no-untyped-def]
    pair = connect()
    pair.client.send(b"x" * 100_000)
    held.take(pair.ours)
    for _ in range(20):
        await asyncio.sleep(0)
        pair.client.send(b"x" * 10_000)
    assert read(pair.client).startswith(b"HTTP/1.1 503 ")


async def test_a_new_one_takes_the_place_of_the_oldest(held: Surplus, connect) -> None:  # type: ignore[no-untyped-def]
    pairs = [connect() for _ in range(4)]
    for pair in pairs:
        pair.client.send(b"GET / HTTP/1.1\r\n\r\n")
        held.take(pair.ours)
        assert len(held) <= 2
    assert [pair.ours.fileno() < 0 for pair in pairs] == [True, True, False, False]
    assert all(read(pair.client).startswith(b"HTTP/1.1 503 ") for pair in pairs)


async def test_nobody_stays_for_long(held: Surplus, connect, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(surplus, "HELD_SECONDS", 0.01)
    pair = connect()
    held.take(pair.ours)
    await wait(lambda: not held)
    assert pair.ours.fileno() < 0


async def test_one_who_has_left_is_no_trouble(held: Surplus, connect) -> None:  # type: ignore[no-untyped-def]
    resetting, gone = connect(), connect()
    held.take(resetting.ours)
    resetting.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    resetting.client.close()
    await wait(lambda: not held)
    gone.ours.shutdown(socket.SHUT_WR)
    held.take(gone.ours)
    assert (len(held), gone.ours.fileno()) == (0, -1)


async def test_who_speaks_tls_gets_an_alert(held: Surplus, connect) -> None:  # type: ignore[no-untyped-def]
    pair = connect()
    held.take(pair.ours, secure=True)
    assert read(pair.client) == ALERT
