"""A gate in front of a real llama-server: what is asked of it, and what is waited for."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from anthropic_check import faults_of, text_of, without_queue
from gateprocess import GateProcess
from llamaserver import DeferredWatch, LlamaServer
from rawclient import Client

ENDLESS, LONG, SHORT = 3000, 100, 8
"""Tokens; 100 take some seconds on two slow cores."""
FIRST = ["launch", "cancel", "release"]
"""The story of a request whose client left."""
PATIENCE_SECONDS = 100.0
"""For what takes an idle machine some seconds; less than the time that a test has."""


def settings(server: LlamaServer, **upstream: Any) -> dict[str, Any]:
    """One upstream, "a", for every model; who waits hears something each tenth of a second."""
    own = {"url": server.url, "models": ["*"], "max_concurrent": 1, "kind": "llama-server"}
    return {"waiting": {"heartbeat": "100ms"}, "upstreams": {"a": own | upstream}}


@contextlib.contextmanager
def never_held_back(server: LlamaServer) -> Iterator[None]:
    """Meanwhile the server holds no request back; asked all along."""
    with DeferredWatch(server) as watch:
        yield
    assert watch.seen
    assert set(watch.seen) == {0}


async def until(condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def tell(gate: GateProcess, tokens: int, **options: Any) -> Client:
    messages = [{"role": "user", "content": "Write a long story about a lighthouse."}]
    fields: dict[str, Any] = {"messages": messages, "ignore_eos": True}
    return await gate.ask("m", max_tokens=tokens, **fields | options)


async def read_in(gate: GateProcess, words: int, first: str) -> Client:
    """Asks what takes long to be read; `first` differs each time, so that no cache knows the prompt."""
    content = f"{first} " + "word " * words
    return await tell(gate, SHORT, messages=[{"role": "user", "content": content}])


async def answered(client: Client) -> None:
    """It has, or gets, its whole answer."""
    await client.frames()
    assert faults_of(without_queue(client.received)) == []
    assert text_of(without_queue(client.received)) != ""


def alarms(gate: GateProcess) -> list[str]:
    """Their names."""
    return [text.partition(":")[0] for text in gate.upstream("a")["alarms"]]
