"""F81: whatever becomes of the log, the service goes on, and the loss is told once."""

import asyncio
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gateprocess import GateProcess
from hands import ANSWER, Hands


class LoggingTo(GateProcess):
    """Its standard output and error go where a test says."""

    def __init__(self, folder: Path, url: str, output: int, **sections: Any) -> None:
        super().__init__(folder, {"upstreams": {"a": {"url": url, "models": ["m"], "max_concurrent": 1}}, **sections})
        self._output = output

    def spawn(self) -> None:
        self.log_path.touch()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "llmgate", *self._command],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            env=self.environment,
            cwd=self.folder,
        )


async def serve_some(gate: GateProcess, hands: Hands, count: int = 5) -> None:
    """Each waits for the one before, so that lines are written."""
    clients = [await gate.ask("m") for _ in range(count)]
    await gate.wait_waiting("a", count - 1)
    for client in clients:
        await (await hands.turn()).complete()
        assert (await client.body()).endswith(ANSWER[-40:])


async def test_f81_its_reader_dies(folder: Path) -> None:
    async with Hands() as hands:
        reading, writing = os.pipe()
        with LoggingTo(folder, hands.url, writing) as gate:
            os.close(writing)
            os.close(reading)
            await serve_some(gate, hands)


async def test_f81_the_disk_is_full(folder: Path) -> None:
    async with Hands() as hands:
        full = os.open("/dev/full", os.O_WRONLY)
        with LoggingTo(folder, hands.url, full) as gate:
            await serve_some(gate, hands)
        os.close(full)


async def test_f81_its_reader_stands_still_and_hears_of_the_loss_once(folder: Path) -> None:
    async with Hands() as hands:
        reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
        with LoggingTo(folder, hands.url, writing) as gate:
            await serve_some(gate, hands, 60)
            os.set_blocking(reading, False)
            told = b""
            while b"log lines were lost" not in told:
                await serve_some(gate, hands, 2)
                told += await asyncio.to_thread(_read, reading)
            assert told.count(b"log lines were lost") == 1
            os.close(writing)
        os.close(reading)


def _read(file: int) -> bytes:
    try:
        return os.read(file, 1 << 20)
    except BlockingIOError:
        return b""


@pytest.mark.parametrize("form", ["text", "json"])
async def test_a_storm_of_refused_connections_is_a_few_lines(folder: Path, form: str) -> None:
    one = {"url": "http://127.0.0.1:9", "models": ["m"], "max_concurrent": 4, "on_down": "fail"}
    with GateProcess(folder, {"upstreams": {"a": one}, "log": {"format": form, "level": "debug"}}) as gate:
        for _ in range(200):
            client = await gate.ask("m", stream=False)
            assert (await client.head()).status == 503
        assert len(gate.log.splitlines()) < 60
