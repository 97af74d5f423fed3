"""Who listens on `receive()` learns once, and at once, that the client has gone."""

import asyncio
from typing import Any

import pytest
from virtual_loop import turns

from llmgate.server.listener import Listener

DISCONNECT = {"type": "http.disconnect"}
MORE = {"type": "http.request", "body": b"", "more_body": False}


class Client:
    """An ASGI `receive` fed by hand; whatever is not fed yet is waited for."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.gone = 0
        self.asked = 0

    async def receive(self) -> Any:
        self.asked += 1
        message = await self.messages.get()
        if isinstance(message, Exception):
            raise message
        return message

    def on_gone(self) -> None:
        self.gone += 1

    def listen(self) -> Listener:
        return Listener(self.receive, self.on_gone)


@pytest.fixture
async def client() -> Client:
    return Client()


async def test_a_client_that_leaves_is_noticed_once(client: Client) -> None:
    with client.listen():
        await turns()
        assert (client.asked, client.gone) == (1, 0)
        client.messages.put_nowait(DISCONNECT)
        await turns()
        assert client.gone == 1
        client.messages.put_nowait(DISCONNECT)
        await turns()
    assert (client.asked, client.gone) == (1, 1)


async def test_one_that_left_before_is_noticed_at_once(client: Client) -> None:
    client.messages.put_nowait(DISCONNECT)
    with client.listen():
        assert client.gone == 1


async def test_other_messages_are_passed_over(client: Client) -> None:
    client.messages.put_nowait(MORE)
    with client.listen():
        client.messages.put_nowait(MORE)
        await turns()
        assert (client.asked, client.gone) == (3, 0)
        client.messages.put_nowait(DISCONNECT)
        await turns()
        assert client.gone == 1


async def test_a_receive_that_fails_is_a_client_that_left(client: Client) -> None:
    with client.listen():
        client.messages.put_nowait(ConnectionResetError())
        await turns()
        assert client.gone == 1


async def test_after_the_request_nobody_is_told(client: Client) -> None:
    with client.listen():
        await turns()
    client.messages.put_nowait(DISCONNECT)
    await turns()
    assert client.gone == 0


async def test_it_ends_with_an_exception_as_well(client: Client) -> None:
    listener = client.listen()
    listener.__enter__()
    listener.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    client.messages.put_nowait(DISCONNECT)
    await turns()
    assert client.gone == 0


async def test_leaving_in_the_turn_in_which_the_request_ends_is_not_told(client: Client) -> None:
    with client.listen():
        await turns()
        client.messages.put_nowait(DISCONNECT)
    await turns()
    assert client.gone == 0


def test_one_that_never_began_ends_in_peace() -> None:
    async def receive() -> Any:
        raise AssertionError

    Listener(receive, lambda: None).__exit__()
