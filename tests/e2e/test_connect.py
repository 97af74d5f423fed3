"""What `connect`, `probe` and `try` print, used as a person would, against a real daemon and a simulated server."""

import asyncio
import contextlib
import json
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from gateprocess import ROOT, GateProcess
from javascript import command

from llmgate.simulator import Behaviour, Simulator

SECONDS = 120


@contextlib.asynccontextmanager
async def behind_gate(folder: Path, **limits: Any) -> AsyncIterator[GateProcess]:
    async with Simulator(Behaviour(slots=1), models=["reasoning"]) as server:
        upstream = {"url": server.url, "max_concurrent": 1, "models": ["reasoning"], **limits}
        gate = GateProcess(folder, {"upstreams": {"a": upstream}})
        await asyncio.to_thread(gate.start)
        try:
            await gate.wait(gate.has_found_its_servers)
            yield gate
        except BaseException:
            gate.end()
            raise
        await asyncio.to_thread(gate.stop)


async def run(*line: str, folder: Path, **environ: str) -> str:
    """Its standard output; it must end with status 0."""
    whole = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": str(ROOT), **environ}
    done = await asyncio.to_thread(
        subprocess.run, line, capture_output=True, text=True, check=False, cwd=folder, env=whole, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def llmgate(gate: GateProcess, *line: str) -> str:
    return await run(sys.executable, "-m", "llmgate", "--socket", str(gate.socket), *line, folder=gate.folder)


async def test_curl_as_it_is_printed(tmp_path: Path) -> None:
    async with behind_gate(tmp_path) as gate:
        printed = await llmgate(gate, "connect", "curl")
        streamed = await run("sh", "-c", printed, folder=tmp_path)
        assert "event: message_start" in streamed
        assert "event: message_stop" in streamed


@pytest.mark.parametrize("sdk", ["anthropic", "openai"])
async def test_python_as_it_is_printed(tmp_path: Path, sdk: str) -> None:
    async with behind_gate(tmp_path, queue_timeout="10m") as gate:
        told = json.loads(await llmgate(gate, "connect", "python", "--json"))
        (script,) = [block["text"] for block in told["blocks"] if f"import {sdk}\n" in block["text"]]
        assert "timeout=2400)" in script
        assert len((await run(sys.executable, "-c", script, folder=tmp_path)).split()) > 3


@pytest.mark.slow
@pytest.mark.parametrize("client", ["pi", "dsh"])
async def test_pi_ai_with_what_is_printed(tmp_path: Path, client: str) -> None:
    """The library under both of them takes the URL and the protocol as they stand in the file."""
    async with behind_gate(tmp_path) as gate:
        values = json.loads(await llmgate(gate, "connect", client, "--json"))["files"][0]["values"]
        provider = values.get("llm-pi-ai", values)["providers"]["llmgate"]
        url, model = provider.get("baseUrl") or provider["baseURL"], provider["models"][0]["id"]
        asked = await run(
            *command("pi-ai", "@earendil-works/pi-ai"), url, f"{provider['api']}={model}", folder=tmp_path
        )
        told = json.loads(asked)
        assert (told["model"], told.get("error")) == ("reasoning", None)
        assert len(told["text"].split()) > 3


async def test_files_that_are_written_say_where_the_gate_is(tmp_path: Path) -> None:
    async with behind_gate(tmp_path, queue_timeout="10m") as gate:
        for client in ("claude-code", "codex"):
            await llmgate(gate, "connect", client, "--write", "--yes")
        env = json.loads((tmp_path / ".claude" / "settings.json").read_text())["env"]
        assert (env["ANTHROPIC_BASE_URL"], env["ANTHROPIC_MODEL"]) == (f"{gate.url}/llm", "reasoning")
        assert int(env["API_TIMEOUT_MS"]) > 600_000
        codex = tomllib.loads((tmp_path / ".codex" / "config.toml").read_text())
        assert codex["model_providers"]["llmgate"]["base_url"] == f"{gate.url}/llm/v1"


async def test_try_tells_of_its_answer(tmp_path: Path) -> None:
    async with behind_gate(tmp_path) as gate:
        assert (await llmgate(gate, "try")).startswith(f"model        reasoning, at {gate.url}/llm\n")
        told = json.loads(await llmgate(gate, "try", "reasoning", "--json"))
        assert (told["ok"], told["positions"]) == (True, [])
        assert told["output_tokens"] > 3


async def test_what_probe_prints_is_a_settings_file(tmp_path: Path) -> None:
    async with Simulator(Behaviour(slots=3), models=["m"]) as server:
        printed = await run(sys.executable, "-m", "llmgate", "probe", server.url, folder=tmp_path)
        assert not server.ledger.started  # nothing was run
    (upstream,) = tomllib.loads(printed)["upstreams"].values()
    assert (upstream["url"], upstream["max_concurrent"], upstream["models"]) == (server.url, 3, ["m"])
    file = tmp_path / "l.toml"
    file.write_text(printed)
    await run(sys.executable, "-m", "llmgate", "config", "check", str(file), folder=tmp_path)
