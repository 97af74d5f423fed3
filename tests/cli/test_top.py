"""`llmgate top`: its options reach the screen, and the screen's exit status is the command's."""

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from llmgate.cli.top import Theme
from llmgate.tui.themes import NAMES

PLAIN = {"ascii": False, "once": False, "no_color": False, "quiet": False, "read_only": False, "theme": "default"}


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ((), {}),
        (("--once", "--ascii", "--no-color"), {"ascii": True, "once": True, "no_color": True}),
        (("--read-only", "--theme", "dark", "-q"), {"read_only": True, "theme": "dark", "quiet": True}),
    ],
)
def test_options(run: Any, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], wanted: dict[str, Any]) -> None:
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
    assert seen == [(Path("/s"), PLAIN | wanted)]


def test_a_theme_that_there_is_not(run: Any) -> None:
    done = run("top", "--theme", "aura")
    assert done.status == 2
    assert "must be default, dark, light or mono" in done.err


def test_the_themes_are_those_of_the_screen() -> None:
    assert tuple(Theme) == NAMES


def test_a_screen_is_no_json(run: Any) -> None:
    ended = run("top", "--once", "--json")
    assert (ended.status, ended.out) == (2, "")
    assert "status, ps and events have --json" in ended.err
