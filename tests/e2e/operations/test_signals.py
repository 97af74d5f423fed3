"""What a daemon in a process of its own does on signals that are not its end, and what it tells its service manager."""

import asyncio
import signal
import socket
from pathlib import Path
from typing import Any

from gateprocess import GateProcess
from hands import Hands


def settings(url: str, **sections: Any) -> dict[str, Any]:
    return {"upstreams": {"a": {"url": url, "models": ["m"], "max_concurrent": 1}}, **sections}


async def test_usr1_writes_the_state_whatever_the_level_of_the_log_is(folder: Path) -> None:
    async with Hands() as hands:
        with GateProcess(folder, settings(hands.url, log={"level": "error"})) as gate:
            await gate.ask("m", headers={"llmgate-session": "s-1"})
            turn = await hands.turn()
            waiting = await gate.ask("m")
            await waiting.frame()
            gate.mark_log()
            gate.signal(signal.SIGUSR1)
            await gate.wait(lambda: len(gate.new_log) >= 4)
            first, upstream, *requests = [line.removeprefix("llmgate: state: ") for line in gate.new_log]
            assert first.startswith("llmgate ")
            assert upstream.startswith("a full, running 1, draining 0, slots 1, waiting 1,")
            assert [request.split()[1] for request in requests] == ["waiting", "running"]
            assert "session=s-1" in requests[1]
            await turn.complete()
            await (await hands.turn()).complete()


async def test_the_service_manager_is_told_how_it_is(folder: Path) -> None:
    async with Hands() as hands:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(folder / "notify"))
            manager.setblocking(False)
            environ = {"NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": "1000000"}
            loop = asyncio.get_running_loop()

            async def wait_told(word: str) -> str:
                async with asyncio.timeout(30):
                    while word not in (told := (await loop.sock_recv(manager, 999)).decode()):
                        pass
                return told

            with GateProcess(folder, settings(hands.url), environ=environ) as gate:
                assert f"listening on http://127.0.0.1:{gate.port}" in await wait_told("READY=1")
                await wait_told("WATCHDOG=1")
                await wait_told("WATCHDOG=1")
                gate.signal(signal.SIGHUP)
                assert "MONOTONIC_USEC=" in await wait_told("RELOADING=1")
                await wait_told("READY=1")
                gate.signal(signal.SIGTERM)
                await wait_told("STOPPING=1")
                assert await gate.wait_exit() == 0
