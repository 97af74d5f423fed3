"""Paths of a server itself, under /upstream/NAME/: before a server that the test plays, and before a real one."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from gateprocess import GateProcess, request_body
from hands import ANSWER, Hands, free_port, stream_head
from llamaserver import DeferredWatch, LlamaServer, assemble_model, is_supported
from rawclient import Client, data_of, name_of, positions_of

from tests.server.passing import line

OPEN = "/llm/upstream/open"
ENDLESS, SHORT = 3000, 8
"""Tokens."""


async def ask(gate: GateProcess, method: str, path: str, body: bytes = b"", **headers: str) -> Client:
    client = await Client.connect(gate.port)
    client.send(line(method, path, body, **headers))
    return client


async def get(gate: GateProcess, path: str, body: bytes = b"") -> tuple[int, Any]:
    """Status and JSON; with a body it is a POST."""
    client = await ask(gate, "POST" if body else "GET", path, body, content_type="application/json")
    return (await client.head()).status, await client.json()


# ---- a server that the test plays


@pytest.fixture
async def hands() -> AsyncIterator[Hands]:
    async with Hands() as server:
        yield server


@pytest.fixture
async def gate(folder: Path, hands: Hands) -> AsyncIterator[GateProcess]:
    """Of its two upstreams one is open to be passed on to."""
    upstream = {"url": hands.url, "max_concurrent": 1, "release_timeout": "5ms"}
    upstreams = {"open": {**upstream, "models": ["m"], "passthrough": True}, "shut": upstream}
    with GateProcess(folder, {"upstreams": upstreams}) as gate:
        yield gate
        await Client.close_all()


async def test_in_its_turn_among_all_the_others(gate: GateProcess, hands: Hands) -> None:
    running = await gate.ask("m")
    turn = await hands.turn()
    await turn.begin()
    own = await ask(gate, "POST", OPEN + "/infill?a=b", b"\0\xff", llmgate_session="abcdefghij")
    await gate.wait_waiting("open", 1)
    last = await gate.ask("m")
    assert positions_of([await last.frame()]) == [(2, 2)]
    (waiting, *_) = gate.requests("waiting")
    assert (waiting["api"], waiting["path"], waiting["session"]) == ("passthrough", "/infill", "abcdefghij")

    # what starts no work passes by
    for method, path in (("GET", "/slots?x"), ("POST", "/tokenize"), ("DELETE", "/api/delete"), ("OPTIONS", "/")):
        client = await ask(gate, method, OPEN + path)
        asked = await hands.turn()
        assert asked.request.line == f"{method} {path} HTTP/1.1".encode()
        await asked.answer(200, b"[]")
        assert await client.body() == b"[]"
    assert (gate.upstream("open")["waiting"], hands.untaken) == (2, 0)

    await turn.end()
    assert await running.body() != b""
    turn = await hands.turn()
    assert (turn.request.line, turn.request.body) == (b"POST /infill?a=b HTTP/1.1", b"\0\xff")
    await turn.connection.send(stream_head(b"x/y"))
    await turn.say(b"first")
    assert await own.chunk() == b"first"
    await turn.say(b"second")
    assert await own.chunk() == b"second"
    await turn.end(b"third")
    assert await own.body() == b"firstsecondthird"
    await (await hands.turn()).complete()
    assert b"".join(frame for frame in await last.frames() if name_of(frame) != "queue") == ANSWER
    await gate.wait(gate.is_idle)
    ended = [(request["api"], request["outcome"]) for request in gate.requests("done")]
    assert ended == [("messages", "completed"), ("passthrough", "completed"), ("messages", "completed")]
    assert [text for text in gate.new_log if "session=abcdefgh" in text] != []


async def test_a_surface_is_a_surface_there_too(gate: GateProcess, hands: Hands) -> None:
    await ask(gate, "POST", OPEN + "/infill")
    turn = await hands.turn()
    client = await ask(gate, "POST", OPEN + "/v1/messages", request_body("whatever it is called"))
    assert positions_of([await client.frame()]) == [(1, 1)]
    await turn.answer(200, b"")
    turn = await hands.turn()
    assert turn.fields["model"] == "whatever it is called"
    await turn.complete()
    assert b"".join(frame for frame in await client.frames() if name_of(frame) != "queue") == ANSWER


async def test_what_is_shut_looks_as_if_it_were_not_there(gate: GateProcess, hands: Hands) -> None:
    told = [await get(gate, f"/llm/upstream/{name}/slots") for name in ("shut", "nobody")]
    assert told[0] == told[1]
    assert told[0][0] == 404
    assert "passthrough = true" in told[0][1]["error"]["message"]
    assert hands.untaken == 0


async def test_who_leaves_the_queue_never_reaches_the_server(gate: GateProcess, hands: Hands) -> None:
    await ask(gate, "POST", OPEN + "/one")
    turn = await hands.turn()
    leaver = await ask(gate, "POST", OPEN + "/two")
    await gate.wait_waiting("open", 1)
    leaver.reset()
    await gate.wait_waiting("open", 0)
    await turn.answer(200, b"")
    await gate.wait(gate.is_idle)
    assert hands.untaken == 0
    assert [request["outcome"] for request in gate.requests("done")] == ["completed", "abandoned"]


async def test_who_leaves_while_it_runs_closes_its_call(gate: GateProcess, hands: Hands) -> None:
    for method in ("POST", "GET"):
        client = await ask(gate, method, OPEN + "/one")
        turn = await hands.turn()
        await turn.connection.send(stream_head(b"x/y"))
        await client.head()
        client.reset()
        await turn.wait_closed()
    await gate.wait(gate.is_idle)
    assert [request["outcome"] for request in gate.requests("done")] == ["client_gone"]


async def test_told_to_stop_it_lets_the_running_end(gate: GateProcess, hands: Hands) -> None:
    """Those that need no slot as well; who waits is told at once."""
    running = await ask(gate, "POST", OPEN + "/one")
    turn = await hands.turn()
    through = await ask(gate, "GET", OPEN + "/two")
    other = await hands.turn()
    waiting = await ask(gate, "POST", OPEN + "/three")
    await gate.wait_waiting("open", 1)
    gate.signal()
    assert ((await waiting.head()).status, (await waiting.head()).headers["llmgate-code"]) == (503, "REFUSED")
    await turn.answer(200, b"1")
    await other.answer(200, b"2")
    assert (await running.body(), await through.body()) == (b"1", b"2")
    assert await gate.wait_exit() == 0
    assert hands.untaken == 0


async def test_what_goes_straight_through_is_running_when_it_stops(gate: GateProcess, hands: Hands) -> None:
    client = await ask(gate, "GET", OPEN + "/events")
    turn = await hands.turn()
    await turn.connection.send(stream_head(b"text/event-stream"))
    await turn.say(b"data: 1\n\n")
    assert await client.chunk() == b"data: 1\n\n"
    gate.signal()
    await gate.wait(lambda: "stopping:" in gate.log)
    assert "stopping: 1 running" in gate.log
    await turn.end(b"data: 2\n\n")
    assert await client.body() == b"data: 1\n\ndata: 2\n\n"
    assert await gate.wait_exit() == 0
    gate.assert_no_traceback()


# ---- a real server


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    """--parallel 1."""
    if not is_supported():
        pytest.skip("the llama-server package is for Linux on x86_64")
    folder = tmp_path_factory.mktemp("model")
    model = assemble_model(folder / "model.gguf")
    with LlamaServer(folder, model, free_port(), parallel=1) as server:
        yield server
    model.unlink()


def completion(tokens: int) -> bytes:
    fields = {"prompt": "Once upon a time", "n_predict": tokens, "ignore_eos": True, "stream": True}
    return json.dumps(fields).encode()


async def test_a_real_server(llama: LlamaServer, folder: Path) -> None:
    """Its own completions take turns at its one slot; asked what it does, it answers meanwhile."""
    upstream = {"url": llama.url, "max_concurrent": 1, "passthrough": True}
    llama.mark_log()
    with GateProcess(folder, {"upstreams": {"open": upstream}}) as gate, DeferredWatch(llama) as watch:
        first = await ask(gate, "POST", OPEN + "/completion", completion(ENDLESS), content_type="application/json")
        assert data_of(await first.frame())["stop"] is False
        second = await ask(gate, "POST", OPEN + "/completion", completion(SHORT), content_type="application/json")
        await gate.wait_waiting("open", 1)

        status, slots = await get(gate, OPEN + "/slots")
        assert (status, [slot["is_processing"] for slot in slots]) == (200, [True])
        status, told = await get(gate, OPEN + "/tokenize", b'{"content":"Once upon a time"}')
        assert (status, len(told["tokens"]) > 2) == (200, True)
        status, text = await get(gate, OPEN + "/detokenize", json.dumps({"tokens": told["tokens"]}).encode())
        assert (status, text["content"].strip()) == (200, "Once upon a time")
        template = b'{"messages":[{"role":"user","content":"hi"}]}'
        assert "hi" in (await get(gate, OPEN + "/apply-template", template))[1]["prompt"]
        assert (await get(gate, OPEN + "/nowhere"))[0] == 404
        assert (gate.upstream("open")["running"], gate.upstream("open")["waiting"]) == (1, 1)

        first.reset()
        head = await second.head()
        assert (head.status, head.headers["llmgate-position"]) == (200, "1")
        assert head.headers["content-type"].startswith("text/event-stream")
        assert "access-control-allow-origin" not in head.headers
        pieces = [data_of(frame) for frame in await second.frames() if frame.startswith(b"data: {")]
        assert (pieces[-1]["stop"], pieces[-1]["tokens_predicted"]) == (True, SHORT)
        assert "".join(piece["content"] for piece in pieces) != ""
        await gate.wait(gate.is_idle)
        await Client.close_all()
    assert set(watch.seen) == {0}
    assert llama.launched == 2
