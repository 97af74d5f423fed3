"""`llmgate top`: its options reach the screen, and the screen's exit status is the command's."""

import json
import signal
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from llmgate.cli.top import Theme
from llmgate.tui.themes import NAMES
from tests.cli.conftest import FakeDaemon, request, status_of, upstream

PLAIN = {
    "ascii": False,
    "once": False,
    "no_color": False,
    "quiet": False,
    "read_only": False,
    "settings": None,
    "theme": "default",
}


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ((), {}),
        (("--once", "--ascii", "--no-color"), {"ascii": True, "once": True, "no_color": True}),
        (("--read-only", "--theme", "dark", "-q"), {"read_only": True, "theme": "dark", "quiet": True}),
    ],
)
def test_options(
    run: Any, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], wanted: dict[str, Any]
) -> None:
    seen: list[Any] = []

    def start(socket: Path, **given: Any) -> int:
        seen.append((socket, given))
        return 7

    module = types.ModuleType("llmgate.tui.app")
    module.run = start  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "llmgate.tui.app", module)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert run("top", *options, "--socket", daemon.socket).status == 7
    ((socket, given),) = seen
    assert given.pop("doctor")[1:] == ["-m", "llmgate", "--socket", str(socket), "doctor"]
    assert (socket, given) == (daemon.socket, PLAIN | wanted)


def test_a_theme_that_there_is_not(run: Any) -> None:
    done = run("top", "--theme", "aura")
    assert done.status == 2
    assert "must be default, dark, light or mono" in done.err


def test_the_themes_are_those_of_the_screen() -> None:
    assert tuple(Theme) == NAMES


def test_a_screen_is_no_json(run: Any) -> None:
    ended = run("top", "--json")
    assert (ended.status, ended.out) == (2, "")
    assert "it has --json with --once only" in ended.err


def test_json_has_what_the_screen_is_made_of(run: Any, daemon: FakeDaemon) -> None:
    daemon.status, daemon.requests = status_of(upstream("a")), [request("r")]
    told = json.loads(run("top", "--once", "--json", "--socket", daemon.socket).out)
    assert next(iter(told.items())) == ("schema", 1)
    assert ([each["name"] for each in told["upstreams"]], [each["id"] for each in told["requests"]]) == (["a"], ["r"])


def test_that_no_daemon_runs_is_told_as_everywhere(run: Any, tmp_path: Path) -> None:
    ended = run("top", "--once", "--socket", tmp_path / "none.sock")
    assert (ended.status, ended.out) == (3, "")
    assert ended.err.startswith("llmgate: no daemon answers on ")
    named = run("top", "--once", "--config", "/g.toml", "--socket", tmp_path / "none.sock")
    assert "llmgate --config /g.toml serve\n" in named.err


def test_ctrl_c_lets_the_screen_put_the_terminal_back(
    run: Any, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_: list[Any] = []
    monkeypatch.setattr("signal.getsignal", lambda _: signal.SIG_DFL)
    monkeypatch.setattr("signal.signal", lambda number, handler: set_.append((number, handler)))
    module = types.ModuleType("llmgate.tui.app")
    module.run = lambda *_, **__: 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "llmgate.tui.app", module)
    assert run("top", "--socket", daemon.socket).status == 0
    assert set_ == [(signal.SIGINT, signal.default_int_handler)]
