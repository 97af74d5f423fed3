"""`llmgate wait`: what it waits for; against a real daemon: tests/e2e/cli."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from llmgate.adminclient import wire
from llmgate.errors import DaemonSilent
from tests.cli.conftest import FakeDaemon, Run, status_of
from tests.cli.conftest import upstream as view_of

DOWN = view_of("b", state="down", detail="it takes no connection")
EMPTY, PAUSED = view_of("empty", state="drained"), view_of("paused", state="paused")
REFUSING = "refuses who comes until it is resumed"
DRAINS = view_of("drains", state="draining", up=False, detail="it takes no connection")


@pytest.mark.parametrize(
    ("arguments", "fields", "why"),
    [
        (["--upstream", "b"], {}, "b is down: it takes no connection"),
        (["--ready", "--upstream", "drains"], {}, "drains is down: it takes no connection"),
        (["--ready"], {"state": "stopping"}, "the daemon is stopping"),
        (["--ready", "--upstream", "a"], {}, ""),
        (["--ready", "--upstream", "empty"], {}, f"empty is drained, and {REFUSING}"),
        (["--upstream", "empty"], {}, f"empty is drained, and {REFUSING}"),
        (["--upstream", "closing"], {}, f"closing is draining, and {REFUSING}"),
        (["--idle", "--upstream", "empty"], {}, ""),
        (["--ready", "--upstream", "paused"], {}, ""),
        (["--idle"], {}, "a: 1 running, 0 waiting, 2 draining"),
        (["--idle", "--upstream", "b"], {}, ""),
        (["--ready", "--idle", "--upstream", "a"], {}, "a: 1 running, 0 waiting, 2 draining"),
    ],
)
def test_what_it_waits_for(
    run: Run, daemon: FakeDaemon, arguments: list[str], fields: dict[str, Any], why: str
) -> None:
    closing = view_of("closing", state="draining")
    daemon.status = status_of(view_of("a", running=1, draining=2), DOWN, DRAINS, EMPTY, PAUSED, closing, **fields)
    ended = run("wait", *arguments, "--timeout", "0", "--socket", daemon.socket)
    assert ended == ((5, "", f"llmgate: timed out: {why}\n") if why else (0, "", ""))


def test_quiet_says_nothing(run: Run, daemon: FakeDaemon) -> None:
    daemon.status = status_of(DOWN)
    assert run("wait", "-q", "--timeout", "0", "--socket", daemon.socket) == (5, "", "")


def test_an_unknown_upstream_is_an_error_at_once(run: Run, daemon: FakeDaemon) -> None:
    daemon.status = status_of(DOWN)
    ended = run("wait", "--upstream", "c", "--socket", daemon.socket)
    assert (ended.status, ended.err) == (1, "llmgate: there is no upstream 'c'; there are: b\n")


def test_a_daemon_that_does_not_answer_is_waited_for(
    run: Run, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(_: object) -> None:
        raise DaemonSilent("nothing was heard")

    monkeypatch.setattr("llmgate.adminclient.AdminClient.status", silent)
    ended = run("wait", "--timeout", "0", "--socket", daemon.socket)
    assert ended == (5, "", "llmgate: timed out: the daemon does not answer\n")


def test_no_call_takes_longer_than_is_left(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that stands still takes connections, and never says a word."""
    monkeypatch.setattr(wire, "ANSWER_SECONDS", 3600.0)
    monkeypatch.setattr(wire, "SHORTEST_SECONDS", 0.05)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "s"))
        silent.listen()
        ended = run("wait", "--timeout", "10ms", "--socket", tmp_path / "s")
    assert ended == (5, "", "llmgate: timed out: the daemon does not answer\n")


def test_json_is_the_state_that_was_waited_for(run: Run, daemon: FakeDaemon) -> None:
    daemon.status = status_of(view_of("a"), DOWN)
    ended = run("wait", "--json", "--upstream", "a", "--socket", daemon.socket)
    told = json.loads(ended.out)
    assert (ended.status, next(iter(told)), told["upstreams"][0]["name"]) == (0, "schema", "a")


def test_one_that_is_drained_does_not_keep_all_from_being_ready(run: Run, daemon: FakeDaemon) -> None:
    daemon.status = status_of(view_of("a"), EMPTY)
    assert run("wait", "--ready", "--timeout", "0", "--socket", daemon.socket) == (0, "", "")
