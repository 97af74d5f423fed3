"""The demo's stage: upstreams on a loop of their own, traffic once the door is open, nothing left at the end."""

import socket
import threading

import httpx
import pytest

from llmgate.simulator.stage import Stage
from llmgate.simulator.traffic import BUSY, IDLE


def test_both_upstreams_answer_until_the_end() -> None:
    with Stage(lambda: False, None) as stage:
        models = [httpx.get(f"{server.url}/v1/models").json()["data"][0]["id"] for server in (stage.busy, stage.idle)]
        port = stage.busy.port
    assert models == [BUSY, IDLE]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    assert not any(thread.name == "demo" for thread in threading.enumerate())


def test_the_idle_upstream_begins_at_once() -> None:
    with Stage(lambda: False, None) as stage:
        body = {"model": IDLE, "messages": [], "stream": True, "max_tokens": 16}
        with httpx.stream("POST", f"{stage.idle.url}/v1/messages", json=body) as answer:
            assert next(answer.iter_lines()) == "event: message_start"


def test_traffic_waits_for_the_front_door() -> None:
    came = threading.Event()
    asked = threading.Semaphore(0)
    opened = threading.Event()

    with socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(0.05)

        def is_open() -> bool:
            asked.release()
            return opened.is_set()

        with Stage(is_open, f"http://127.0.0.1:{door.getsockname()[1]}"):
            assert asked.acquire(timeout=60)
            assert asked.acquire(timeout=60)
            with pytest.raises(TimeoutError):
                door.accept()
            opened.set()
            door.settimeout(60)
            connection, _ = door.accept()
            connection.close()
            came.set()
    assert came.is_set()
