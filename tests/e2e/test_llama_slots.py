"""A slot is free when the real llama-server is free: who leaves it, a server that stops, dies or is used by others."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from anthropic_check import faults_of, text_of, without_queue
from gateprocess import GateProcess
from hands import free_port
from llamaserver import DeferredWatch, LlamaServer, assemble_model, is_supported
from rawclient import Client, data_of, name_of, names_of

pytestmark = pytest.mark.skipif(not is_supported(), reason="the llama-server package is for Linux on x86_64")

ENDLESS, LONG, SHORT = 3000, 100, 8
"""Tokens; 100 take some seconds on two slow cores."""
FIRST = ["launch", "cancel", "release"]
"""The story of a request whose client left."""
PATIENCE_SECONDS = 100.0
"""For what takes an idle machine some seconds; less than the time that a test has."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = assemble_model(tmp_path_factory.mktemp("model") / "model.gguf")
    yield path
    path.unlink()


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[LlamaServer]:
    """--parallel 1, for the tests that do not end it."""
    with LlamaServer(model.parent, model, free_port(), parallel=1) as llama:
        yield llama


@pytest.fixture(scope="module")
def front(server: LlamaServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    with GateProcess(tmp_path_factory.mktemp("front"), settings(server)) as gate:
        yield gate


@pytest.fixture
async def gate(front: GateProcess, server: LlamaServer) -> AsyncIterator[GateProcess]:
    """In front of `server`, which is told to be a llama-server by now."""
    await until(lambda: "llama-server and speaks" in front.log and not server.busy)
    front.mark_log()
    server.mark_log()
    yield front
    await Client.close_all()
    await until(front.is_idle)
    front.assert_no_traceback()


def settings(server: LlamaServer, **upstream: Any) -> dict[str, Any]:
    """One upstream, "a", for every model; who waits hears something each tenth of a second."""
    own = {"url": server.url, "models": ["*"], "max_concurrent": 1, "kind": "llama-server"}
    return {"waiting": {"heartbeat": "100ms"}, "upstreams": {"a": own | upstream}}


@contextlib.contextmanager
def never_held_back(server: LlamaServer) -> Iterator[None]:
    """Meanwhile the server holds no request back; asked all along."""
    with DeferredWatch(server) as watch:
        yield
    assert watch.seen
    assert set(watch.seen) == {0}


async def until(condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def tell(gate: GateProcess, tokens: int, **options: Any) -> Client:
    messages = [{"role": "user", "content": "Write a long story about a lighthouse."}]
    fields: dict[str, Any] = {"messages": messages, "ignore_eos": True}
    return await gate.ask("m", max_tokens=tokens, **fields | options)


async def read_in(gate: GateProcess, words: int, first: str) -> Client:
    """Asks what takes long to be read; `first` differs each time, so that no cache knows the prompt."""
    content = f"{first} " + "word " * words
    return await tell(gate, SHORT, messages=[{"role": "user", "content": content}])


async def answered(client: Client) -> None:
    """It has, or gets, its whole answer."""
    await client.frames()
    assert faults_of(without_queue(client.received)) == []
    assert text_of(without_queue(client.received)) != ""


def alarms(gate: GateProcess) -> list[str]:
    """Their names."""
    return [text.partition(":")[0] for text in gate.upstream("a")["alarms"]]


def states_of(frames: list[bytes]) -> set[str]:
    return {data_of(frame).get("state", "") for frame in frames if name_of(frame) == "queue"}


# ---- who leaves


async def test_f10_who_leaves_mid_generation_hands_the_slot_on(gate: GateProcess, server: LlamaServer) -> None:
    """Five times; the next one's first token is due half a second later, and long before the first one's last."""
    with never_held_back(server):
        running = await tell(gate, ENDLESS)
        await running.until("content_block_delta")
        for _ in range(5):
            waiting = await tell(gate, ENDLESS)
            await waiting.frame()
            left = time.monotonic()
            running.reset()
            await waiting.until("content_block_delta")
            assert time.monotonic() - left < 20
            running = waiting
    await until(lambda: server.story == ["launch", *["cancel", "release", "launch"] * 5])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("words", [500, pytest.param(3200, marks=pytest.mark.slow)])
async def test_f09_who_leaves_mid_prompt_keeps_the_slot_until_the_batch_ends(
    folder: Path, model: Path, words: int
) -> None:
    """llama-server looks for requests that are over between two batches only, here of 2048 tokens."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(LlamaServer(folder, model, free_port(), parallel=1, options=["-b", "2048"]))
        gate = stack.enter_context(GateProcess(folder, settings(server, release_timeout="200ms")))
        stack.enter_context(never_held_back(server))
        leaver = await read_in(gate, words, "once")
        await until(lambda: server.launched == 1)
        waiting = await tell(gate, SHORT)
        await waiting.frame()
        leaver.reset()
        await until(lambda: gate.upstream("a")["draining"] == 1)
        assert [request["outcome"] for request in gate.requests("draining")] == ["client_gone"]
        await until(lambda: "draining" in alarms(gate))
        assert server.released == 0, "it was still draining when the alarm was raised"
        assert (gate.upstream("a")["running"], gate.upstream("a")["waiting"]) == (0, 1)
        assert {name_of(await waiting.frame()) for _ in range(5)} <= {"queue", "ping", ":"}

        await until(lambda: gate.upstream("a")["draining"] == 0, 500)
        assert server.story[:3] in (["launch", "release"], ["launch", "cancel", "release"], [*FIRST, "launch"])
        await answered(waiting)
        await until(gate.is_idle)
        await until(lambda: server.story == [*FIRST, "launch", "release"])
        assert alarms(gate) == []
        (request, *_) = gate.requests("done")
        assert request["first_byte_ms"] - request["dispatched_ms"] < 10_000
        told = [line for line in gate.new_log if " draining" in line]
        assert [line.partition(" draining")[2][:8] for line in told] == [": the se", " no more"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("rounds", [5, pytest.param(50, marks=pytest.mark.slow)])
async def test_f54_who_leaves_mid_prompt_again_and_again_leaves_nothing_in_the_server(
    gate: GateProcess, server: LlamaServer, rounds: int
) -> None:
    """Each of them after half a second; those who stay are served in their order."""
    with never_held_back(server):
        for number in range(rounds):
            leaver = await read_in(gate, 400, f"{rounds} {number}")
            await until(lambda count=number + 1: server.launched == count)  # type: ignore[misc]
            await asyncio.sleep(0.5)
            leaver.reset()
        staying = [await tell(gate, SHORT) for _ in range(5)]
        for number, client in enumerate(staying):
            await answered(client)
            assert server.launched <= rounds + min(number + 2, 5)
    await until(gate.is_idle)
    done = gate.requests("done")[:5]
    assert [request["outcome"] for request in done] == ["completed"] * 5
    assert [request["order"] for request in done] == sorted((request["order"] for request in done), reverse=True)
    await until(lambda: server.launched == rounds + 5)


@pytest.mark.parametrize("force_stream", [True, pytest.param(False, marks=pytest.mark.slow)])
async def test_f11_who_leaves_without_a_stream_beside_a_neighbour(
    folder: Path, model: Path, force_stream: bool
) -> None:
    """llama-server does not notice it where it was not asked for a stream: the slot is kept then to the very end."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(LlamaServer(folder, model, free_port(), parallel=2))
        upstream = settings(server, max_concurrent=2, force_stream=force_stream)
        gate = stack.enter_context(GateProcess(folder, upstream))
        stack.enter_context(never_held_back(server))
        neighbour = await tell(gate, ENDLESS)
        await neighbour.until("content_block_delta")
        leaver = await tell(gate, ENDLESS if force_stream else LONG, stream=False)
        await until(lambda: server.launched == 2)
        waiting = await tell(gate, SHORT)
        await waiting.frame()
        leaver.reset()
        await until(lambda: gate.upstream("a")["draining"] == 1 or server.released == 1)
        await answered(waiting)
        story = ["launch", "launch", *["cancel"] * force_stream, "release", "launch", "release"]
        await until(lambda: server.story == story)
        assert name_of(await neighbour.frame()) == "content_block_delta"
        neighbour.reset()
        await until(gate.is_idle)


async def test_f77_a_daemon_that_is_killed_frees_the_server(folder: Path, server: LlamaServer) -> None:
    """Mid-stream: the server ends its work, and the next daemon on the same socket has the slot to give."""
    await until(lambda: not server.busy)
    server.mark_log()
    gate = GateProcess(folder, settings(server)).start()
    running = await tell(gate, ENDLESS)
    await running.until("content_block_delta")
    await tell(gate, ENDLESS)
    await gate.wait_waiting("a", 1)
    assert server.busy == 1
    gate.end()
    await until(lambda: server.story == FIRST)
    assert server.busy == 0
    with gate:
        await answered(await tell(gate, SHORT))
        await until(lambda: server.story == [*FIRST, "launch", "release"])


# ---- a server that stops


@pytest.mark.parametrize("seconds", [0, pytest.param(20, marks=pytest.mark.slow)])
async def test_f34_a_server_that_stands_still_and_goes_on(folder: Path, model: Path, seconds: float) -> None:
    """Who runs is cut by its own clock, and its slot is kept until the server says that it is free."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(LlamaServer(folder, model, free_port(), parallel=1))
        gate = stack.enter_context(GateProcess(folder, settings(server, idle_timeout="2s", first_byte_timeout="10s")))
        running = await tell(gate, ENDLESS)
        await running.until("content_block_delta")
        waiting = [await tell(gate, SHORT) for _ in range(2)]
        hasty = await tell(gate, SHORT, headers={"llmgate-max-wait": "1s"})
        await gate.wait(lambda: gate.upstream("a")["waiting"] + gate.upstream("a")["queue_timeout"] == 3)

        server.suspend()
        stack.callback(server.resume)
        assert b"QUEUE_TIMEOUT" in b"".join(await hasty.frames())
        error = (await running.frames())[-1]
        assert (name_of(error), b"UPSTREAM_TIMEOUT" in error) == ("error", True)
        await until(lambda: "draining" in alarms(gate))
        await asyncio.sleep(seconds)
        view = gate.upstream("a")
        assert (view["running"], view["draining"], view["waiting"]) == (0, 1, 2)
        await until(lambda: server.launched == 1)

        server.resume()
        with never_held_back(server):
            for client in waiting:
                await answered(client)
        await until(gate.is_idle)
        await until(lambda: server.story == [*FIRST, *["launch", "release"] * 2])
        assert alarms(gate) == []
        outcomes = [request["outcome"] for request in gate.requests("done")]
        assert sorted(outcomes) == ["completed", "completed", "queue_timeout", "upstream_timeout"]


@pytest.mark.slow
async def test_f34_one_that_was_sent_to_a_server_that_stands_still(folder: Path, model: Path) -> None:
    """It gets a status in time, and the next one is not sent before the server is through with it."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(LlamaServer(folder, model, free_port(), parallel=1))
        gate = stack.enter_context(GateProcess(folder, settings(server, first_byte_timeout="1s")))
        await answered(await tell(gate, SHORT))
        server.mark_log()
        server.suspend()
        stack.callback(server.resume)
        first = await tell(gate, SHORT, stream=False)
        await gate.wait(lambda: gate.upstream("a")["running"] == 1)
        waiting = await tell(gate, SHORT)
        assert ((await first.head()).status, (await first.head()).headers["llmgate-code"]) == (504, "UPSTREAM_TIMEOUT")
        await until(lambda: "draining" in alarms(gate))
        server.resume()
        await answered(waiting)
        await until(gate.is_idle)
        assert server.launched <= 2


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_prompt_may_take_longer_than_the_clocks_while_the_server_reads_it(folder: Path, model: Path) -> None:
    """Alone and beside one that generates; then the server stands still in the middle of a prompt, and that is late."""
    slowly = ("--threads", "1", "-b", "32")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(LlamaServer(folder, model, free_port(), parallel=2, options=slowly))
        clocks = {"first_byte_timeout": "3s", "idle_timeout": "3s"}
        gate = stack.enter_context(GateProcess(folder, settings(server, max_concurrent=2, **clocks)))
        await answered(await tell(gate, SHORT))
        await answered(await read_in(gate, 3000, "Alone:"))
        neighbour = await tell(gate, ENDLESS)
        await neighbour.until("content_block_delta")
        await answered(await read_in(gate, 1500, "Beside:"))
        for request in [one for one in gate.requests("done") if one["body_bytes"] > 5000]:
            assert request["first_byte_ms"] - request["dispatched_ms"] > 3000, "read too soon to show anything"
        neighbour.fin()
        await until(gate.is_idle)
        late = await read_in(gate, 3000, "Stopped:")
        await until(lambda: server.busy == 1)
        server.suspend()
        stack.callback(server.resume)
        error = data_of((await late.frames())[-1])["error"]
        assert (error["type"], "UPSTREAM_TIMEOUT" in error["message"]) == ("timeout_error", True)
        await gate.wait(lambda: gate.upstream("a")["draining"] == 1)
        server.resume()
        await until(gate.is_idle)


# ---- a server that dies


async def test_f35_killed_mid_stream_the_official_clients_raise(folder: Path, model: Path) -> None:
    """Whole events, an error event, and a regular end of the body: no client takes it for an answer."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(LlamaServer(folder, model, free_port(), parallel=3))
        gate = stack.enter_context(GateProcess(folder, settings(server, max_concurrent=3)))
        raw = await tell(gate, ENDLESS)
        await raw.until("content_block_delta")
        ended = [asyncio.ensure_future(ask(gate)) for ask in (use_anthropic, use_openai)]
        await until(lambda: server.processing == 3)
        await until(lambda: all(request["output_tokens"] > 2 for request in gate.requests("running")))
        server.kill()
        names = names_of(await raw.frames())
        assert (names[-1], names.count("error"), "message_stop" in names) == ("error", 1, False)
        assert data_of(raw.received.rpartition(b"event: error\n")[2])["type"] == "error"
        errors = await asyncio.gather(*ended)
        assert [type(error).__module__.partition(".")[0] for error in errors] == ["anthropic", "openai"]
        await until(gate.is_idle)
        assert [request["outcome"] for request in gate.requests("done")] == ["upstream_error"] * 3


async def use_anthropic(gate: GateProcess) -> anthropic.APIError:
    """What it raises once its stream runs."""
    messages: Any = [{"role": "user", "content": "Tell me all."}]
    async with anthropic.AsyncAnthropic(api_key="x", base_url=f"{gate.url}/llm", max_retries=0) as client:
        with pytest.raises(anthropic.APIError) as caught:
            async with client.messages.stream(
                model="m", max_tokens=ENDLESS, messages=messages, extra_body={"ignore_eos": True}
            ) as stream:
                await stream.get_final_message()
    return caught.value


async def use_openai(gate: GateProcess) -> openai.APIError:
    """What it raises once its stream runs."""
    messages: Any = [{"role": "user", "content": "Tell me all."}]
    async with openai.AsyncOpenAI(api_key="x", base_url=f"{gate.url}/llm/v1", max_retries=0) as client:
        stream = await client.chat.completions.create(
            model="m", max_tokens=ENDLESS, messages=messages, stream=True, extra_body={"ignore_eos": True}
        )
        with pytest.raises(openai.APIError) as caught:
            [chunk async for chunk in stream]
    return caught.value


@pytest.mark.parametrize("seconds", [0, pytest.param(5, marks=pytest.mark.slow)])
async def test_f36_killed_with_a_full_queue_and_started_again(folder: Path, model: Path, seconds: float) -> None:
    """Who waits is told that it is down, keeps its place while the server loads its model, and is served once."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(LlamaServer(folder, model, free_port(), parallel=1))
        gate = stack.enter_context(GateProcess(folder, settings(server)))
        running = await tell(gate, ENDLESS)
        await running.until("content_block_delta")
        waiting = [await tell(gate, SHORT, metadata={"user_id": str(number)}) for number in range(4)]
        await gate.wait_waiting("a", 4)
        server.kill()
        assert name_of((await running.frames())[-1]) == "error"
        await until(lambda: gate.upstream("a")["state"] == "down")
        await asyncio.sleep(seconds)
        assert [request["session"] for request in gate.requests("waiting")] == ["0", "1", "2", "3"]

        server.mark_log()
        with never_held_back(server):
            server.spawn()
            for number, client in enumerate(waiting):
                told = await client.until("message_start")
                await until(lambda least=number + 1: server.launched in (least, least + 1))  # type: ignore[misc]
                assert "upstream_down" in states_of(told)
                await answered(client)
        await until(gate.is_idle)
        await until(lambda: server.story == ["launch", "release"] * 4)
        done = [(request["session"], request["outcome"]) for request in gate.requests("done")]
        assert done == [*((str(number), "completed") for number in (3, 2, 1, 0)), ("", "upstream_error")]


@pytest.mark.slow
async def test_f33_killed_with_a_full_queue_where_that_fails(folder: Path, model: Path) -> None:
    """With on_down = "fail" each of those who wait is tried, and told."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(LlamaServer(folder, model, free_port(), parallel=1))
        gate = stack.enter_context(GateProcess(folder, settings(server, on_down="fail")))
        running = await tell(gate, ENDLESS)
        await running.until("content_block_delta")
        streaming = [await tell(gate, SHORT) for _ in range(2)]
        silent = [await tell(gate, SHORT, stream=False) for _ in range(2)]
        await gate.wait_waiting("a", 4)
        server.kill()
        assert name_of((await running.frames())[-1]) == "error"
        for client in streaming:
            assert name_of((await client.frames())[-1]) == "error"
        for client in silent:
            assert (await client.head()).status in (502, 503), "the port may close a moment after the connection"
        assert (await (await tell(gate, SHORT)).head()).headers["llmgate-code"] == "UPSTREAM_DOWN"
        await until(gate.is_idle)


# ---- a server that others use


async def test_who_asks_the_server_directly_is_noticed(gate: GateProcess, server: LlamaServer) -> None:
    """A request that has a slot here and waits in there: the alarm hidden_wait."""
    with DeferredWatch(server) as watch:
        stranger = await Client.connect(int(server.url.rpartition(":")[2]))
        body = b'{"messages":[{"role":"user","content":"Count."}],"max_tokens":3000,"stream":true,"ignore_eos":true}'
        stranger.post("/v1/messages", body)
        await until(lambda: server.busy == 1)
        ours = await tell(gate, SHORT)
        await until(lambda: "hidden wait" in alarms(gate))
        assert gate.upstream("a")["running"] == 1
        stranger.reset()
        await answered(ours)
        await until(lambda: alarms(gate) == [])
    assert max(watch.seen) == 1
    assert [line.endswith("no more") for line in gate.new_log if "hidden wait" in line] == [False, True]


async def test_a_limit_above_the_servers_slots_is_told(folder: Path, server: LlamaServer) -> None:
    """The settings win, and the alarm mismatch says so."""
    with GateProcess(folder, settings(server, max_concurrent=2)) as gate:
        await until(lambda: "mismatch" in alarms(gate))
        assert gate.upstream("a")["max_concurrent"] == 2
        assert any("mismatch" in line for line in gate.new_log)


# ---- a router of several models


class Router(LlamaServer):
    """Two models, of which none is loaded until it is asked for."""

    def __init__(self, folder: Path, model: Path, port: int) -> None:
        super().__init__(folder, model, port, parallel=1)
        models = folder / "models"
        models.mkdir()
        for name in ("used", "unused"):
            (models / f"{name}.gguf").hardlink_to(model)
        kept = self._command.index("--host")
        self._command[1:kept] = ["--models-dir", str(models)]
        self._command[self._command.index("-b") + 1] = "512"

    def busy_with(self, model: str) -> int:
        slots = json.loads(self.get(f"/slots?model={model}&autoload=false"))
        return sum(slot["is_processing"] for slot in slots)

    @property
    def loaded(self) -> list[str]:
        listed = json.loads(self.get("/v1/models"))["data"]
        return [model["id"] for model in listed if model["status"]["value"] != "unloaded"]


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_router_tells_the_slots_of_its_models_and_loads_none_for_that(folder: Path, model: Path) -> None:
    """Who leaves mid-prompt drains until the model's own server is idle: `release_timeout` alone would be too soon."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Router(folder, model, free_port()))
        gate = stack.enter_context(GateProcess(folder, settings(server, kind="auto", release_timeout="1ms")))
        await until(lambda: "llama-server and speaks" in gate.log)
        await answered(await gate.ask("used"))
        assert server.loaded == ["used"]
        content = "Read this: " + "word " * 3000
        leaver = await gate.ask("used", messages=[{"role": "user", "content": content}])
        await until(lambda: server.busy_with("used") == 1)
        leaver.fin()
        await gate.wait(lambda: gate.upstream("a")["draining"] == 1)
        waiting = await gate.ask("used")
        while gate.upstream("a")["draining"]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await answered(waiting)
        assert server.loaded == ["used"]
        assert "draining: " in gate.log, "it was given back by time"
