"""Metrics and health of a daemon in a process of its own, on every way that leads to them."""

import contextlib
import http.client
from collections import defaultdict
from pathlib import Path
from typing import Any

from gateprocess import GateProcess, _UnixConnection
from hands import Hands, free_port
from prometheus_client.parser import text_string_to_metric_families


def settings(url: str, listen: str = "") -> dict[str, Any]:
    upstreams = {"a": {"url": url, "models": ["m"], "max_concurrent": 1}}
    return {"upstreams": upstreams, "metrics": {"listen": listen}}


def samples(connection: http.client.HTTPConnection) -> dict[str, float]:
    """Every sample of llmgate's own, named without its labels: of several that is their sum."""
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert answer.status == 200
        assert answer.getheader("content-type", "").startswith("text/plain; version=0.0.4")
        found: defaultdict[str, float] = defaultdict(float)
        for family in text_string_to_metric_families(answer.read().decode()):
            for sample in family.samples:
                found[sample.name] += sample.value
        return found


async def test_the_socket_always_has_them_and_they_tell_what_happens(folder: Path) -> None:
    async with Hands() as hands:
        with GateProcess(folder, settings(hands.url)) as gate:
            running = await gate.ask("m")
            turn = await hands.turn()
            waiting = await gate.ask("m")
            await waiting.frame()
            found = samples(_UnixConnection(gate.socket))
            assert (found["llmgate_requests_running"], found["llmgate_requests_waiting"]) == (1, 1)
            assert found["llmgate_queue_frames_total"] >= 1
            assert found["process_resident_memory_bytes"] > 1e6
            await turn.complete()
            await running.body()
            await (await hands.turn()).complete()
            await waiting.frames()
            found = samples(_UnixConnection(gate.socket))
            assert found["llmgate_requests_total"] == 2
            assert found["llmgate_time_to_first_token_seconds_count"] == 2
            assert found["llmgate_output_tokens_total"] == 4
            assert found["llmgate_input_tokens_total"] == 6
            assert gate.get("/metrics")[0] == 404


async def test_where_clients_come_in_only_if_the_settings_say_so(folder: Path) -> None:
    async with Hands() as hands:
        with GateProcess(folder, settings(hands.url, "main")) as gate:
            assert samples(http.client.HTTPConnection("127.0.0.1", gate.port))["llmgate_slots"] == 1


async def test_on_an_address_of_its_own(folder: Path) -> None:
    port = free_port()
    async with Hands() as hands:
        with GateProcess(folder, settings(hands.url, f"127.0.0.1:{port}")) as gate:
            assert samples(http.client.HTTPConnection("127.0.0.1", port))["llmgate_slots"] == 1
            assert gate.get("/metrics")[0] == 404


async def test_health(folder: Path) -> None:
    async with Hands() as hands:
        with GateProcess(folder, settings(hands.url)) as gate:
            for path in ("/health", "/healthz", "/readyz", "/readyz?upstream=a"):
                assert gate.get(path)[0] == 200
                assert gate.get(path, method="HEAD") == (200, None)
            assert gate.get("/readyz")[1]["checks"] == {"a": "open", "llmgate": "listening"}
            assert gate.get("/readyz?upstream=b")[0] == 404
