"""`llmgate pause`, `resume`, `drain`, `set`: what is asked and told; against a real daemon: tests/e2e/cli."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer

from llmgate.adminapi import LimitsAnswer, LimitsView, UpstreamAnswer, encode
from llmgate.cli.operate import _limit
from llmgate.errors import DaemonSilent
from tests.cli.conftest import FakeDaemon, Run, status_of
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
    line = ("drain", "a", "--wait", "--timeout", "0", "--socket", daemon.socket)
    timed_out = "timed out: a is draining: 1 running, 0 waiting; the drain goes on"
    assert run(*line) == (5, "", f"llmgate: waiting: a is draining: 1 running, 0 waiting\nllmgate: {timed_out}\n")
    assert run(*line, "-q") == (5, "", "")
    as_json = run(*line, "--json")
    assert (as_json.status, as_json.out) == (5, "")
    assert json.loads(as_json.err) == {"schema": 1, "error": {"code": "TIMED_OUT", "message": timed_out}}


def test_a_drain_says_what_it_waits_for_first_and_when_that_changes(
    run: Run, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = view_of("a", state="draining", running=1, waiting=2)
    stuck = msgspec.structs.replace(busy, running=0, up=False, detail="it takes no connection")
    back = msgspec.structs.replace(stuck, waiting=1, up=True, detail="")
    later = msgspec.structs.replace(stuck, detail="it takes no connection, next probe in 1s")
    views = iter([busy, stuck, later, back, back, view_of("a", state="drained")])
    monkeypatch.setattr("llmgate.cli.operate.POLL_SECONDS", 0)
    answer = lambda _, name: UpstreamAnswer(now_ms=1, upstream=next(views))  # noqa: E731
    monkeypatch.setattr("llmgate.adminclient.AdminClient.drain", answer)
    monkeypatch.setattr("llmgate.adminclient.AdminClient.upstream", answer)
    ended = run("drain", "a", "--wait", "--socket", daemon.socket)
    assert (ended.status, ended.out) == (0, "a is drained: 0 running, 0 waiting\n")
    assert ended.err.splitlines() == [
        "llmgate: waiting: a is draining: 1 running, 2 waiting",
        (
            "llmgate: waiting: a is draining: 0 running, 2 waiting; it is down: it takes no connection, "
            "and who waits there waits for it to come back"
        ),
        "llmgate: waiting: a is draining: 0 running, 1 waiting",
    ]


def test_a_drain_that_somebody_else_ended(run: Run, daemon: FakeDaemon) -> None:
    busy, open_again = view_of("a", state="draining", running=1), view_of("a", state="full", running=1)
    daemon.answers["/v1/upstreams/a/drain"] = encode(UpstreamAnswer(now_ms=1, upstream=busy, changed=True))
    daemon.answers["/v1/upstreams/a"] = encode(UpstreamAnswer(now_ms=2, upstream=open_again))
    ended = run("drain", "a", "--wait", "--socket", daemon.socket)
    assert (ended.status, ended.out) == (1, "")
    assert "somebody ended the drain meanwhile: a is full: 1 running, 0 waiting" in ended.err


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
    assert ended.err.splitlines()[-1].startswith("llmgate: timed out: a is draining") is bool(timeout)


def test_what_a_change_of_limits_means_is_told_too(run: Run, daemon: FakeDaemon) -> None:
    old, new = LimitsView(max_concurrent=1, queue_timeout=60.0), LimitsView(max_concurrent=2)
    daemon.answers["/v1/upstreams/a"] = encode(
        LimitsAnswer(now_ms=1, upstream="a", old=old, new=new, note="Its servers have one slot.")
    )
    ended = run("set", "a", "max_concurrent=2", "queue_timeout=none", "--socket", daemon.socket)
    assert ended.out == "a: max_concurrent 1 -> 2, queue_timeout 1m -> none\nIts servers have one slot.\n"
    assert daemon.asked == ["PATCH /v1/upstreams/a"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"new": LimitsView(max_concurrent=4), "is_auto": True}, "max_concurrent 2 -> auto (4 now)"),
        ({"new": LimitsView(max_concurrent=2), "is_auto": True}, "max_concurrent 2 -> auto (2 now)"),
        ({"new": LimitsView(max_concurrent=1), "was_auto": True}, "max_concurrent auto (2 now) -> 1"),
        ({"new": LimitsView(max_concurrent=0)}, "max_concurrent 2 -> 0 (not gated)"),
    ],
)
def test_the_servers_own_slots_and_none_at_all(run: Run, daemon: FakeDaemon, answer: Any, said: str) -> None:
    told = LimitsAnswer(now_ms=1, upstream="a", old=LimitsView(max_concurrent=2), **answer)
    daemon.answers["/v1/upstreams/a"] = encode(told)
    assert run("set", "a", "max_concurrent=auto", "--socket", daemon.socket).out == f"a: {said}\n"


def test_an_older_daemon_need_not_know_that_they_are_written(run: Run, daemon: FakeDaemon, tmp_path: Path) -> None:
    file = tmp_path / "llmgate.toml"
    file.write_text("[upstreams.a]\nmax_concurrent = 1\n")
    daemon.status = status_of(view_of("a"), config=str(file))
    limits = LimitsAnswer(now_ms=1, upstream="a", old=LimitsView(max_concurrent=1), new=LimitsView(max_concurrent=2))
    answers = [encode(limits), b"{}"]
    daemon.answer = lambda target: encode(daemon.status) if "status" in target else answers.pop(0)  # type: ignore[method-assign]
    ended = run("set", "a", "max_concurrent=2", "--persist", "--socket", daemon.socket)
    assert (ended.status, ended.out) == (0, f"a: max_concurrent 1 -> 2, written to {file}\n")
    assert ended.err.startswith("llmgate: written, but the daemon does not know that")
    assert "max_concurrent = 2" in file.read_text()


def test_limits_that_cannot_be_written_are_in_force_all_the_same(run: Run, daemon: FakeDaemon, tmp_path: Path) -> None:
    daemon.status = status_of(view_of("a"), config=str(tmp_path / "none.toml"))
    limits = LimitsAnswer(now_ms=1, upstream="a", old=LimitsView(max_concurrent=1), new=LimitsView(max_concurrent=2))
    daemon.answers["/v1/upstreams/a"] = encode(limits)
    ended = run("set", "a", "max_concurrent=2", "--persist", "--socket", daemon.socket)
    assert (ended.status, ended.out) == (78, "")
    assert ended.err.endswith("llmgate: the limits are in force, until the next start\n")


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("max_concurrent=2", ("max_concurrent", 2)),
        ("max_concurrent=Auto", ("max_concurrent", "auto")),
        ("max_queued=0", ("max_queued", 0)),
        ("max_queued=None", ("max_queued", None)),
        ("queue_timeout=1h", ("queue_timeout", 3600.0)),
        ("queue_timeout=0", ("queue_timeout", None)),
        ("queue_timeout=unlimited", ("queue_timeout", None)),
    ],
)
def test_limits_as_they_are_written(text: str, limit: tuple[str, float | None]) -> None:
    assert _limit(text) == limit


@pytest.mark.parametrize(
    "text", ["", "=", "max_queued", "max_queued=", "max_queued=²", "max_concurrent=1.5", "max_queued=auto", "x=1"]
)
def test_what_is_no_limit(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        _limit(text)


def test_a_limit_that_is_given_twice_is_a_usage_error(run: Run, daemon: FakeDaemon) -> None:
    ended = run("set", "a", "max_concurrent=1", "max_queued=3", "max_concurrent=2", "--socket", daemon.socket)
    assert (ended.status, ended.out, daemon.asked) == (2, "", [])
    assert ended.err.endswith("llmgate: max_concurrent is given twice: each limit once\n")
