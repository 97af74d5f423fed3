"""A slot is free when the real llama-server is free: who leaves it, and a server that others use or that is several."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from gateprocess import GateProcess
from hands import free_port
from llamaserver import DeferredWatch, LlamaServer, is_supported
from llamastage import ENDLESS, FIRST, LONG, SHORT, alarms, answered, never_held_back, read_in, settings, tell, until
from rawclient import Client, name_of

pytestmark = pytest.mark.skipif(not is_supported(), reason="the llama-server package is for Linux on x86_64")


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
