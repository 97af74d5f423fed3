"""A real llama-server that stands still, that takes its time, or that dies: whoever is told, waits or goes on."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from gateprocess import GateProcess
from hands import free_port
from llamaserver import LlamaServer, is_supported
from llamastage import ENDLESS, FIRST, SHORT, alarms, answered, never_held_back, read_in, settings, tell, until
from rawclient import data_of, name_of, names_of

pytestmark = pytest.mark.skipif(not is_supported(), reason="the llama-server package is for Linux on x86_64")


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


def states_of(frames: list[bytes]) -> set[str]:
    return {data_of(frame).get("state", "") for frame in frames if name_of(frame) == "queue"}
