"""What a quick command must not import, and which layer may import which."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = ("textual", "uvicorn", "starlette", "uvloop")
CODE = """
import sys
from llmgate.cli.app import main
try:
    main(sys.argv[1:])
except SystemExit:
    print("LOADED", *(name for name in {heavy} if name in sys.modules), file=sys.stderr)
"""


def loaded_by(heavy: tuple[str, ...], *arguments: str) -> list[str]:
    line = [sys.executable, "-c", CODE.format(heavy=heavy), *arguments]
    done = subprocess.run(line, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stderr.splitlines()[-1].split()[1:]


@pytest.mark.parametrize(
    "line", ["--help", "--version", "top --help", "serve --help", "status --socket /nonexistent", "ps --socket /none"]
)
def test_a_quick_command_imports_neither_screen_nor_server(line: str) -> None:
    assert loaded_by(HEAVY, *line.split()) == []


@pytest.mark.parametrize("line", ["--help", "status --help"])
def test_help_imports_neither_http_client_nor_settings_nor_loop(line: str) -> None:
    assert loaded_by(("httpx", "pydantic_settings", "asyncio", "llmgate.simulator.server"), *line.split()) == []


def test_the_list_of_heavy_modules_is_seen() -> None:
    assert loaded_by(("typer", "textual"), "--help") == ["typer"]


def test_the_layers_hold() -> None:
    """The contracts of pyproject.toml: one-way layers, a pure core."""
    line = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
