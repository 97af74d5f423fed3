"""Official SDKs behind the queue: they wait without an error, and a queue error ends their call after one request.

Each SDK is asked once, in a process of its own, in all its ways and at four upstreams at the same time.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import sdk_probe
from gateprocess import GateProcess
from hands import Hands
from rawclient import Client

OLD = Path(os.environ.get("LLMGATE_TEST_ANTHROPIC_OLD", Path(sys.prefix) / "anthropic-old"))
"""Where `make` puts an old version of the anthropic SDK."""

ANTHROPIC = ["anthropic_raw", "anthropic_helper", "anthropic_async_raw", "anthropic_async_helper"]
OPENAI = ["openai_chat", "openai_async_chat", "openai_completions", "openai_responses", "openai_responses_helper"]
MODES = {
    "anthropic": [*ANTHROPIC, "anthropic_whole"],
    "anthropic-0.76": [*ANTHROPIC, "anthropic_whole"],
    "openai": [*OPENAI, "openai_whole", "openai_responses_whole"],
}
LIMITS = {"patient": {}, "full": {"max_queued": 0}, "late": {"queue_timeout": "500ms"}, "broken": {"max_concurrent": 0}}

LAST = {"message_stop", "end_turn", "stop", "response.completed", "completed"}
"""How a whole answer ends."""

IMPORT_SECONDS = 60.0
"""An SDK takes seconds to be imported."""


@dataclass
class Account:
    """What came of it: `told` by model, then by mode; the outcomes by model, as the daemon counted them."""

    sdk: str
    told: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    waits: list[int] = field(default_factory=list)
    """Of those at `patient`, in milliseconds."""

    @property
    def calls(self) -> int:
        return len(MODES[self.sdk])


@pytest.fixture(scope="module", params=MODES)
def account(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    assert OLD.is_dir(), f"{OLD} is not there: run `make test`, or pip install --target {OLD} anthropic==0.76.0"
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        yield runner.run(take_account(request.param, tmp_path_factory.mktemp("sdk")))


async def take_account(sdk: str, folder: Path) -> Account:
    account = Account(sdk)
    async with asyncio.timeout(100), Hands() as hands:
        upstreams = {
            name: {"url": hands.url, "models": [name], "max_concurrent": 1, **limits} for name, limits in LIMITS.items()
        }
        with GateProcess(folder, {"waiting": {"heartbeat": "200ms"}, "upstreams": upstreams}) as gate:
            fillers = [await gate.ask(model) for model in ("patient", "full", "late")]
            turns = [await hands.turn() for _ in fillers]
            asking = asyncio.ensure_future(probe(gate, sdk))
            for _ in range(len(ANTHROPIC if sdk != "openai" else OPENAI)):
                turn = await hands.turn(IMPORT_SECONDS)
                assert turn.fields["model"] == "broken"
                await turn.begin()
                turn.connection.close()
            await gate.wait_waiting("patient", account.calls)
            await asyncio.sleep(1)
            for turn in turns:
                await turn.complete()
            for _ in range(account.calls):
                turn = await hands.turn()
                await asyncio.sleep(0.2)
                await turn.complete()
            for line in await asking:
                account.told.setdefault(line["model"], {})[line["mode"]] = line
            await Client.close_all()
            await gate.wait(gate.is_idle)
            for view in gate.requests("done"):
                account.outcomes.setdefault(view["model"], Counter())[view["outcome"]] += 1
                if view["model"] == "patient":
                    account.waits.append(view["dispatched_ms"] - view["arrived_ms"])
    return account


async def probe(gate: GateProcess, sdk: str) -> list[dict[str, Any]]:
    """What each call got."""
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LLMGATE_CONFIG")}
    if sdk == "anthropic-0.76":
        environ["PYTHONPATH"] = str(OLD)
    calls = [f"{mode}={model}" for mode in MODES[sdk] for model in LIMITS if (mode[-5:], model) != ("whole", "broken")]
    command = [sys.executable, "-W", "ignore", sdk_probe.__file__, f"{gate.url}/llm", *calls]
    done = await asyncio.to_thread(subprocess.run, command, stdout=subprocess.PIPE, env=environ, timeout=90)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert {f"{line['mode']}={line['model']}" for line in told} == set(calls)
    return told


def test_who_waits_gets_the_whole_text_without_an_error(account: Account) -> None:
    """Through heartbeats and several queue frames, some of them for seconds."""
    got = {mode: (told.get("text"), told.get("error")) for mode, told in account.told["patient"].items()}
    assert got == {mode: ("Hello" if "whole" in mode or "openai" in mode else "Hello there", None) for mode in got}
    assert {told["last"] for told in account.told["patient"].values()} <= LAST
    assert account.outcomes["patient"] == {"completed": account.calls + 1}
    assert len([wait for wait in account.waits if wait > 1000]) == account.calls


def test_queue_full_raises_a_typed_error_after_one_request(account: Account) -> None:
    for told in account.told["full"].values():
        assert "APIStatusError" in told["bases"]
        assert told["status"] == 503
        assert "(QUEUE_FULL)" in told["message"]
    assert account.outcomes["full"] == {"completed": 1, "queue_full": account.calls}


def test_queue_timeout_raises_a_typed_error_after_one_request(account: Account) -> None:
    """In an open stream, and as a status where there is no stream."""
    for mode, told in account.told["late"].items():
        assert ("APIStatusError" if "whole" in mode else "APIError") in told["bases"]
        assert "(QUEUE_TIMEOUT)" in told["message"]
    assert account.outcomes["late"] == {"completed": 1, "queue_timeout": account.calls}


def test_a_stream_that_breaks_off_raises_and_is_not_taken_for_a_whole_text(account: Account) -> None:
    for told in account.told["broken"].values():
        assert "APIError" in told["bases"]
        assert "(UPSTREAM_ERROR)" in told["message"]
