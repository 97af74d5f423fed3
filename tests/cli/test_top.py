"""`llmgate top`: its options reach the screen, and the screen's exit status is the command's."""

import sys
import types
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ((), {"ascii": False, "once": False, "no_color": False, "quiet": False}),
        (("--once", "--ascii", "--no-color"), {"ascii": True, "once": True, "no_color": True, "quiet": False}),
    ],
)
def test_options(run: Any, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], wanted: dict[str, bool]) -> None:
    seen: list[Any] = []

    def start(socket: Path, **given: bool) -> int:
        seen.append((socket, given))
        return 7

    module = types.ModuleType("llmgate.tui.app")
    module.run = start  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "llmgate.tui.app", module)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert run("top", *options, "--socket", "/s").status == 7
    assert seen == [(Path("/s"), wanted)]
