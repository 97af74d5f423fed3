"""Official SDKs behind the queue: they wait without an error, and a queue error ends their call after one request."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import sdk_probe
from gateprocess import GateProcess
from hands import CHAT_START, START, Hands

from llmgate.simulator import Behaviour, Simulator

OLD = Path(os.environ.get("LLMGATE_TEST_ANTHROPIC_OLD", Path(sys.prefix) / "anthropic-old"))
"""Where `make` puts an old version of the anthropic SDK."""

ANTHROPIC = ["anthropic_raw", "anthropic_helper", "anthropic_async_raw", "anthropic_async_helper"]
OPENAI = ["openai_chat", "openai_async_chat"]
TEXT = "The queue is short and the answer is "


async def probe(gate: GateProcess, model: str, modes: list[str], *, old: bool = False) -> dict[str, dict[str, Any]]:
    """What each mode got."""
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LLMGATE_CONFIG")}
    if old:
        assert OLD.is_dir(), f"{OLD} is not there: run `make test`, or pip install --target {OLD} anthropic==0.76.0"
        environ["PYTHONPATH"] = str(OLD)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "ignore", sdk_probe.__file__, f"{gate.url}/llm", model, *modes),
        stdout=asyncio.subprocess.PIPE,
        env=environ,
    )
    out, _ = await process.communicate()
    told = [json.loads(line) for line in out.splitlines()]
    assert {line["mode"] for line in told} == set(modes)
    return {line["mode"]: line for line in told}


@pytest.mark.parametrize("old", [False, True], ids=["current", "0.76"])
async def test_anthropic_streams_wait_in_the_queue_and_read_the_whole_text(folder: Path, old: bool) -> None:
    """Four ways at once on one slot that each holds for a second: the last one waits four."""
    await wait_and_read(folder, ANTHROPIC, old=old)


async def test_openai_streams_wait_in_the_queue_and_read_the_whole_text(folder: Path) -> None:
    await wait_and_read(folder, OPENAI)


async def test_without_a_stream_they_wait_and_read_the_whole_text(folder: Path) -> None:
    await wait_and_read(folder, ["anthropic_whole", "openai_whole"])


async def wait_and_read(folder: Path, modes: list[str], *, old: bool = False) -> None:
    async with Simulator(Behaviour(slots=1, hold=1.0, tokens=8), models=["m"]) as server:
        upstream = {"url": server.url, "models": ["m"], "max_concurrent": 1}
        settings = {"waiting": {"heartbeat": "200ms"}, "upstreams": {"a": upstream}}
        with GateProcess(folder, settings) as gate:
            first = await gate.ask("m")
            told = await probe(gate, "m", modes, old=old)
            await first.body()
            await gate.wait(gate.is_idle)
            done = gate.requests("done")
    assert {mode: (line.get("text"), line.get("error")) for mode, line in told.items()} == {
        mode: (TEXT, None) for mode in modes
    }
    assert {line["last"] for line in told.values()} <= {"message_stop", "end_turn", "stop"}
    assert [request["outcome"] for request in done] == ["completed"] * (1 + len(modes))
    assert (server.ledger.seen, server.ledger.held_back, server.ledger.highest) == (1 + len(modes), 0, 1)
    waits = sorted(request["dispatched_ms"] - request["arrived_ms"] for request in done)
    assert waits[-1] > 1000


@pytest.mark.parametrize("old", [False, True], ids=["current", "0.76"])
async def test_anthropic_raises_a_typed_error_on_queue_full_after_one_request(
    gate: GateProcess, hands: Hands, old: bool
) -> None:
    for told in (await refuse(gate, hands, [*ANTHROPIC, "anthropic_whole"], old=old)).values():
        assert "APIStatusError" in told["bases"]
        assert told["status"] == 503
        assert "(QUEUE_FULL)" in told["message"]


async def test_openai_raises_a_typed_error_on_queue_full_after_one_request(gate: GateProcess, hands: Hands) -> None:
    for told in (await refuse(gate, hands, [*OPENAI, "openai_whole"])).values():
        assert "APIStatusError" in told["bases"]
        assert told["status"] == 503
        assert "(QUEUE_FULL)" in told["message"]


async def refuse(gate: GateProcess, hands: Hands, modes: list[str], *, old: bool = False) -> dict[str, dict[str, Any]]:
    await gate.ask("none")
    running = await hands.turn()
    before = gate.upstream("none")["queue_full"]
    told = await probe(gate, "none", modes, old=old)
    assert gate.upstream("none")["queue_full"] == before + len(modes)
    await running.complete()
    return told


@pytest.mark.parametrize("old", [False, True], ids=["current", "0.76"])
async def test_anthropic_raises_a_typed_error_on_queue_timeout_in_an_open_stream_after_one_request(
    gate: GateProcess, hands: Hands, old: bool
) -> None:
    for told in (await time_out(gate, hands, ANTHROPIC, old=old)).values():
        assert "APIError" in told["bases"]
        assert "(QUEUE_TIMEOUT)" in told["message"]


async def test_openai_raises_a_typed_error_on_queue_timeout_in_an_open_stream_after_one_request(
    gate: GateProcess, hands: Hands
) -> None:
    for told in (await time_out(gate, hands, OPENAI)).values():
        assert "APIError" in told["bases"]
        assert "(QUEUE_TIMEOUT)" in told["message"]


async def test_they_raise_a_typed_error_on_queue_timeout_without_a_stream_after_one_request(
    gate: GateProcess, hands: Hands
) -> None:
    for told in (await time_out(gate, hands, ["anthropic_whole", "openai_whole"])).values():
        assert "APIStatusError" in told["bases"]
        assert told["status"] == 504


async def time_out(
    gate: GateProcess, hands: Hands, modes: list[str], *, old: bool = False
) -> dict[str, dict[str, Any]]:
    await gate.ask("hasty")
    running = await hands.turn()
    before = gate.upstream("hasty")["queue_timeout"]
    told = await probe(gate, "hasty", modes, old=old)
    assert gate.upstream("hasty")["queue_timeout"] == before + len(modes)
    await running.complete()
    await gate.wait(gate.is_idle)
    assert len(hands.requests) == 1
    return told


async def test_an_upstream_that_breaks_off_raises_instead_of_half_a_text(gate: GateProcess, hands: Hands) -> None:
    for mode in [*ANTHROPIC, *OPENAI]:
        asking = asyncio.ensure_future(probe(gate, "one", [mode]))
        turn = await hands.turn()
        await turn.begin(START if mode in ANTHROPIC else CHAT_START)
        turn.connection.close()
        told = (await asking)[mode]
        assert "APIError" in told.get("bases", []), told
