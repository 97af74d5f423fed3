"""F79 and F80: a daemon that stood still, and a time of day that jumps. Only the monotonic clock counts."""

import asyncio
import signal
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from gateprocess import ROOT, GateProcess
from hands import Hands
from rawclient import Client, data_of, name_of

HOUR = 3600


def settings(url: str, **upstream: Any) -> dict[str, Any]:
    one = {"url": url, "models": ["m"], "max_concurrent": 1, "release_timeout": "5ms", "on_down": "fail", **upstream}
    return {"upstreams": {"a": one}, "waiting": {"heartbeat": "100ms"}}


async def outcome_of(client: Client) -> str:
    """How its stream ended: the code of its error, or "completed"."""
    last = (await client.frames())[-1]
    return "completed" if name_of(last) == "message_stop" else data_of(last)["error"]["message"].rpartition("(")[2][:-1]


def have_come(gate: GateProcess) -> int:
    """Who waits, and who did until its time was over: a slow machine takes longer than that to look."""
    view = gate.upstream("a")
    return int(view["waiting"] + view["queue_timeout"])


@pytest.mark.parametrize("stopped", [1.5, pytest.param(10.0, marks=pytest.mark.slow)])
async def test_f79_it_stood_still_while_timeouts_and_grants_were_due(folder: Path, stopped: float) -> None:
    async with Hands() as hands:
        with GateProcess(folder, settings(hands.url)) as gate:
            running = await gate.ask("m")
            turn = await hands.turn()
            await turn.begin()
            await running.head()
            hasty = [await gate.ask("m", headers={"llmgate-max-wait": "1s"}) for _ in range(3)]
            patient = [await gate.ask("m") for _ in range(3)]
            await gate.wait(lambda: have_come(gate) == 6)
            gate.signal(signal.SIGSTOP)
            await turn.end()
            await asyncio.sleep(stopped)  # what is due in the meantime is the point
            gate.signal(signal.SIGCONT)
            assert await outcome_of(running) == "completed"
            assert [await outcome_of(client) for client in hasty] == ["QUEUE_TIMEOUT"] * 3
            for client in patient:
                turn = await hands.turn()
                view = gate.upstream("a")
                assert view["running"] == 1, "no burst of grants"
                await turn.complete()
                assert await outcome_of(client) == "completed"
            done = gate.requests("done")
            assert Counter(request["outcome"] for request in done) == {"completed": 4, "queue_timeout": 3}
            assert hands.untaken == 0


@pytest.mark.parametrize("transport", ["native", pytest.param("httpx", marks=pytest.mark.slow)])
async def test_f79_what_came_while_it_stood_still_came_in_time(folder: Path, transport: str) -> None:
    """Clocks of the server and of a client ran out meanwhile; but the answers, and the head, are there to be read."""
    async with Hands() as hands:
        clocks = {"idle_timeout": "3s", "first_byte_timeout": "3s", "max_concurrent": 3, "transport": transport}
        with GateProcess(folder, settings(hands.url, **clocks) | {"server": {"header_timeout": "3s"}}) as gate:
            await gate.wait(lambda: " speaks Messages" in gate.log)
            asking = await Client.connect(gate.port)
            streaming = await gate.ask("m")
            begun = await hands.turn()
            await begun.begin()
            await streaming.until("content_block_start")
            beginning = await gate.ask("m")
            turn = await hands.turn()
            asking.send(b"GET /healthz HTTP/1.1\r\n")
            gate.signal(signal.SIGSTOP)
            await begun.end()
            await turn.complete()
            asking.send(b"host: localhost\r\n\r\n")
            await asyncio.sleep(4)  # what is due in the meantime is the point
            gate.signal(signal.SIGCONT)
            assert await outcome_of(streaming) == "completed"
            assert await outcome_of(beginning) == "completed"
            assert (await asking.head()).status == 200


@pytest.mark.parametrize("shift", [HOUR, -HOUR])
async def test_f80_the_time_of_day_jumps_and_no_timer_moves(folder: Path, shift: int) -> None:
    shift_file = folder / "shift"
    shift_file.write_text("0")
    path = f"{Path(__file__).parent / 'shifted_clock'}:{ROOT}"
    environ = {"PYTHONPATH": path, "LLMGATE_TEST_SHIFT": str(shift_file)}
    async with Hands() as hands:
        gate = GateProcess(folder, settings(hands.url, queue_timeout="2s", idle_timeout="60s"), environ=environ)
        with gate:
            running = await gate.ask("m")
            turn = await hands.turn()
            await turn.begin()
            await running.head()
            begun = time.monotonic()
            waiting = await gate.ask("m")
            await waiting.frame()
            shift_file.write_text(str(shift))
            for _ in range(3):  # signs of life go on
                await waiting.frame()
            assert await outcome_of(waiting) == "QUEUE_TIMEOUT"
            assert time.monotonic() - begun >= 1.9, "an hour more did not end it"
            assert gate.upstream("a")["running"] == 1, "nor the other one"
            await turn.end()
            assert await outcome_of(running) == "completed"
            stamp = datetime.fromisoformat(gate.log.splitlines()[-1].split()[0])
            assert abs((stamp - datetime.now(UTC)).total_seconds() - shift) < HOUR / 2, "only the stamps of the log"
