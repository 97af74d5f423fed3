"""In front of a real llama-server: the queue is here and never inside it, by its own account."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic_check import faults_of, text_of, without_queue
from gateprocess import CHAT, MESSAGES, GateProcess
from hands import Hands, free_port
from llamaserver import MODEL, DeferredWatch, LlamaServer, is_supported
from rawclient import Client, data_of, name_of, names_of, positions_of

from tests.server.house import UPSTREAM, House

pytestmark = pytest.mark.skipif(not is_supported(), reason="the llama-server package is for Linux on x86_64")

PROMPT = [{"role": "user", "content": "Write a long story about a lighthouse."}]
ENDLESS, LONG, SHORT = 3000, 40, 8
"""Tokens; 40 take a second or two on two slow cores."""


@pytest.fixture(scope="module")
def llama(model: Path) -> Iterator[LlamaServer]:
    """--parallel 1."""
    with LlamaServer(model.parent, model, free_port(), parallel=1) as server:
        yield server


@pytest.fixture(scope="module")
def front(llama: LlamaServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """Three upstreams that are all this server, for one test at a time."""
    limits = {"one": {}, "small": {"max_queued": 1}, "hasty": {"queue_timeout": "300ms"}}
    upstreams = {
        name: {"url": llama.url, "models": [name], "max_concurrent": 1, **limit} for name, limit in limits.items()
    }
    with GateProcess(tmp_path_factory.mktemp("front"), {"upstreams": upstreams}) as gate:
        yield gate


@pytest.fixture
async def gate(front: GateProcess, llama: LlamaServer) -> AsyncIterator[GateProcess]:
    """All along, the server holds no request back."""
    front.mark_log()
    llama.mark_log()
    with DeferredWatch(llama) as watch:
        yield front
        await Client.close_all()
        await front.wait(front.is_idle)
    assert watch.seen
    assert set(watch.seen) == {0}
    front.assert_no_traceback()


async def tell(gate: GateProcess, model: str, tokens: int, **options: Any) -> Client:
    return await gate.ask(model, max_tokens=tokens, messages=PROMPT, ignore_eos=True, **options)


async def test_the_second_stream_is_told_at_once_and_then_complete(gate: GateProcess, llama: LlamaServer) -> None:
    first = await tell(gate, "one", LONG)
    await first.until("message_start")
    second = await tell(gate, "one", SHORT)
    assert positions_of([await second.frame()]) == [(1, 1)]
    assert llama.released == 0, "not only once the first is over"
    third = await tell(gate, "one", SHORT)
    assert positions_of([await third.frame()]) == [(2, 2)]
    assert llama.processing == 1

    told = [*await third.until("message_start"), *await third.frames()]
    assert positions_of(told) == [(1, 1)]
    for client in (first, second, third):
        await client.frames()
        assert faults_of(without_queue(client.received)) == []
        assert text_of(without_queue(client.received)) != ""
    assert b"event: queue" not in first.received
    names = [name for name in names_of(second.received.split(b"\n\n")) if name not in ("", ":")]
    assert names.index("message_start") == names.count("queue")
    assert llama.launched == 3


async def test_who_leaves_the_queue_never_reaches_the_server(gate: GateProcess, llama: LlamaServer) -> None:
    first = await tell(gate, "one", ENDLESS)
    await first.until("message_start")
    leavers = [await tell(gate, "one", SHORT, stream=stream) for stream in (True, False)]
    await gate.wait_waiting("one", 2)
    last = await tell(gate, "one", SHORT)
    assert positions_of([await last.frame()]) == [(3, 3)]
    for client in leavers:
        client.reset()
    await gate.wait_waiting("one", 1)
    first.reset()
    told = [*await last.until("message_start"), *await last.frames()]
    assert positions_of(told)[-1] == (1, 1)
    assert llama.launched == 2


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
async def test_queue_full_and_queue_timeout_never_reach_the_server(
    gate: GateProcess, llama: LlamaServer, path: str
) -> None:
    first = await tell(gate, "small", ENDLESS)
    await first.until("message_start")
    waiting = await tell(gate, "small", SHORT)
    await waiting.frame()
    for stream in (True, False):
        full = await tell(gate, "small", SHORT, path=path, stream=stream)
        assert ((await full.head()).status, (await full.head()).headers["llmgate-code"]) == (503, "QUEUE_FULL")
    waiting.reset()
    first.reset()
    await gate.wait(gate.is_idle)

    first = await tell(gate, "hasty", ENDLESS)
    await first.until("message_start")
    late = [await tell(gate, "hasty", SHORT, path=path, stream=stream) for stream in (True, False)]
    assert b"QUEUE_TIMEOUT" in b"".join(await late[0].frames())
    assert ((await late[1].head()).status, (await late[1].head()).headers["llmgate-code"]) == (504, "QUEUE_TIMEOUT")
    assert llama.launched == 2


async def test_chat_completions_wait_with_comments_and_end_with_done(gate: GateProcess) -> None:
    first = await tell(gate, "one", LONG, path=CHAT)
    await first.frame()
    second = await tell(gate, "one", SHORT, path=CHAT)
    third = await tell(gate, "one", SHORT, path=CHAT)
    assert await second.frame() == b": queue 1/1\n\n"
    assert await third.frame() == b": queue 2/2\n\n"
    for client in (first, second, third):
        frames = await client.frames()
        assert frames[-1] == b"data: [DONE]\n\n"
        assert {name_of(frame) for frame in frames} <= {"", ":"}
        assert all(data_of(frame)["choices"] for frame in frames[:-2] if not frame.startswith(b":"))


async def test_without_a_stream_it_waits_and_is_answered_whole(gate: GateProcess) -> None:
    first = await tell(gate, "one", ENDLESS)
    await first.until("message_start")
    whole = {path: await tell(gate, "one", SHORT, path=path, stream=False) for path in (MESSAGES, CHAT)}
    await gate.wait_waiting("one", 2)
    first.reset()
    message = await whole[MESSAGES].json()
    assert (message["type"], message["usage"]["output_tokens"]) == ("message", SHORT)
    completion = await whole[CHAT].json()
    assert completion["object"] == "chat.completion"
    assert int((await whole[CHAT].head()).headers["llmgate-queued-ms"]) > 0


async def test_who_leaves_mid_stream_frees_the_server_for_the_next(gate: GateProcess, llama: LlamaServer) -> None:
    first = await tell(gate, "one", ENDLESS)
    await first.until("content_block_delta")
    second = await tell(gate, "one", SHORT)
    await second.frame()
    first.reset()
    await second.until("message_start")
    assert names_of(await second.frames())[-1] == "message_stop"
    new = llama.log[llama.marked :]
    assert llama.launched == 2
    assert new.index("processing task") < new.index("cancel task") < new.rindex("processing task")


async def test_its_own_errors_come_in_the_surfaces_shape(gate: GateProcess) -> None:
    client = await Client.connect(gate.port)
    client.post(MESSAGES, b'{"model":"one","max_tokens":8,"stream":true}')
    assert (await client.head()).status == 400
    document = await client.json()
    assert (document["type"], document["error"]["type"]) == ("error", "invalid_request_error")


async def test_a_prompt_beyond_its_context_is_told_in_the_words_that_clients_know(gate: GateProcess) -> None:
    client = await gate.ask("one", messages=[{"role": "user", "content": "word " * 6000}])
    assert (await client.head()).status == 400
    message = (await client.json())["error"]["message"]
    assert message.startswith("prompt is too long: ")
    assert message.endswith(" > 4096 maximum")


async def test_killed_mid_stream_the_client_gets_whole_events_and_an_error(folder: Path, model: Path) -> None:
    with LlamaServer(folder, model, free_port(), parallel=1) as server:
        upstream = {"url": server.url, "models": ["m"], "max_concurrent": 1, "on_down": "fail"}
        with GateProcess(folder, {"upstreams": {"a": upstream}}) as gate:
            client = await tell(gate, "m", ENDLESS)
            await client.until("content_block_delta")
            waiting = await tell(gate, "m", SHORT)
            await waiting.frame()
            server.kill()
            names = names_of(await client.frames())
            assert (names[-1], "message_stop" in names) == ("error", False)
            assert data_of(client.received.rpartition(b"event: error\n")[2])["type"] == "error"
            assert name_of((await waiting.frames())[-1]) == "error"
            await gate.wait(gate.is_idle)
            second, first = [request["outcome"] for request in gate.requests("done")]
            assert first == "upstream_error"
            assert second in ("upstream_down", "upstream_error"), "the port may close a moment after the connection"


async def test_auto_takes_its_parallel_and_its_models(folder: Path, model: Path) -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(LlamaServer(folder, model, free_port(), parallel=2))
        command = f"serve --listen 127.0.0.1:0 --admin-socket {{socket}} --upstream llama={server.url}"
        gate = stack.enter_context(GateProcess(folder, command=command.split()))
        watch = stack.enter_context(DeferredWatch(server))
        await gate.wait(lambda: gate.upstream("llama")["max_concurrent"] == 2)
        await gate.wait(lambda: gate.get("/llm/v1/models")[1]["data"] != [])
        assert [entry["id"] for entry in gate.get("/llm/v1/models")[1]["data"]] == [MODEL]
        running = [await tell(gate, MODEL, LONG) for _ in range(2)]
        third = await tell(gate, MODEL, SHORT)
        assert positions_of([await third.frame()]) == [(1, 1)]
        for client in running:
            await client.until("message_start")
        assert server.processing == 2
        for client in (*running, third):
            await client.frames()
            assert faults_of(without_queue(client.received)) == []
        assert set(watch.seen) == {0}
        assert "llama max_concurrent is 2: the server's own slots" in gate.log
        assert f"llama serves {MODEL}" in gate.log
        assert "llama is a llama-server and speaks Messages" in gate.log
        await gate.wait(lambda: "context_window" in gate.get("/llm/v1/models")[1]["data"][0])
        told = gate.get(f"/llm/v1/models/{MODEL}", {"anthropic-version": "2023-06-01"})[1]
        assert (told["max_input_tokens"], told["display_name"]) == (4096, MODEL), "what one of its two slots has"
        (running,) = gate.get("/llm/api/ps")[1]["models"]
        assert (running["context_length"], running["size"] > 100_000_000) == (4096, True)


CONVERSATIONS: list[dict[str, Any]] = [
    {"messages": PROMPT},
    {"messages": PROMPT, "system": "Answer in verse. <b>Always</b>, \u00fcberall; \u4f60\u597d."},
    {"messages": [*PROMPT, {"role": "assistant", "content": "There was"}, {"role": "user", "content": "Go on."}]},
    {"messages": PROMPT, "tools": [{"name": "look", "description": "Look.", "input_schema": {"type": "object"}}]},
]


async def test_tokens_are_counted_alike_by_the_server_and_by_its_tokenizer(llama: LlamaServer) -> None:
    """And an estimate is not far off."""
    async with Hands() as unused, House(llama.url, unused) as house:
        speech = house.services.upstreams[UPSTREAM].speech
        speech.kind = "llama-server"
        url = f"http://127.0.0.1:{house.port}/llm"
        async with anthropic.AsyncAnthropic(api_key="x", base_url=url, max_retries=0) as client:

            async def count(conversation: dict[str, Any]) -> tuple[int, str | None]:
                raw = await client.messages.with_raw_response.count_tokens(model="m", **conversation)
                return (await raw.parse()).input_tokens, raw.headers.get("llmgate-token-count")

            counted = [await count(conversation) for conversation in CONVERSATIONS]
            speech.counts = False
            tokenized = [await count(conversation) for conversation in CONVERSATIONS]
            speech.kind = "auto"
            found_out = [await count(conversation) for conversation in CONVERSATIONS]
            speech.kind = "ollama"
            estimated = [await count(conversation) for conversation in CONVERSATIONS]
    assert tokenized == found_out == [(tokens, "tokenizer") for tokens, _ in counted]
    assert {source for _, source in counted} == {"upstream"}
    assert {source for _, source in estimated} == {"estimate"}
    assert all(exact / 3 < rough < exact * 3 for (exact, _), (rough, _) in zip(counted, estimated, strict=True))
    assert counted[1][0] > counted[0][0]
