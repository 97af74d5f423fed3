"""In front of a real llama-server: a translated answer is the one that the server gives natively, and what is not
translated is the server's own.

The server is greedy and keeps no prompt, so that the same request has the same answer.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from email.message import Message
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from anthropic_check import read_events
from anthropic_message import seen_in
from gateprocess import GateProcess
from hands import free_port
from llamaserver import MODEL, LlamaServer, is_supported

pytestmark = pytest.mark.skipif(not is_supported(), reason="the llama-server package is for Linux on x86_64")

STABLE = ("--no-cache-prompt", "--temp", "0")
NATIVE, TRANSLATED = "native", "translated"
CHANGES = {"id", "item_id", "created", "created_at", "completed_at", "timings", "system_fingerprint"}
"""What differs from answer to answer."""
NO_CACHE = ("cache_read_input_tokens", 0)
"""Told or left out, it says the same."""


@pytest.fixture(scope="module")
def llama(model: Path) -> Iterator[LlamaServer]:
    with LlamaServer(model.parent, model, free_port(), parallel=1, options=STABLE) as server:
        yield server


@pytest.fixture(scope="module")
def embedder(model: Path) -> Iterator[LlamaServer]:
    options = ("--embeddings", "--pooling", "mean")
    with LlamaServer(model.parent, model, free_port(), parallel=1, options=options) as server:
        yield server


@pytest.fixture(scope="module")
def gate(llama: LlamaServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """One server as two upstreams: of one it is said that it speaks OpenAI's protocols only."""
    own = {"url": llama.url, "max_concurrent": 1}
    upstreams = {
        NATIVE: {**own, "models": [NATIVE], "kind": "llama-server", "force_stream": False},
        TRANSLATED: {**own, "models": [TRANSLATED], "kind": "openai"},
    }
    with GateProcess(tmp_path_factory.mktemp("gate"), {"upstreams": upstreams}) as gate:
        yield gate
        gate.assert_no_traceback()


@pytest.fixture(autouse=True)
async def idle(gate: GateProcess) -> AsyncIterator[None]:
    yield
    await gate.wait(gate.is_idle)


def post(url: str, path: str, **body: Any) -> tuple[int, Message, bytes]:
    """Status, headers and body of an answer."""
    port = int(url.rpartition(":")[2])
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


# ---- translated and native

USER = {"role": "user", "content": "Count from one to ten, in words, one word a line."}
HELLO = {"role": "user", "content": "Say hello."}
TOOL = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
REQUESTS: dict[str, dict[str, Any]] = {
    "max_tokens": {"max_tokens": 3},
    "stop_sequences": {"max_tokens": 20, "stop_sequences": ["lo", "no such text"], "messages": [HELLO]},
    "system and turns": {
        "max_tokens": 8,
        "system": [{"type": "text", "text": "You are terse."}],
        "messages": [USER, {"role": "assistant", "content": "one\ntwo"}, {"role": "user", "content": "Go on."}],
    },
    "blocks": {"max_tokens": 8, "messages": [{"role": "user", "content": [{"type": "text", "text": "Say hello."}]}]},
    "tools": {"max_tokens": 8, "tools": [TOOL], "tool_choice": {"type": "auto"}},
}


def message(gate: GateProcess, model: str, *, stream: bool, **fields: Any) -> dict[str, Any]:
    """The message that a client sees, but for which stop sequence it was: chat completions do not tell that."""
    asked = {"model": model, "temperature": 0, "stream": stream, "messages": [USER]}
    status, headers, body = post(gate.url, "/llm/v1/messages", **asked | fields)
    assert status == 200, body
    made_here = headers["llmgate-request-id"].replace("req_", "msg_").encode()
    assert (made_here in body) == (model == TRANSLATED)
    if not stream:
        found = json.loads(body)
        return {key: tidy(found[key]) for key in ("content", "stop_reason", "usage")}
    seen = seen_in(body)
    assert (seen.faults == [] or model == NATIVE, seen.error) == (True, None)
    return {"content": tidy(seen.content), "stop_reason": seen.stop_reason, "usage": tidy(seen.usage)}


def tidy(value: Any) -> Any:
    """Without what changes."""
    if isinstance(value, list):
        return [tidy(inner) for inner in value]
    if isinstance(value, dict):
        kept = {key: inner for key, inner in value.items() if key not in CHANGES and (key, inner) != NO_CACHE}
        return {key: tidy(inner) for key, inner in kept.items()}
    return value


@pytest.mark.parametrize("fields", REQUESTS.values(), ids=REQUESTS.keys())
@pytest.mark.parametrize("stream", [True, False])
def test_a_translated_answer_is_the_native_one(gate: GateProcess, stream: bool, fields: dict[str, Any]) -> None:
    native = message(gate, NATIVE, stream=stream, **fields)
    assert native["content"]
    assert message(gate, TRANSLATED, stream=stream, **fields) == native


# ---- its own surfaces

CHAT = {"messages": [USER], "max_tokens": 12, "temperature": 0}
SURFACES: dict[str, dict[str, Any]] = {
    "/v1/messages": CHAT,
    "/v1/chat/completions": CHAT,
    "/v1/completions": {"prompt": "One, two, three,", "max_tokens": 12, "temperature": 0},
    "/v1/responses": {"input": "Say hello.", "max_output_tokens": 12, "temperature": 0},
}


@pytest.mark.parametrize("path", SURFACES)
@pytest.mark.parametrize("stream", [True, False])
def test_each_surface_passes_as_the_server_speaks_it(
    gate: GateProcess, llama: LlamaServer, stream: bool, path: str
) -> None:
    """Event by event, and to the last byte but for ids and times."""
    asked = {"model": NATIVE, "stream": stream, **SURFACES[path]}
    through, direct = post(gate.url, path, **asked), post(llama.url, path, **asked)
    assert (through[0], through[1]["content-type"]) == (direct[0], direct[1]["content-type"])
    assert through[0] == 200
    if stream:
        told = [(name, tidy(data)) for name, data in read_events(through[2])]
        assert told == [(name, tidy(data)) for name, data in read_events(direct[2])]
        assert len(told) > 3
    else:
        assert tidy(json.loads(through[2])) == tidy(json.loads(direct[2]))


@pytest.mark.slow
def test_embeddings_pass_as_the_server_speaks_them(embedder: LlamaServer, tmp_path: Path) -> None:
    upstream = {"url": embedder.url, "models": [MODEL], "max_concurrent": 1}
    asked = {"model": MODEL, "input": ["one", "two"]}
    with GateProcess(tmp_path, {"upstreams": {"embedder": upstream}}) as gate:
        status, _, body = post(gate.url, "/llm/v1/embeddings", **asked)
        assert (status, body) == (200, post(embedder.url, "/v1/embeddings", **asked)[2])
        assert [len(entry["embedding"]) > 100 for entry in json.loads(body)["data"]] == [True, True]
        ranked = {"query": "one", "documents": ["one"]}  # it says that it was not started for that
        refused, direct = post(gate.url, "/v1/rerank", **ranked, **asked), post(embedder.url, "/v1/rerank", **ranked)
        assert (refused[0], refused[2]) == (direct[0], direct[2])
        assert refused[0] >= 400


def test_ollamas_surfaces_are_not_spoken(gate: GateProcess) -> None:
    for path in ("/api/chat", "/api/generate", "/api/embed"):
        status, _, body = post(gate.url, path, model=NATIVE, messages=[USER])
        assert (status, "does not speak" in json.loads(body)["error"]) == (404, True)
