"""`llmgate pause`, `resume`, `drain`, `set`: what is asked and told; against a real daemon: tests/e2e/cli."""

import json

import pytest
import typer

from llmgate.adminapi import LimitsAnswer, LimitsView, UpstreamAnswer, encode
from llmgate.cli.operate import _limit
from llmgate.errors import DaemonSilent
from tests.cli.conftest import FakeDaemon, Run
from tests.cli.conftest import upstream as view_of


@pytest.mark.parametrize("how", ["pause", "resume", "drain"])
def test_the_new_state_is_told(run: Run, daemon: FakeDaemon, how: str) -> None:
    view = view_of("a", state="paused", running=1, waiting=3, draining=2)
    daemon.answers[f"/v1/upstreams/a/{how}"] = encode(UpstreamAnswer(now_ms=1, upstream=view, changed=True))
    ended = run(how, "a", "--socket", daemon.socket)
    assert ended == (0, "a is paused: 1 running, 3 waiting, 2 slots not free yet\n", "")
    assert daemon.asked == [f"POST /v1/upstreams/a/{how}"]


@pytest.mark.parametrize("changed", [True, False])
def test_a_drain_that_is_waited_for_tells_whether_it_began_it(run: Run, daemon: FakeDaemon, changed: bool) -> None:
    busy, empty = view_of("a", state="draining", running=1), view_of("a", state="drained")
    daemon.answers["/v1/upstreams/a/drain"] = encode(UpstreamAnswer(now_ms=1, upstream=busy, changed=changed))
    daemon.answers["/v1/upstreams/a"] = encode(UpstreamAnswer(now_ms=2, upstream=empty))
    told = json.loads(run("drain", "a", "--wait", "--json", "--socket", daemon.socket).out)
    assert (told["changed"], told["upstream"]["state"]) == (changed, "drained")


def test_a_drain_that_takes_too_long(run: Run, daemon: FakeDaemon) -> None:
    busy = view_of("a", state="draining", running=1)
    daemon.answers["/v1/upstreams/a/drain"] = encode(UpstreamAnswer(now_ms=1, upstream=busy, changed=True))
    daemon.answers["/v1/upstreams/a"] = encode(UpstreamAnswer(now_ms=2, upstream=busy))
    ended = run("drain", "a", "--wait", "--timeout", "0", "--socket", daemon.socket)
    assert ended == (5, "a is draining: 1 running, 0 waiting\n", "")


@pytest.mark.parametrize("timeout", ["1ms", None])
def test_a_daemon_that_falls_silent_during_a_drain(
    run: Run, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch, timeout: str | None
) -> None:
    """With a time limit that is over then it is told; without one it would never be."""

    def silent(_: object, name: str) -> None:
        raise DaemonSilent(f"nothing was heard of {name}")

    monkeypatch.setattr("llmgate.adminclient.AdminClient.upstream", silent)
    looks = iter([False, True, True])
    monkeypatch.setattr("llmgate.cli.patience.Patience.is_over", lambda _: timeout is not None and next(looks))
    busy = view_of("a", state="draining", running=1)
    daemon.answers["/v1/upstreams/a/drain"] = encode(UpstreamAnswer(now_ms=1, upstream=busy, changed=True))
    limit = ["--timeout", timeout] if timeout else []
    ended = run("drain", "a", "--wait", *limit, "--socket", daemon.socket)
    assert ended.status == (5 if timeout else 1)
    assert ("a is draining" in ended.out) is bool(timeout)


def test_what_a_change_of_limits_means_is_told_too(run: Run, daemon: FakeDaemon) -> None:
    old, new = LimitsView(max_concurrent=1, queue_timeout=60.0), LimitsView(max_concurrent=2)
    daemon.answers["/v1/upstreams/a"] = encode(
        LimitsAnswer(now_ms=1, upstream="a", old=old, new=new, note="Its servers have one slot.")
    )
    ended = run("set", "a", "max_concurrent=2", "queue_timeout=none", "--socket", daemon.socket)
    assert ended.out == "a: max_concurrent 1 -> 2, queue_timeout 1m -> none\nIts servers have one slot.\n"
    assert daemon.asked == ["PATCH /v1/upstreams/a"]


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("max_concurrent=2", ("max_concurrent", 2)),
        ("max_queued=0", ("max_queued", 0)),
        ("max_queued=None", ("max_queued", None)),
        ("queue_timeout=1h", ("queue_timeout", 3600.0)),
        ("queue_timeout=0", ("queue_timeout", None)),
        ("queue_timeout=unlimited", ("queue_timeout", None)),
    ],
)
def test_limits_as_they_are_written(text: str, limit: tuple[str, float | None]) -> None:
    assert _limit(text) == limit


@pytest.mark.parametrize("text", ["", "=", "max_queued", "max_queued=", "max_queued=²", "max_concurrent=1.5", "x=1"])
def test_what_is_no_limit(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        _limit(text)
