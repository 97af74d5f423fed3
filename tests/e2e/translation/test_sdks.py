"""The official anthropic SDK reads what was translated: text, thinking, calls of tools, errors."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sdk_blocks
from chatserver import ChatServer, play
from gateprocess import GateProcess
from hands import Turn

from tests.protocols.translate.openai_streams import call as call_chunk
from tests.protocols.translate.openai_streams import chunk, end, say, sse, think, tool

FOLDERS = Path(os.environ.get("LLMGATE_TEST_CLIENTS", Path(sys.prefix) / "clients"))
"""Where `make` puts versions that cannot lie beside those in its own environment, each in a folder of its own."""

IMPORT_SECONDS = 60.0
"""An SDK takes seconds to be imported."""

MODES = ("raw", "helper", "whole")
STREAMS = {
    "text": [say("Hel"), say("lo"), *end()],
    "thinking": [think("h"), think("m"), say("Hello"), *end()],
    "tools": [
        say("Let me look."),
        call_chunk(tool(0, "f", '{"a":', id="call_a"), tool(1, "g", "", id="call_b")),
        call_chunk(tool(0, None, "[1]}")),
        *end("tool_calls"),
    ],
    "broken": [say("Hel"), {"error": {"message": "slot lost", "code": 400}}],
}
MESSAGES = {
    "text": {"content": "Hello"},
    "thinking": {"content": "Hello", "reasoning_content": "hm"},
    "tools": {
        "content": "Let me look.",
        "tool_calls": [tool(0, "f", '{"a":[1]}', id="call_a"), tool(1, "g", "", id="call_b")],
    },
    "broken": {},
}
SAID: dict[str, list[dict[str, Any]]] = {
    "text": [{"type": "text", "text": "Hello"}],
    "thinking": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Hello"}],
    "tools": [
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "call_a", "name": "f", "input": {"a": [1]}},
        {"type": "tool_use", "id": "call_b", "name": "g", "input": {}},
    ],
}


async def answer(turn: Turn) -> None:
    """What the last word of its model says; not every SDK asks with a stream."""
    kind = turn.fields["model"].rpartition("-")[2]
    if turn.fields.get("stream"):
        with contextlib.suppress(ConnectionError):  # after an error nobody listens
            await play(turn, sse(*STREAMS[kind]), range(0, 2000, 7))
    elif kind == "broken":
        await turn.answer(400, b'{"error":{"message":"slot lost"}}')
    else:
        finish = "tool_calls" if kind == "tools" else "stop"
        choice = {"index": 0, "message": MESSAGES[kind], "finish_reason": finish}
        await turn.answer(200, json.dumps({**chunk(), "choices": [choice]}).encode())


@pytest.mark.parametrize("version", ["current", "anthropic-0.76"])
async def test_it_reads_what_was_translated(gate: GateProcess, server: ChatServer, version: str) -> None:
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LLMGATE_CONFIG")}
    options = ["-W", "ignore"]
    if version != "current":
        folder = FOLDERS / version
        assert folder.is_dir(), f"{folder} is not there: run `make clients`"
        environ["PYTHONPATH"] = str(folder)
        options.append("-S")
    calls = [f"{mode}=crowd-{kind}" for mode in MODES for kind in STREAMS]
    command = [sys.executable, *options, sdk_blocks.__file__, f"{gate.url}/llm", *calls]
    asking = asyncio.ensure_future(
        asyncio.to_thread(subprocess.run, command, stdout=subprocess.PIPE, env=environ, timeout=IMPORT_SECONDS)
    )
    for _ in calls:
        await answer(await server.turn(IMPORT_SECONDS))
    told = [json.loads(line) for line in (await asking).stdout.splitlines()]
    assert {f"{line['mode']}={line['model']}" for line in told} == set(calls)
    for line in told:
        check(line)


def check(line: dict[str, Any]) -> None:
    kind = line["model"].rpartition("-")[2]
    if kind == "broken":
        assert "APIStatusError" in line["bases"]
        assert "slot lost" in line["error"]
        return
    assert "error" not in line, line
    if line["mode"] == "raw":
        return
    for block in line["content"]:
        assert block["type"] != "thinking" or block.pop("signature")
    assert line["content"] == SAID[kind]
    assert line["stop_reason"] == ("tool_use" if kind == "tools" else "end_turn")
