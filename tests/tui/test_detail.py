"""One request, as far as it is known."""

from collections.abc import Callable
from datetime import UTC
from typing import Any

import msgspec
import pytest

from llmgate.adminapi import RequestDetail, Step
from llmgate.tui.cells import plain
from llmgate.tui.columns import Frame
from llmgate.tui.detail import detail_lines, is_stale
from llmgate.tui.furniture import Look
from llmgate.tui.model import View
from llmgate.tui.state import State

Drawn = Callable[..., list[str]]


@pytest.fixture
def drawn() -> Drawn:
    def draw(view: View, request_id: str, width: int = 80, room: int = 20, told: Any = None) -> list[str]:
        frame = Frame(view, state=State(detail=request_id, told=told))
        return [plain(line) for line in detail_lines(frame, Look(width, room + 4, UTC), room)]

    return draw


def test_one_that_waits(view: View, drawn: Drawn) -> None:
    assert drawn(view, "q-7f3a24")[:8] == [
        " state      waiting, position 2 of 3       ETA        ~0:18  (an estimate)",
        " waited     0:18 of 5:00                   arrived    14:02:13.000",
        " model      qwen2.5:3b-instruct            upstream   ha-llm  127.0.0.1:8081",
        " api        POST /llm/v1/messages          stream     yes",
        " client     claude-code                    from       192.168.1.23:51514",
        " session    e74544d8-d380-49a1-8f97-050cbf9101b7",
        " purpose    -                              key        laptop",
        " body       76,178 bytes                   output     -",
    ]


def test_one_that_runs(view: View, drawn: Drawn) -> None:
    lines = drawn(view, "q-7f3a1c")
    assert lines[0].split() == ["state", "running", "runs", "for", "0:09"]
    assert lines[1].split()[:2] == ["waited", "5.7s"]
    assert lines[7].endswith("output     371 tokens, 41.2 tok/s")


def test_one_that_ended(viewed: Any, sample: Any, drawn: Drawn) -> None:
    now = sample.NOW
    over = sample.request(
        "q-1", "a", state="done", outcome="completed", arrived_ms=now - 20_000, dispatched_ms=now - 14_000,
        first_byte_ms=now - 13_000, ended_ms=now - 3000, output_tokens=100, endpoint="gpu2",
    )  # fmt: skip
    failed = msgspec.structs.replace(over, id="q-2", outcome="upstream_error", reason="it answered with status 500")
    known = viewed(sample.snapshot([sample.upstream("a")], [over, failed]))
    said = drawn(known, "q-2")
    assert said[:2] == [
        " state      ended: upstream_error          ran        11.0s",
        " reason     it answered with status 500",
    ]
    lines = drawn(known, "q-1")
    assert lines[0].split() == ["state", "ended:", "completed", "ran", "11.0s"]
    assert lines[2].endswith("a  gpu2")
    assert lines[7].endswith("100 tokens, 10.0 tok/s")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"state": "running"}, "running, no byte of it yet"),
        ({"state": "draining", "outcome": "client_gone"}, "draining (client_gone)"),
        ({"state": "draining"}, "draining (ended)"),
    ],
)
def test_other_states(viewed: Any, sample: Any, drawn: Drawn, fields: Any, said: str) -> None:
    known = viewed(sample.snapshot([sample.upstream("a")], [sample.request("q-1", "a", **fields)]))
    assert said in drawn(known, "q-1")[0]


def test_what_is_known_of_client_session_and_frames(viewed: Any, sample: Any, drawn: Drawn) -> None:
    told = {"client": "claude-cli", "client_version": "2.1.197", "session": "e7", "session_from": "x-session-id"}
    one = sample.request("q-1", "a", queue_frames=1, **told)
    known = viewed(sample.snapshot([sample.upstream("a")], [one]))
    said = "\n".join(drawn(known, "q-1"))
    assert " stream     yes, 1 queue frame sent" in said
    assert " client     claude-cli 2.1.197 " in said
    assert " session    e7  (x-session-id)" in said
    newer = RequestDetail(now_ms=1, request=sample.request("q-1", "a", queue_frames=9))
    assert "yes, 9 queue frames sent" in "\n".join(drawn(known, "q-1", told=newer))
    other = RequestDetail(now_ms=1, request=sample.request("q-2", "a", queue_frames=9))
    assert "yes, 1 queue frame sent" in "\n".join(drawn(known, "q-1", told=other))


def test_a_long_address_of_an_upstream_keeps_its_port(viewed: Any, sample: Any, drawn: Drawn) -> None:
    far = sample.upstream("reasoning", url="http://reasoning.lab.example.org:8081")
    lines = drawn(viewed(sample.snapshot([far], [sample.request("q-1", "reasoning")])), "q-1")
    assert " upstream   reasoning  reasoning.lab.example.org:8081" in [line.rstrip() for line in lines]
    assert " model      qwen2.5:3b-instruct" in [line.rstrip() for line in lines]


def test_a_narrow_screen_has_a_field_a_line(view: View, drawn: Drawn) -> None:
    lines = drawn(view, "q-7f3a24", width=60)
    assert lines[:3] == [
        " state      waiting, position 2 of 3",
        " ETA        ~0:18  (an estimate)",
        " waited     0:18 of 5:00",
    ]
    assert max(map(len, lines)) <= 60


def test_the_time_of_arrival_is_the_daemons(viewed: Any, sample: Any, drawn: Drawn) -> None:
    one = sample.request("q-1", "a", arrived_at="2026-11-30T14:02:13.402+00:00")
    assert drawn(viewed(sample.snapshot([sample.upstream("a")], [one])), "q-1")[1].endswith("14:02:13.402")


class TestJourney:
    STEPS = (
        Step(number=90, offset_ms=1, kind="queued", text="queued (depth 3)", position=3),
        Step(number=95, offset_ms=6310, kind="position", text="q-7f3a1c dispatched", position=2),
        Step(number=96, offset_ms=6311, kind="position", position=1),
    )

    def steps(self, lines: list[str]) -> list[str]:
        begin = next(index for index, line in enumerate(lines) if line.startswith("── journey"))
        return [line.strip() for line in lines[begin + 1 :] if line.lstrip().startswith("+")]

    def test_as_the_daemon_tells_it_and_what_came_since(self, viewed: Any, sample: Any, drawn: Drawn) -> None:
        one = sample.request("q-1", "a", arrived_ms=sample.NOW - 18_000)
        told = RequestDetail(now_ms=1, request=one, journey=list(self.STEPS))
        events = [
            sample.event(90, "queued", "a", "queued (depth 3)", request_id="q-1"),
            sample.event(98, "moved", "a", "moved to the front", request_id="q-1"),
            sample.event(99, "queued", "a", "queued (depth 4)", request_id="q-2"),
        ]
        known = viewed(sample.snapshot([sample.upstream("a")], [one], events))
        assert self.steps(drawn(known, "q-1", told=told)) == [
            "+0.000s  accepted",
            "+0.001s  queued (depth 3), position 3",
            "+6.310s  position 2  (q-7f3a1c dispatched)",
            "+6.311s  position 1",
            "+15.000s  moved to the front",
        ]
        assert self.steps(drawn(known, "q-1")) == [
            "+0.000s  accepted",
            "+15.000s  queued (depth 3)",
            "+15.000s  moved to the front",
        ]

    def test_without_room_the_newest_steps_are_shown(self, viewed: Any, sample: Any, drawn: Drawn) -> None:
        one = sample.request("q-1", "a")
        steps = [Step(number=n, offset_ms=n * 1000, kind="position", position=100 - n) for n in range(1, 90)]
        told = RequestDetail(now_ms=1, request=one, journey=steps)
        lines = drawn(viewed(sample.snapshot([sample.upstream("a")], [one])), "q-1", room=15, told=told)
        assert len(lines) == 15
        assert self.steps(lines)[-1].endswith("position 11")

    def test_one_that_only_the_daemon_knows(self, view: View, sample: Any, drawn: Drawn) -> None:
        told = RequestDetail(now_ms=1, request=sample.request("q-old", "ha-llm", state="done", outcome="queue_full"))
        assert "ended: queue_full" in drawn(view, "q-old", told=told)[0]
        assert "Nothing is known of q-other" in drawn(view, "q-other", told=told)[1]
        assert "Nothing is known of q-old" in drawn(view, "q-old")[1]


@pytest.mark.parametrize(
    ("told", "stale"),
    [
        ({"position": 2}, False),
        ({"position": 3}, True),
        ({"position": None}, True),
        ({"position": 2, "state": "running"}, True),
        ({"position": 9, "id": "q-other"}, False),
    ],
)
def test_a_journey_is_stale_when_the_request_stands_elsewhere(view: View, sample: Any, told: Any, stale: bool) -> None:
    request = sample.request(told.get("id", "q-7f3a24"), "ha-llm", state=told.get("state", "waiting"))
    detail = RequestDetail(now_ms=1, request=request, position=told["position"])
    assert is_stale(State(detail="q-7f3a24", told=detail), view) is stale
    assert not is_stale(State(detail="q-7f3a24"), view)
    assert not is_stale(State(detail="q-none", told=detail), view)


def test_others_of_the_session(viewed: Any, sample: Any, drawn: Drawn) -> None:
    now = sample.NOW
    requests = [
        sample.request("q-1", "a", session="s", arrived_ms=now - 5000),
        sample.request("q-2", "a", session="s", arrived_ms=now - 4000, order=2),
        sample.request("q-3", "a", session="other", order=3),
        sample.request(
            "q-4", "a", session="s", state="done", outcome="completed", arrived_ms=now - 20_000,
            dispatched_ms=now - 18_000, ended_ms=now - 9200, output_tokens=1204,
        ),
    ]  # fmt: skip
    known = viewed(sample.snapshot([sample.upstream("a")], requests))
    older = sample.request("q-0", "a", session="s", state="done", outcome="client_gone", ended_ms=1)
    told = RequestDetail(now_ms=1, request=requests[0], of_session=[requests[3], older])
    lines = drawn(known, "q-1", told=told)
    begin = next(index for index, line in enumerate(lines) if "others of this session" in line)
    assert lines[begin + 1 :] == [
        " q-2          waiting         waits 0:04",
        " q-4          completed       waited 2.0s  ran 8.8s  1,204 tok",
        " q-0          client_gone     waited 0.0s  ran -",
    ]
    assert not any("others" in line for line in drawn(known, "q-3"))


def test_what_is_shown_of_an_id_can_be_typed(viewed: Any, sample: Any, drawn: Drawn) -> None:
    ids = ("req_0123456789abcdef", "req_0123456789abXdef")
    others = [sample.request(one, "a", session="s", state="done", ended_ms=2) for one in ids]
    own = sample.request("q-1", "a", session="s")
    told = RequestDetail(now_ms=1, request=own, of_session=others)
    lines = drawn(viewed(sample.snapshot([sample.upstream("a")], [own])), "q-1", told=told)
    assert [line.split()[0] for line in lines[-2:]] == ["req_0123456789abc", "req_0123456789abX"]
