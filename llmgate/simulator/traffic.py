"""A little traffic for the demo: a few clients that come back every few seconds, so that there is something to see."""

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

BEAT_SECONDS = 2.0
ROUND = 6
"""Beats until everything comes again."""


@dataclass(frozen=True)
class Visit:
    """One request of the demo's clients."""

    path: str
    model: str
    client: str
    session: str = ""
    purpose: str = ""
    max_tokens: int = 40

    def headers(self) -> dict[str, str]:
        named = {"user-agent": self.client, "llmgate-session": self.session, "llmgate-purpose": self.purpose}
        return {name: value for name, value in named.items() if value}

    def body(self) -> dict[str, Any]:
        messages = [{"role": "user", "content": "hi"}]
        return {"model": self.model, "max_tokens": self.max_tokens, "stream": True, "messages": messages}


MESSAGES, CHAT = "/llm/v1/messages", "/llm/v1/chat/completions"
BUSY, IDLE = "reasoning", "qwen2.5:3b-instruct"

VISITS = {
    0: (
        Visit(MESSAGES, BUSY, "claude-cli/2.1", "a61e6e40-7d2c-4a55"),
        Visit(MESSAGES, BUSY, "Anthropic/Python 2.14.0", "e7454411-0b1f-4c1e", "session-title"),
        Visit(CHAT, BUSY, "opencode/1.4", "ses_dd49k2gY"),
    ),
    1: (Visit(CHAT, IDLE, "OpenAI/Python 3.57.0"),),
    3: (Visit(MESSAGES, IDLE, "claude-cli/2.1", "a61e6e40-7d2c-4a55", "session-title"),),
    5: (Visit(CHAT, IDLE, "opencode/1.4", "ses_dd49k2gY"),),
}
"""Who comes at which beat. The busy upstream's two slots of three seconds are full for half of each round, no more."""


def visits() -> Iterator[tuple[Visit, ...]]:
    """Who comes at each beat, for ever."""
    for beat in itertools.count():
        yield VISITS.get(beat % ROUND, ())


async def run_traffic(url: str, beat_seconds: float = BEAT_SECONDS) -> None:
    """Visit the front door at `url` until cancelled. A request that fails is not made again."""
    unlimited = httpx.Limits(max_connections=None)
    async with (
        httpx.AsyncClient(base_url=url, timeout=60, limits=unlimited, trust_env=False) as client,
        asyncio.TaskGroup() as group,
    ):
        for present in visits():
            for visit in present:
                group.create_task(_pay(client, visit))
            await asyncio.sleep(beat_seconds)


async def _pay(client: httpx.AsyncClient, visit: Visit) -> None:
    try:
        async with client.stream("POST", visit.path, headers=visit.headers(), json=visit.body()) as answer:
            async for _ in answer.aiter_raw():
                pass
    except httpx.HTTPError:
        return
