"""`llmgate inspect`, `cancel`, `move`: what is shown, and which id is meant; against a real daemon: tests/e2e/cli."""

from typing import Any

import msgspec
import pytest

from llmgate.adminapi import RequestDetail, Step, UpstreamAnswer, encode
from tests.cli.conftest import FakeDaemon, Run, upstream
from tests.cli.conftest import request as view_of


def detail(**fields: Any) -> RequestDetail:
    return RequestDetail(**{"now_ms": 9000, "request": view_of("req_1", arrived_ms=1000)} | fields)


def show(run: Run, daemon: FakeDaemon, shown: RequestDetail) -> str:
    daemon.requests = [shown.request]
    daemon.answers[f"/v1/requests/{shown.request.id}"] = encode(shown)
    return run("inspect", shown.request.id, "--socket", daemon.socket).out


def test_one_that_waits(run: Run, daemon: FakeDaemon) -> None:
    waits = view_of("req_1", arrived_ms=1000, deadline_ms=301_000, client="dsh", session="s")
    told = {"client_version": "1.2", "session_from": "x-session-id", "queue_frames": 9}
    daemon.answers["/v1/upstreams/a"] = encode(UpstreamAnswer(now_ms=1, upstream=upstream("a")))
    waits = msgspec.structs.replace(waits, key="laptop", **told)
    shown = show(run, daemon, detail(request=waits, position=2, depth=3, eta_ms=18_000))
    assert "state     waiting, position 2 of 3, about 18s to go (an estimate), at most 5m" in shown
    assert "waited    8s" in shown
    assert "client    dsh 1.2 from -" in shown
    assert "session   s (x-session-id)" in shown
    assert ", 9 queue frames sent" in shown
    assert "key       laptop" in shown
    assert "ran " not in shown


@pytest.mark.parametrize(
    ("fields", "because"),
    [
        ({"state": "down", "detail": "no answer"}, "a is down: no answer"),
        ({"state": "paused"}, "an operator has paused a, llmgate resume a ends that"),
        (
            {"state": "paused", "up": False},
            "a is down, and an operator has paused a, llmgate resume a ends that",
        ),
        ({"state": "draining"}, "a drains: it takes nobody new, and serves those that are there"),
        ({"state": "full", "max_concurrent": 2, "running": 1, "draining": 1}, "2 of 2 slots of a taken"),
        ({"state": "full", "max_concurrent": 1, "running": 6}, "6 have a slot of a, though max_concurrent is 1 now"),
        ({"state": "ok", "max_concurrent": 2, "running": 1}, ""),
    ],
)
def test_why_it_waits(run: Run, daemon: FakeDaemon, fields: Any, because: str) -> None:
    answer = UpstreamAnswer(now_ms=1, upstream=upstream("a", **fields))
    daemon.answers["/v1/upstreams/a"] = encode(answer)
    shown = show(run, daemon, detail(position=1, depth=3))
    assert [line.removeprefix("because").strip() for line in shown.splitlines() if line.startswith("because")] == (
        [because] if because else []
    )


def test_one_that_is_over_with_its_journey(run: Run, daemon: FakeDaemon) -> None:
    over = view_of(
        "req_1", state="done", outcome="completed", arrived_ms=1000, dispatched_ms=3000, ended_ms=7000, output_tokens=12
    )
    journey = [
        Step(number=1, offset_ms=0, kind="queued", word="queued", text="queued (depth 2)", position=2),
        Step(number=2, offset_ms=1000, kind="position", word="position", text="req_x dispatched", position=1),
        Step(number=3, offset_ms=2000, kind="admitted", word="dispatched", text="dispatched after 2000ms"),
        Step(number=4, offset_ms=3000, kind="position"),
    ]
    shown = show(run, daemon, detail(request=over, journey=journey, of_session=[view_of("req_0", arrived_ms=5000)]))
    assert "state     done, completed" in shown
    assert "ran       4s" in shown
    assert [" ".join(line.split()) for line in shown.splitlines() if line.startswith(("0s", "1s", "2s", "3s"))] == [
        "0s queued (depth 2), position 2",
        "1s position 1 req_x dispatched",
        "2s dispatched after 2000ms",
        "3s position",
    ]
    assert "req_0                  waiting  4s      -" in shown


@pytest.mark.parametrize(("given", "asked"), [("req_1", "req_1"), ("req_2", "req_22"), ("other", "other")])
def test_the_beginning_of_an_id_is_enough(run: Run, daemon: FakeDaemon, given: str, asked: str) -> None:
    daemon.requests = [view_of(key) for key in ("req_1", "req_11", "req_22")]
    daemon.answers[f"/v1/requests/{asked}/move"] = encode(detail(request=view_of(asked)))
    ended = run("move", given, "--front", "--socket", daemon.socket)
    assert ended == (0, f"{asked} moved to the front (a)\n", "")


def test_an_unclear_beginning_names_those_that_begin_so(run: Run, daemon: FakeDaemon) -> None:
    daemon.requests = [view_of(f"req_{number}") for number in range(7)]
    ended = run("cancel", "req", "--socket", daemon.socket)
    assert ended.status == 1
    assert ended.err == (
        "llmgate: req is the beginning of req_0, req_1, req_2, req_3, req_4 and 2 more: say more of it\n"
    )


def test_where_to_is_said(run: Run, daemon: FakeDaemon) -> None:
    ended = run("move", "x", "--socket", daemon.socket)
    assert (ended.status, ended.out) == (2, "")
    assert "say where to, with --front" in ended.err
