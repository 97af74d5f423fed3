"""Houses for the tests of this folder; those that speak over real sockets run on asyncio's loop and on uvloop."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import uvloop
from hands import Hands
from rawclient import Client

from tests.server.house import House, OpenHouse

ON_BOTH_LOOPS = {
    "test_exchange.py",
    "exchange",
    "http_protocol",
    "test_passage.py",
    "test_http_protocol.py",
    "test_http_server.py",
    "test_cycle.py",
    "test_doorman.py",
    "test_surplus.py",
    "test_tls.py",
    "test_admin.py",
}
"""Files, and a folder of them."""


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Callable[[], object]]:
    loops: dict[str, Callable[[], object]] = {"asyncio": asyncio.new_event_loop}
    return loops | (
        {"uvloop": uvloop.new_event_loop} if ON_BOTH_LOOPS & {item.path.name, item.path.parent.name} else {}
    )


@pytest.fixture
async def hands() -> AsyncIterator[Hands]:
    """The server behind the upstreams, answered by the test."""
    async with Hands() as server:
        yield server


@pytest.fixture
async def open_house(hands: Hands) -> AsyncIterator[OpenHouse]:
    """`await open_house(upstream={...}, server={...})`: a house that must be empty and quiet when the test is over."""
    async with AsyncExitStack() as stack:

        async def open_one(url: str | None = None, **settings: Any) -> House:
            return await stack.enter_async_context(House(url or hands.url, hands, **settings))

        yield open_one
        await Client.close_all()


@pytest.fixture
async def house(open_house: OpenHouse) -> House:
    """One slot, no limits."""
    return await open_house()
