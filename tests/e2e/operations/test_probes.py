"""The probes of etc/kubernetes and the health check of etc/docker, asked of a real llmgate while it runs and stops."""

import asyncio
import json
import re
from pathlib import Path

from gateprocess import ROOT, START_SECONDS, GateProcess
from hands import Hands
from rawclient import Client

from tests.etc.test_kubernetes import CONTAINER


def path_of(kind: str) -> str:
    found: str = CONTAINER[kind]["httpGet"]["path"]
    return found


async def run_health_check(port: int) -> int:
    """The exit status of what the Dockerfile has Docker run."""
    text = (ROOT / "etc" / "docker" / "Dockerfile").read_text()
    (listed,) = re.findall(r"^HEALTHCHECK .*\\\n\s+CMD (\[.*\])$", text, re.MULTILINE)
    program, *arguments = json.loads(listed)
    assert program == "python"
    code = arguments[-1].replace("127.0.0.1:8080", f"127.0.0.1:{port}")
    async with asyncio.timeout(START_SECONDS):
        process = await asyncio.create_subprocess_exec(
            "python3", *arguments[:-1], code, stderr=asyncio.subprocess.DEVNULL
        )
        return await process.wait()


async def test_the_probes_say_how_it_is(folder: Path) -> None:
    async with Hands() as hands:
        upstreams = {"a": {"url": hands.url, "models": ["m"], "max_concurrent": 1, "on_down": "hold"}}
        keys = folder / "keys.toml"
        keys.write_text('[keys.laptop]\nkey = "a-long-key-of-the-tests"\n')
        keys.chmod(0o600)
        gate = GateProcess(folder, {"server": {"keys_file": str(keys)}, "upstreams": upstreams})
        with gate:
            for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
                assert gate.get(path_of(kind), headers={"host": f"10.1.2.3:{gate.port}"})[0] == 200
            assert await run_health_check(gate.port) == 0
            await gate.ask("m", headers={"x-api-key": "a-long-key-of-the-tests"})
            turn = await hands.turn()
            kept = {kind: await Client.connect(gate.port) for kind in ("livenessProbe", "readinessProbe")}
            gate.signal()
            await gate.wait(lambda: gate.status()["state"] == "stopping")
            told = {}
            for kind, client in kept.items():
                client.send(f"GET {path_of(kind)} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
                told[kind] = (await client.head()).status
            assert told == {"livenessProbe": 200, "readinessProbe": 503}
            assert await run_health_check(gate.port) != 0, "nobody new is let in"
            await turn.complete()
            assert await gate.wait_exit() == 0
