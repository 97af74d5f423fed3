"""The command line in this process, against the shared daemon."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest
from gateprocess import GateProcess

from llmgate.cli.app import main


class Result(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What --json printed: one line, which begins with its schema."""
        (line,) = self.out.splitlines()
        told = json.loads(line)
        assert next(iter(told.items())) == ("schema", 1)
        return told


Run = Callable[..., Awaitable[Result]]


@pytest.fixture
def run(gate: GateProcess, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs one command line on `gate`, or on the daemon that the line names, while the loop goes on."""

    def run_line(arguments: list[str]) -> int:
        with pytest.raises(SystemExit) as left:
            main(arguments)
        return left.value.code if isinstance(left.value.code, int) else 0

    async def run_beside(*arguments: object) -> Result:
        given = [str(argument) for argument in arguments]
        socket = [] if {"--socket", "--config"} & {*given} else ["--socket", str(gate.socket)]
        capsys.readouterr()
        status = await asyncio.to_thread(run_line, [*socket, *given])
        return Result(status, *capsys.readouterr())

    return run_beside
