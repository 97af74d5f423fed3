"""`llmgate pause`, `resume`, `drain`, `set`: what is asked and told; against a real daemon: tests/e2e/cli."""

import pytest
import typer

from llmgate.adminapi import LimitsAnswer, LimitsView, UpstreamAnswer, encode
from llmgate.cli.operate import _limit
from tests.cli.conftest import FakeDaemon, Run
from tests.cli.conftest import upstream as view_of


@pytest.mark.parametrize("how", ["pause", "resume", "drain"])
def test_the_new_state_is_told(run: Run, daemon: FakeDaemon, how: str) -> None:
    view = view_of("a", state="paused", running=1, waiting=3, draining=2)
    daemon.answers[f"/v1/upstreams/a/{how}"] = encode(UpstreamAnswer(now_ms=1, upstream=view, changed=True))
    ended = run(how, "a", "--socket", daemon.socket)
    assert ended == (0, "a is paused: 1 running, 3 waiting, 2 draining\n", "")
    assert daemon.asked == [f"POST /v1/upstreams/a/{how}"]


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
