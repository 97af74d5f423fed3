"""Who may not use the admin socket is told what to do next, and changes nothing: by the system's own permissions.

As root, as in CI, the commands run as another user. Anybody else can only bar himself from a daemon of his own, by the
mode of its socket or of the folder that it lies in.
"""

import dataclasses
import getpass
import grp
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gateprocess import START_SECONDS, GateProcess

STRANGER = Path(__file__).parents[2] / "support" / "stranger.py"
IS_ROOT = os.getuid() == 0
UID = 54_321 if IS_ROOT else os.getuid()
OWNER = getpass.getuser() if not IS_ROOT else "root"
GROUP = next(group for group in grp.getgrall() if group.gr_gid != 0) if IS_ROOT else grp.getgrgid(os.getgid())
"""That of the socket, where it has one."""
NO_GROUP = 54_322
LOOKING = (("status",), ("ps",), ("top", "--once"))
ACTING = (("pause", "a"), ("drain", "a"), ("set", "a", "max_concurrent=2"), ("reload",))
OPERATORS = {"mode": "0660", "group": str(GROUP.gr_gid)}


@dataclasses.dataclass(frozen=True)
class Barred:
    """Settings of a daemon, and what keeps somebody out of it."""

    admin: dict[str, Any]
    by_folder: bool
    mode: int
    """For who is not root: then the socket or the folder gets it."""
    advice: str


BARRED = {
    "the socket is its owner's": Barred(
        {"mode": "0600"},
        False,
        0o000,
        f"The socket belongs to user {OWNER}, and only that user may use it.\n\n"
        f"  as that user          sudo -u {OWNER} llmgate --socket SOCKET COMMAND\n",
    ),
    "the folder is its owner's": Barred(
        {"mode": "0600"},
        True,
        0o000,
        f"The folder FOLDER belongs to user {OWNER}, and only that user may use it.\n\n"
        f"  as that user          sudo -u {OWNER} llmgate --socket SOCKET COMMAND\n",
    ),
    "the socket is a group's": Barred(
        OPERATORS,
        False,
        0o060,
        f"The socket belongs to group {GROUP.gr_name}, and you are not in it.\n\n"
        f"  join the group        sudo usermod -aG {GROUP.gr_name} $USER   (then log in again)\n",
    ),
    "the folder is a group's": Barred(
        OPERATORS,
        True,
        0o050,
        f"The folder FOLDER belongs to group {GROUP.gr_name}, and you are not in it.\n\n"
        f"  join the group        sudo usermod -aG {GROUP.gr_name} $USER   (then log in again)\n",
    ),
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that everybody may enter: pytest's own are closed to others."""
    made = Path(tempfile.mkdtemp(prefix="llmgate-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def make_gate(folder: Path, **admin: Any) -> GateProcess:
    upstream = {"url": "http://127.0.0.1:9", "models": ["m"], "max_concurrent": 1}
    return GateProcess(folder, {"admin": admin, "upstreams": {"a": upstream}})


@contextmanager
def barring(gate: GateProcess, barred: Barred) -> Iterator[None]:
    """Root has nothing to do for it: the commands run as somebody else."""
    path = gate.socket.parent if barred.by_folder else gate.socket
    before = path.stat().st_mode
    if not IS_ROOT:
        path.chmod(barred.mode)
    try:
        yield
    finally:
        path.chmod(before)


@dataclasses.dataclass(frozen=True)
class Told:
    """How a command ended, and what it said."""

    words: list[str]
    status: int
    out: str
    error: str

    @property
    def complaint(self) -> dict[str, str]:
        """In JSON, and nothing else was said."""
        assert (self.status, self.out) == (1, ""), self
        answer = json.loads(self.error)
        assert answer.keys() == {"schema", "error"}
        assert answer["schema"] == 1
        error: dict[str, str] = answer["error"]
        return error


def llmgate(gate: GateProcess, *commands: tuple[str, ...], group: int = NO_GROUP) -> Iterator[tuple[Told, Told]]:
    """Commands of somebody who is in that group only, each as it is and with --json."""
    lines = [[*option, *words] for words in commands for option in ((), ("--json",))]
    stranger = subprocess.run(
        [sys.executable, str(STRANGER), str(gate.socket), str(UID), str(group)],
        input=json.dumps(lines),
        env=gate.environment,
        cwd="/",
        stdout=subprocess.PIPE,
        text=True,
        timeout=START_SECONDS,
        check=True,
    )
    told = [Told(words, *answer) for words, answer in zip(lines, json.loads(stranger.stdout), strict=True)]
    yield from zip(told[::2], told[1::2], strict=True)


def shape(gate: GateProcess) -> tuple[Any, ...]:
    """All that a command could have changed."""
    view = gate.upstream("a")
    modes = [path.stat().st_mode for path in (gate.socket, gate.socket.parent)]
    return view["state"], view["max_concurrent"], view["max_queued"], gate.status()["may_act"], modes


@pytest.mark.parametrize("name", BARRED)
def test_without_permission_it_says_how_to_get_it_and_nothing_changes(folder: Path, name: str) -> None:
    barred = BARRED[name]
    gate = make_gate(folder, **barred.admin)
    if not barred.by_folder:
        gate.socket.parent.mkdir(mode=0o755)
    advice = barred.advice.replace("SOCKET", str(gate.socket)).replace("FOLDER", str(gate.socket.parent))
    with gate:
        before = shape(gate)
        gate.mark_log()
        with barring(gate, barred):
            for told, in_json in llmgate(gate, *LOOKING, *ACTING):
                text = f"ermission denied on {gate.socket}\n\n{advice.replace('COMMAND', told.words[0])}"
                assert (told.status, told.out, told.error) == (1, "", f"llmgate: p{text}"), told
                assert in_json.complaint == {"code": "NOT_PERMITTED", "message": f"p{text.rstrip()}"}
        assert shape(gate) == before
        assert [line for line in gate.new_log if "UPSTREAM_DOWN" not in line] == []


def test_a_member_of_the_group_looks_and_acts(folder: Path) -> None:
    with make_gate(folder, **OPERATORS) as gate:
        for told, in_json in llmgate(gate, *LOOKING, group=GROUP.gr_gid):
            assert (told.status, told.error, in_json.status, in_json.error) == (0, "", 0, ""), told
            assert told.out
            assert json.loads(in_json.out)["schema"] == 1
        ((first, second),) = llmgate(gate, ("pause", "a"), group=GROUP.gr_gid)
        assert (first.status, first.out) == (0, "a is paused: 0 running, 0 waiting\n"), first
        assert json.loads(second.out)["changed"] is False
        assert gate.upstream("a")["state"] == "paused"


def test_who_may_only_look_looks_and_is_told_why_he_may_not_act(folder: Path) -> None:
    with make_gate(folder, **OPERATORS, read_only_uids=[UID]) as gate:
        before = shape(gate)
        for told, in_json in llmgate(gate, *LOOKING, group=GROUP.gr_gid):
            assert (told.status, told.error, in_json.status, in_json.error) == (0, "", 0, ""), told
            assert json.loads(in_json.out).get("may_act", False) is False
        for told, in_json in llmgate(gate, *ACTING, group=GROUP.gr_gid):
            assert (told.status, told.out) == (1, ""), told
            assert told.error.startswith("llmgate: "), told
            assert told.error.endswith("may look here, but not act: see admin.read_only_uids in the settings\n"), told
            assert in_json.complaint["code"] == "FORBIDDEN"
        assert shape(gate) == before
