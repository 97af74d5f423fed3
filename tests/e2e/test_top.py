"""`llmgate top` as a person meets it: in a terminal (tmux), against `llmgate demo` with its traffic, with every key."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateprocess import ROOT, GateProcess
from hands import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SECONDS = 60.0
"""Until something stands on the screen; on a machine that does nothing else it takes some tenths of a second."""


class Terminal:
    """A program on a screen of a tmux of its own."""

    def __init__(self, folder: Path, command: str, size: tuple[int, int]) -> None:
        self.status = folder / "status"
        self._tmux = ["tmux", "-u", "-f", os.devnull, "-S", str(folder / "tmux.sock")]
        environ = {**os.environ, "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
        for name in ("NO_COLOR", "COLUMNS", "LINES"):  # a width that is told goes before that of the terminal
            environ.pop(name, None)
        whole = f"{command}; echo $? > {shlex.quote(str(self.status))}"
        where = ["new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), whole]
        subprocess.run([*self._tmux, *where], check=True, env=environ, cwd=folder)

    def press(self, *keys: str) -> None:
        """The next key but a few after Escape must not come before its effect: together they are a key with alt."""
        subprocess.run([*self._tmux, "send-keys", *keys], check=True)

    def type(self, text: str) -> None:
        subprocess.run([*self._tmux, "send-keys", "-l", text], check=True)

    def screen(self) -> str:
        done = subprocess.run([*self._tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True)
        return done.stdout

    def shows(self, pattern: str) -> str:
        """Waits until the screen shows it; the screen."""
        end, seen = time.monotonic() + SECONDS, ""
        while time.monotonic() < end:
            seen = self.screen()
            if re.search(pattern, seen, re.MULTILINE):
                return seen
            time.sleep(0.05)
        raise AssertionError(f"never shown: {pattern}\n{seen}")

    def lacks(self, pattern: str) -> None:
        """Waits until the screen does not show it any more."""
        end = time.monotonic() + SECONDS
        while re.search(pattern, seen := self.screen(), re.MULTILINE):
            assert time.monotonic() < end, f"still shown: {pattern}\n{seen}"
            time.sleep(0.05)

    def exit_status(self) -> int:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            if self.status.is_file() and (text := self.status.read_text().strip()):
                return int(text)
            time.sleep(0.05)
        raise AssertionError(f"it did not leave\n{self.screen()}")

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[GateProcess]:
    command = f"--socket {{socket}} demo --listen 127.0.0.1:{free_port()}"
    with GateProcess(tmp_path, command=command.split()) as gate:
        yield gate


@pytest.fixture
def top(demo: GateProcess, tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path, top_command(demo), (110, 34))
    yield terminal
    terminal.close()


def top_command(gate: GateProcess, *options: str) -> str:
    return shlex.join([sys.executable, "-m", "llmgate", "--socket", str(gate.socket), "top", *options])


def test_every_key(demo: GateProcess, top: Terminal) -> None:
    top.shows("● live")
    top.shows(r"^ ▸ reasoning +(ok|full|idle) ")
    pause_until_some_wait(top)
    look_at_what_waits(top)
    act_on_what_waits(top)
    act_on_upstreams(top)
    change_the_look(top)
    lose_the_daemon(demo, top)
    top.press("q")
    assert top.exit_status() == 0


def pause_until_some_wait(top: Terminal) -> None:
    top.press("p")
    top.shows("^ Pause reasoning\\?")
    top.press("n")
    top.shows("^ Nothing was done")
    top.press("p")
    top.shows("^ Pause reasoning\\?")
    top.press("y")
    top.shows("^ reasoning: paused")
    top.shows("^ ▸ reasoning +paused ")
    top.shows(r"^ ▸ reasoning .* [3-9]/")
    top.press("j")
    top.shows("^ ▸ ollama ")
    top.press("Home")
    top.shows("^ ▸ reasoning ")
    top.press("End", "k")
    top.shows("^ ▸ reasoning ")


def look_at_what_waits(top: Terminal) -> None:
    top.press("Enter")
    top.shows("^ ▸ +1  req_")
    top.press("Down")
    top.shows("^ ▸ +2  req_")
    top.press("Enter")
    top.shows("^ state +waiting, position 2 of")
    top.shows(r"^ +\+0\.\d\d\ds  queued")
    top.press("w")
    top.shows("An operator has paused reasoning")
    top.press("Escape")
    top.lacks("An operator has paused reasoning")
    top.press("y")
    top.shows("^ Copied req_")
    top.press("Y")
    top.shows("^ Copied a curl for it")
    top.press("Escape")
    top.shows("── waiting on reasoning ")
    top.press("2")
    top.shows("── waiting on all upstreams ")
    for key, shown in (("s", "by # "), ("S", "by #, reversed "), ("S", "by # ")):
        top.press(key)
        top.shows(shown)
    top.press("/")
    top.type("!zzz model=reasoning")
    top.press("Enter")
    top.shows("── filter !zzz model=reasoning ─")
    top.press("Escape")
    top.shows("^─+$")


def act_on_what_waits(top: Terminal) -> None:
    top.press("Home")
    top.press("Space", "Space")
    top.shows("── 2 marked ─")
    top.press("m")
    top.shows("2 of them: moved to the front")
    top.press("Escape")
    top.lacks("marked ─")
    top.press("End")
    top.press("x")
    asked = re.search("^ Cancel (req_[0-9a-z]+)\\?", top.shows("^ Cancel req_[0-9a-z]+\\?"), re.MULTILINE)
    assert asked
    top.press("y")
    top.shows(f"^ {asked[1]}: cancelled")
    top.lacks(f"^ .* {asked[1][:9]}…")
    top.press("X")
    top.shows(f"^ (?!{asked[1]})req_[0-9a-z]+: cancelled")
    top.press("4")
    top.shows("^ [▸ ] .* cancelled ")
    top.press("5")
    top.shows(f"moved .* by uid {os.getuid()}")
    top.press("3")
    top.shows("── running on all upstreams ")
    top.press("1")
    top.shows("── events ")


def act_on_upstreams(top: Terminal) -> None:
    top.press("Escape")
    top.press("Home")
    top.press("+")
    top.shows("^ reasoning: max_concurrent is 3")
    top.shows("^ ▸ reasoning +paused .*/3 ")
    top.press("-")
    top.shows("^ reasoning: max_concurrent is 2")
    top.press("R", "y")
    top.shows("^ reasoning: resumed")
    top.shows("^ ▸ reasoning +(ok|full|idle) ")
    top.press("d", "y")
    top.shows("^ reasoning: draining")
    top.shows("^ ▸ reasoning +drain(ing|ed) ")
    top.press(":")
    top.type("resume rea")
    top.press("Tab")
    top.shows("^ :resume reasoning")
    top.press("Enter")
    top.shows("^ reasoning: resumed")
    top.press(":")
    top.type("dance")
    top.press("Enter")
    top.shows("^ No command dance")
    top.press(":")
    top.type("doctor")
    top.press("Enter")
    top.shows("^  ok +upstream reasoning: ")
    top.press("Escape")
    top.shows("^ ▸ reasoning ")


def change_the_look(top: Terminal) -> None:
    top.press("P")
    top.shows("── FROZEN: picture of ")
    top.press("P")
    top.shows("● live")
    top.press("l")
    top.shows("── log of reasoning ")
    top.shows("llmgate: reasoning ")
    top.press("Escape")
    top.lacks("── log of reasoning ")
    top.press("Tab", "Tab", "Tab")
    top.press("w", "w")
    top.press("t")
    top.shows("^ Theme dark")
    top.press("?")
    top.shows("keys, overview")
    top.press("NPage")
    top.shows("Esc drops the filter")
    top.press("PPage", "F1")
    top.shows("── events ")
    top.press("a")
    top.shows("^ llmgate .* \\* live")
    top.press("a")
    top.shows("● live")
    top.press("r")
    top.shows("^ Connected")


def lose_the_daemon(demo: GateProcess, top: Terminal) -> None:
    demo.stop()
    top.shows("○ not connected")
    top.shows("What was last seen stays below")
    top.press("w")
    top.shows("^ llmgate top ▸ llmgate doctor")
    top.shows("^  fail +daemon: No daemon answers on ")
    top.press("Escape")
    top.shows("What was last seen stays below")
    top.press("r")
    top.press("p")
    top.shows("Nothing is changed: there is no connection")


def test_a_daemon_that_stands_still_is_told_and_comes_back(demo: GateProcess, top: Terminal) -> None:
    top.shows("● live")
    os.kill(demo.pid, signal.SIGSTOP)
    try:
        top.shows(r"○ no answer for \d+ s")
        top.shows(r"^ ▸ reasoning ")
    finally:
        os.kill(demo.pid, signal.SIGCONT)
    top.shows("● live")
    top.press("d")
    top.shows("^ Drain reasoning\\?")
    top.press("y")
    top.shows("^ ▸ reasoning +drained ")
    top.press("5")
    top.shows("── events ")
    top.press("/")
    top.type("drain")
    top.press("Enter")
    top.shows(f"^[▸ ].* draining +reasoning +by uid {os.getuid()} ")
    top.shows("^[▸ ].* drained +reasoning$")


def test_ctrl_c_leaves_even_in_the_middle_of_a_line(demo: GateProcess, top: Terminal) -> None:
    top.shows("● live")
    top.press("/")
    top.type("abc")
    top.shows("^ /abc")
    top.press("C-c")
    assert top.exit_status() == 0


def test_read_only_and_without_colour(demo: GateProcess, tmp_path: Path) -> None:
    top = Terminal(tmp_path, f"NO_COLOR=1 {top_command(demo, '--read-only', '--ascii')}", (80, 24))
    try:
        top.shows("-- read-only -")
        for key in "pdR+-xXm":
            top.press(key)
            top.shows("^ Nothing is changed: started with --read-only")
            top.press("2")
            top.lacks("^ Nothing is changed: started with --read-only")
        assert top.screen().isascii()
        top.press("q")
        assert top.exit_status() == 0
    finally:
        top.close()
    assert not any("by uid" in line for line in demo.log.splitlines())
