"""`llmgate reload`: what is printed of a difference; against a real daemon: tests/e2e/cli."""

import json

from llmgate.adminapi import ConfigChange, Reloaded, encode
from tests.cli.conftest import FakeDaemon, Run

CHANGED = [
    ConfigChange(key="upstreams.a.max_concurrent", old=1, new=2, reload="live"),
    ConfigChange(key="server.listen", old=["127.0.0.1:1"], new=["127.0.0.1:2"], reload="restart"),
    ConfigChange(key="upstreams.b.queue_timeout", new="5m", reload="live"),
]


def test_a_line_for_each_change(run: Run, daemon: FakeDaemon) -> None:
    daemon.answers["/v1/reload"] = encode(Reloaded(changed=CHANGED, warnings=["llmgate: odd"]))
    ended = run("reload", "--socket", daemon.socket)
    assert (ended.status, ended.err) == (0, "llmgate: odd\n")
    assert ended.out.splitlines() == [
        "upstreams.a.max_concurrent: 1 -> 2",
        'server.listen: ["127.0.0.1:1"] -> ["127.0.0.1:2"]  (needs a new start)',
        'upstreams.b.queue_timeout: none -> "5m"',
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
    said = "f:3: x must be y\nthe old settings stay in force"
    assert (told.status, told.out) == (1, "")
    assert json.loads(told.err) == {"schema": 1, "error": {"code": "BAD_SETTINGS", "message": said}}


def test_upstreams_that_came_and_went_and_who_was_there(run: Run, daemon: FakeDaemon) -> None:
    changed = [
        ConfigChange(key="upstreams.uno", new="http://a", reload="live"),
        ConfigChange(key="upstreams.one", old="http://a", reload="live"),
        ConfigChange(key="keys.laptop", old="********", new="********", reload="live"),
        ConfigChange(key="upstreams.uno.max_concurrent", old=2, new=0, reload="live"),
    ]
    daemon.answers["/v1/reload"] = encode(Reloaded(changed=changed, fates=["one is now uno: its queue goes on"]))
    assert run("reload", "--socket", daemon.socket).out.splitlines() == [
        "upstreams.uno: new, http://a",
        "upstreams.one: gone, http://a",
        "keys.laptop: another value, which is not shown",
        "upstreams.uno.max_concurrent: 2 -> 0 (not gated)",
        "one is now uno: its queue goes on",
    ]
