"""F59: control characters and long texts where clients name things: no header of theirs too many, no line too many in
the log, nothing that a terminal obeys, nothing without a bound."""

import asyncio
import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest
from gateprocess import CHAT, MESSAGES, ROOT, GateProcess, request_body
from hands import Hands
from rawclient import Client, post

from tests.e2e.access.conftest import LAPTOP

KEY = {"x-api-key": LAPTOP}
LONG = "x" * 10_000
ESCAPES = "\x1b[31mred\x1b]0;title\x07\x9b2J\x7f\t"
NAMED = ("llmgate-session", "llmgate-purpose", "llmgate-client", "user-agent", "x-request-id", "traceparent", "origin")
SEEN = ("llmgate-session", "llmgate-purpose", "llmgate-client", "user-agent")

LINE = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+Z llmgate: [^\x00-\x1f\x7f-\x9f]{1,1000}")


def assert_quiet(gate: GateProcess) -> None:
    """Every line of the log is one of ours, and short."""
    for line in gate.log.split("\n")[:-1]:
        assert LINE.fullmatch(line), line


def seen_by_an_operator(gate: GateProcess) -> list[str]:
    """As it comes out of a pipe, where no colours are."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "300"}
    found = []
    for arguments in (["status"], ["ps", "-a"], ["top", "--once"], ["--json", "ps", "-a"]):
        command = [sys.executable, "-m", "llmgate", "--socket", str(gate.socket), *arguments]
        done = subprocess.run(command, capture_output=True, check=False, timeout=100, env=environ)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.decode())
    return found


@pytest.mark.parametrize("text", [ESCAPES, LONG, "ü\u202e\u2028name", "a\x85b\u200b", "'; drop --", "%s %d %n {0}"])
async def test_f59_whatever_a_client_calls_itself(keyed: GateProcess, hands: Hands, text: str) -> None:
    first = await keyed.ask("m", headers=KEY)
    turn = await hands.turn()
    lines = [f"{name}: ".encode() + text.encode() for name in SEEN]
    plain = post(MESSAGES, request_body("m", metadata={"user_id": text}), KEY)
    client = await Client.connect(keyed.port)
    client.send(plain.replace(b"\r\n\r\n", b"\r\n" + b"\r\n".join(lines) + b"\r\n\r\n", 1))
    head = await client.head()
    if head.status == 400:  # the parser does not take all of them
        assert "\x1b" in text
        await client.wait_closed()
    else:
        assert head.status == 200
        await keyed.wait_waiting("up", 1)
        (view,) = keyed.requests("waiting")
        for field in ("session", "purpose", "client", "peer", "model"):
            assert len(view[field]) <= 128
            assert view[field].isprintable()
        for shown in await asyncio.to_thread(seen_by_an_operator, keyed):
            assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown)
            assert LONG[:300] not in shown
    await turn.complete()
    await first.body()
    if head.status == 200:
        await (await hands.turn()).complete()
        await client.frames()
    assert_quiet(keyed)


BREAKS = [b"a\r\nx-evil: 1", b"a\nx-evil: 1", b"a\rx-evil: 1", b"a\0b", b"\r\n\r\nGET /healthz HTTP/1.1\r\nhost: a"]


@pytest.mark.parametrize("value", BREAKS)
@pytest.mark.parametrize("name", NAMED)
async def test_f59_no_header_is_made_of_a_value(keyed: GateProcess, hands: Hands, name: str, value: bytes) -> None:
    """A line end in a value is the end of the header; what follows is the client's own header, and goes nowhere."""
    client = await Client.connect(keyed.port)
    plain = post(MESSAGES, request_body("m", stream=False), KEY)
    client.send(plain.replace(b"\r\n\r\n", b"\r\n" + name.encode() + b": " + value + b"\r\n\r\n", 1))
    answering = asyncio.ensure_future(client.head())
    turning = asyncio.ensure_future(hands.turn())
    await asyncio.wait([answering, turning], return_when=asyncio.FIRST_COMPLETED)
    if turning.done():
        turn = turning.result()
        assert b"evil" not in turn.request.head
        await turn.complete()
    turning.cancel()
    head = await answering
    assert "x-evil" not in head.headers
    assert head.status in (200, 400, 403)
    client.half_close()
    rest = await client.wait_closed()
    assert b"x-evil" not in rest
    assert_quiet(keyed)


MODELS = ["m\r\nx-evil: 1", "m\n", "\x1b[2J", "m\0", LONG, "m\u2028", "\u202em", "\ud800"]


@pytest.mark.parametrize("path", [MESSAGES, CHAT, "/api/chat", "/api/show"])
@pytest.mark.parametrize("model", MODELS)
async def test_f59_model_names(keyed: GateProcess, hands: Hands, path: str, model: str) -> None:
    client = await Client.connect(keyed.port)
    client.send(post(path, json.dumps({"model": model, "messages": []}).encode(), KEY))
    head = await client.head()
    body = await client.body()
    assert head.status in (400, 404)
    assert "x-evil" not in head.headers
    document: dict[str, Any] = json.loads(body)
    text = document["error"] if path.startswith("/api/") else document["error"]["message"]
    assert "\x1b" not in text
    assert "\n" not in text
    assert len(text) <= 2_000
    await hands.wait(lambda: hands.connections == [])
    assert_quiet(keyed)
