"""pi-ai in front of a real llama-server, by all APIs that both of them speak: it waits behind another, then answers.

The server's grammar allows one sentence only, so that a whole text can be told from a part.
"""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from gateprocess import CHAT, GateProcess
from hands import free_port
from javascript import command
from llamaserver import DeferredWatch, LlamaServer, assemble_model, is_supported
from rawclient import Client
from stage import WAIT_SECONDS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not is_supported(), reason="the llama-server package is for Linux on x86_64"),
]

SENTENCE = "A lighthouse stands on a rock, and its light turns all night long."
APIS = ("anthropic-messages", "openai-completions", "openai-responses")
ENDLESS = 3000
"""Tokens of the request that has the slot, under a grammar of its own."""

START_SECONDS = 60.0
"""Node takes a second to start and to import; only a broken one comes near it."""


@pytest.fixture
async def llama(tmp_path: Path) -> AsyncIterator[LlamaServer]:
    model = assemble_model(tmp_path / "model.gguf")
    grammar = ("--grammar", f'root ::= "{SENTENCE}"')
    with LlamaServer(tmp_path, model, free_port(), parallel=1, options=grammar) as server:
        yield server
    model.unlink()


async def test_each_api_waits_in_the_queue_and_gets_the_whole_text(llama: LlamaServer, tmp_path: Path) -> None:
    upstream = {"url": llama.url, "models": ["taken", *APIS], "max_concurrent": 1}
    with GateProcess(tmp_path, {"upstreams": {"one": upstream}}) as gate, DeferredWatch(llama) as watch:
        taken = await gate.ask("taken", path=CHAT, max_tokens=ENDLESS, grammar="root ::= [a-z ]+", ignore_eos=True)
        await taken.frame()
        asking = asyncio.ensure_future(ask_pi(gate))
        async with asyncio.timeout(START_SECONDS):
            while gate.upstream("one")["waiting"] < len(APIS):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await asyncio.sleep(WAIT_SECONDS)
        taken.reset()
        told = await asking
        await gate.wait(gate.is_idle)
        seen = [view for view in gate.requests("done") if view["model"] in APIS]
        await Client.close_all()

    ended = {"text": SENTENCE, "last": "done stop"}
    assert told == [{"mode": api, "model": api, **ended} for api in APIS]
    assert sorted((view["model"], view["outcome"]) for view in seen) == [(api, "completed") for api in APIS]
    assert all(view["dispatched_ms"] - view["arrived_ms"] >= WAIT_SECONDS * 1000 for view in seen)
    assert set(watch.seen) == {0}
    assert llama.launched == 1 + len(APIS)


async def ask_pi(gate: GateProcess) -> list[dict[str, Any]]:
    """What each API got, by its name."""
    words = [*command("pi-ai", "@earendil-works/pi-ai"), f"{gate.url}/llm", *(f"{api}={api}" for api in APIS)]
    done = await asyncio.to_thread(subprocess.run, words, stdout=subprocess.PIPE, check=True, timeout=100)
    return sorted((json.loads(line) for line in done.stdout.splitlines()), key=lambda told: str(told["mode"]))
