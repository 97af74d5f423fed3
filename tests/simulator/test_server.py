"""The simulated server as a whole: it gives its slots in order, holds back the rest, and counts the truth."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from puppet import LIVENESS_SECONDS

from llmgate.simulator import Behaviour, Failure, Simulator

BODY = {"model": "m", "stream": True, "messages": []}


async def until(server: Simulator, **wanted: int) -> None:
    """Let the loop run until the ledger shows what is wanted."""
    async with asyncio.timeout(LIVENESS_SECONDS):
        while any(getattr(server.ledger, name) != value for name, value in wanted.items()):  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_surplus_requests_get_nothing_and_start_in_order(wire: Any) -> None:
    async with Simulator(Behaviour(slots=2, hold=0.7)) as server:
        clients = [await wire.connect(server.port) for _ in range(5)]
        for number, client in enumerate(clients):
            client.post(call_id=f"id-{number}")
            await until(server, seen=number + 1)
        assert (server.ledger.running, server.ledger.waiting) == (2, 3)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(clients[4].reader.read(1), 0.01)
        await asyncio.gather(*(client.until(b"0\r\n\r\n") for client in clients))
        assert list(server.ledger.started) == [f"id-{number}" for number in range(5)]
        assert (server.ledger.highest, server.ledger.held_back, server.ledger.finished) == (2, 3, 5)
        for client in clients:
            await client.close()


async def test_a_client_that_closes_frees_its_slot_for_the_next(wire: Any) -> None:
    async with Simulator(Behaviour(hold=3600)) as server:
        first, second = await wire.connect(server.port), await wire.connect(server.port)
        first.post(call_id="first")
        await first.head()
        second.post(call_id="second")
        await until(server, waiting=1)
        await first.close()
        assert "200 OK" in await second.head()
        assert (list(server.ledger.left), server.ledger.aborted, server.ledger.highest) == (["first"], 1, 1)
        await second.close()


async def test_a_client_that_closes_while_held_back_never_starts(wire: Any) -> None:
    async with Simulator(Behaviour(hold=0.7)) as server:
        first, second = await wire.connect(server.port), await wire.connect(server.port)
        first.post(call_id="first")
        await first.head()
        second.post(call_id="second")
        await until(server, waiting=1)
        await second.close()
        await until(server, waiting=0, finished=1)
        assert list(server.ledger.started) == ["first"]
        await first.close()


async def test_many_held_back_at_no_cost_to_the_stack(wire: Any) -> None:
    async with Simulator(Behaviour(hold=0.0001, tokens=1)) as server, httpx.AsyncClient(base_url=server.url) as client:
        answers = await asyncio.gather(*(client.post("/v1/messages", json=BODY) for _ in range(90)))
        assert {answer.status_code for answer in answers} == {200}
        assert server.ledger.highest == 1


async def test_views_of_a_llama_server(wire: Any) -> None:
    async with Simulator(Behaviour(slots=2, hold=3600), models=["a", "b"]) as server:
        client = await wire.connect(server.port)
        client.post()
        await client.head()
        other = await wire.connect(server.port)
        seen = {}
        for path in ("/health", "/props", "/slots", "/v1/models", "/simulator/stats"):
            other.get(path)
            status, seen[path] = await other.answer()
            assert status == 200
        assert seen["/health"] == {"status": "ok"}
        assert seen["/props"]["total_slots"] == 2
        assert [slot["is_processing"] for slot in seen["/slots"]] == [True, False]
        assert [model["id"] for model in seen["/v1/models"]["data"]] == ["a", "b"]
        assert (seen["/simulator/stats"]["running"], seen["/simulator/stats"]["started"]) == (1, ["request-1"])
        await client.close()
        await other.close()


async def test_models_as_an_ollama_tells_them() -> None:
    async with Simulator(models=["a", "b"], kind="ollama") as server, httpx.AsyncClient(base_url=server.url) as client:
        root = await client.get("/")
        assert (root.text, root.headers["content-type"]) == ("Ollama is running", "text/plain; charset=utf-8")
        assert [model["name"] for model in (await client.get("/api/tags")).json()["models"]] == ["a", "b"]
        assert (await client.post("/api/show", json={"model": "a"})).json()["capabilities"] == ["completion"]
        assert (await client.post("/api/show", json={"model": "c"})).status_code == 404
        assert (await client.get("/slots")).status_code == 404
        assert server.ledger.seen == 0, "none of it is a call of a model"


@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("GET", "/v1/messages"), ("POST", "/v1/embeddings")])
async def test_other_paths_are_not_found(method: str, path: str) -> None:
    async with Simulator() as server, httpx.AsyncClient(base_url=server.url) as client:
        answer = await client.request(method, path)
        assert answer.status_code == 404
        assert server.ledger.seen == 0


@pytest.mark.parametrize(
    ("path", "fields", "content_type"),
    [
        ("/v1/completions", {"prompt": "hi"}, "text/event-stream"),
        ("/v1/responses", {"input": "hi"}, "text/event-stream"),
        ("/api/chat", {"messages": []}, "application/x-ndjson"),
        ("/api/generate", {"prompt": "hi"}, "application/x-ndjson"),
    ],
)
async def test_every_dialect_streams_and_answers_whole(path: str, fields: dict[str, Any], content_type: str) -> None:
    async with Simulator(Behaviour(tokens=3)) as server, httpx.AsyncClient(base_url=server.url) as client:
        stream = await client.post(path, json={"model": "m", "stream": True, **fields})
        assert stream.headers["content-type"] == content_type
        assert b"is " in stream.content
        whole = await client.post(path, json={"model": "m", "stream": False, **fields})
        assert "The queue is " in json.dumps(whole.json())
        assert server.ledger.finished == 2


async def test_a_bad_body_is_refused_in_the_shape_of_the_surface() -> None:
    async with Simulator() as server, httpx.AsyncClient(base_url=server.url) as client:
        answer = await client.post("/v1/messages", content=b"{")
        assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
        assert server.ledger.running == 0


async def test_a_status_is_given_instead_of_an_answer() -> None:
    failing = Behaviour(failures=(Failure("529"),))
    async with Simulator(failing) as server, httpx.AsyncClient(base_url=server.url) as client:
        answer = await client.post("/v1/messages", json=BODY)
        assert (answer.status_code, answer.json()["error"]["type"]) == (529, "overloaded_error")
        assert (server.ledger.failed, list(server.ledger.started)) == (1, [])


async def test_refuse_closes_without_a_byte() -> None:
    async with Simulator(Behaviour(failures=(Failure("refuse"),))) as server:
        async with httpx.AsyncClient(base_url=server.url) as client:
            with pytest.raises(httpx.TransportError):
                await client.post("/v1/messages", json=BODY)
        assert server.ledger.failed == 1


async def test_stop_cuts_what_runs_and_frees_the_port(wire: Any) -> None:
    server = Simulator(Behaviour(hold=3600))
    await server.start()
    client = await wire.connect(server.port)
    client.post()
    await client.head()
    await server.stop()
    await server.stop()
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await client.until(b"never")
    assert server.ledger.connections == 0
    again = Simulator()
    await again.start(port=server.port)
    await again.stop()
    await client.close()


async def test_the_url_of_an_ipv6_address_is_bracketed() -> None:
    server = Simulator()
    try:
        await server.start("::1")
    except OSError:
        pytest.skip("no IPv6 here")
    assert server.url == f"http://[::1]:{server.port}"
    await server.stop()


async def test_stats_are_json() -> None:
    async with Simulator() as server:
        assert json.loads(json.dumps(server.ledger.as_plain()))["seen"] == 0
