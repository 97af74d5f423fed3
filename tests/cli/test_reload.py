"""`llmgate reload`: what is printed of a difference; against a real daemon: tests/e2e/cli."""

import json

from llmgate.adminapi import ConfigChange, Reloaded, encode
from tests.cli.conftest import FakeDaemon, Run

CHANGED = [
    ConfigChange(key="upstreams.a.max_concurrent", old=1, new=2, reload="live"),
    ConfigChange(key="server.listen", old=["127.0.0.1:1"], new=["127.0.0.1:2"], reload="restart"),
    ConfigChange(key="upstreams.b.url", new="http://b", reload="live"),
]


def test_a_line_for_each_change(run: Run, daemon: FakeDaemon) -> None:
    daemon.answers["/v1/reload"] = encode(Reloaded(changed=CHANGED, warnings=["llmgate: odd"]))
    ended = run("reload", "--socket", daemon.socket)
    assert (ended.status, ended.err) == (0, "llmgate: odd\n")
    assert ended.out.splitlines() == [
        "upstreams.a.max_concurrent: 1 -> 2",
        'server.listen: ["127.0.0.1:1"] -> ["127.0.0.1:2"]  (needs a new start)',
        'upstreams.b.url: none -> "http://b"',
    ]
    assert daemon.asked == ["POST /v1/reload"]


def test_nothing_changed(run: Run, daemon: FakeDaemon) -> None:
    daemon.answers["/v1/reload"] = encode(Reloaded())
    assert run("reload", "--socket", daemon.socket).out == "nothing changed\n"
    assert run("reload", "-q", "--socket", daemon.socket).out == ""


def test_settings_that_cannot_be_used(run: Run, daemon: FakeDaemon) -> None:
    daemon.answers["/v1/reload"] = encode(Reloaded(error="llmgate: f:3: x must be y"))
    ended = run("reload", "--socket", daemon.socket)
    assert ended == (1, "", "llmgate: f:3: x must be y\nllmgate: the old settings stay in force\n")
    told = run("reload", "--json", "--socket", daemon.socket)
    assert (told.status, json.loads(told.out)["error"]) == (1, "llmgate: f:3: x must be y")
