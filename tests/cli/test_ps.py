"""`llmgate ps`: who waits, in order, then who runs, then who is done."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.cli.ps import in_order, places, rows
from tests.cli.conftest import request


def requests() -> list[Any]:
    return [
        request("r-done", state="done", arrived_ms=1_000, dispatched_ms=2_000, ended_ms=9_000, outcome="completed"),
        request("r-left", state="done", arrived_ms=1_000, ended_ms=3_500, outcome="abandoned"),
        request("r-run", state="running", arrived_ms=60_000, dispatched_ms=65_700, output_tokens=412),
        request("r-3", order=9, arrived_ms=97_000, eta_ms=12_000),
        request("r-b", order=5, arrived_ms=90_000, upstream="b"),
        request(
            "r-1",
            order=7,
            arrived_ms=59_000,
            model="a-model-with-a-name-that-is-much-too-long",
            client="claude-code",
            session="a61e6e40-7d2c-4a55\x1b[2J",
            purpose="compaction",
        ),
    ]


def test_the_list(run: Any, daemon: Any) -> None:
    daemon.requests = requests()
    lines = run("ps", "--socket", daemon.socket).out.splitlines()
    assert lines[0].split() == [
        "POS", "ID", "UPSTREAM", "STATE", "WAITED", "ETA", "RUN", "MODEL", "CLIENT", "SESSION", "PURPOSE", "API",
        "OUT",
    ]  # fmt: skip
    assert [line.split()[:7] for line in lines[1:]] == [
        ["1", "r-1", "a", "waiting", "41s", "-", "-"],
        ["2", "r-3", "a", "waiting", "3s", "~12s", "-"],
        ["1", "r-b", "b", "waiting", "10s", "-", "-"],
        ["-", "r-run", "a", "running", "5.7s", "-", "34s"],
    ]
    assert "\x1b" not in "".join(lines)
    assert "a-model-with-a-name-that-is-muc~" in lines[1]
    assert lines[4].split()[-1] == "412"


def test_with_all_the_ended_ones_follow_newest_first(run: Any, daemon: Any) -> None:
    daemon.requests = requests()
    lines = run("ps", "-a", "--socket", daemon.socket).out.splitlines()
    assert [line.split()[1] for line in lines[-2:]] == ["r-done", "r-left"]
    assert [line.split()[3:7] for line in lines[-2:]] == [
        ["completed", "1s", "-", "7s"],
        ["abandoned", "2.5s", "-", "-"],
    ]
    assert len(lines) == 7


def test_filters_are_the_daemon_s_work(run: Any, daemon: Any) -> None:
    daemon.requests = requests()
    result = run("ps", "--state", "waiting", "--upstream", "b", "--json", "--socket", daemon.socket)
    assert daemon.asked == ["/v1/requests?state=waiting&upstream=b"]
    assert result.out.startswith('{"schema": 1, ')
    assert [view["id"] for view in json.loads(result.out)["requests"]] == ["r-b"]


def test_by_client_model_and_session_with_the_place_in_the_whole_line(run: Any, daemon: Any) -> None:
    daemon.requests = [request("r-1", order=1), request("r-2", order=2, client="dsh", model="m", session="s")]
    options = ("--client", "dsh", "--model", "m", "--session", "s")
    lines = run("ps", *options, "--socket", daemon.socket).out.splitlines()
    assert daemon.asked == ["/v1/requests?model=m&client=dsh&session=s", "/v1/requests?state=waiting"]
    assert [line.split()[:2] for line in lines[1:]] == [["2", "r-2"]]


def test_json_is_in_the_same_order(run: Any, daemon: Any) -> None:
    daemon.requests = requests()
    result = run("--json", "ps", "--all", "--socket", daemon.socket)
    ids = [view["id"] for view in json.loads(result.out)["requests"]]
    assert ids == ["r-1", "r-3", "r-b", "r-run", "r-done", "r-left"]


@pytest.mark.parametrize(("option", "lines"), [((), 1), (("-q",), 0)])
def test_nobody_there_is_a_header_or_nothing(run: Any, daemon: Any, option: tuple[str, ...], lines: int) -> None:
    result = run("ps", *option, "--socket", daemon.socket)
    assert (result.status, len(result.out.splitlines())) == (0, lines)


VIEWS = st.builds(
    request,
    st.uuids().map(str),
    state=st.sampled_from(["waiting", "running", "draining", "done"]),
    upstream=st.sampled_from(["a", "b"]),
    order=st.integers(0, 50),
)


@given(st.lists(VIEWS, max_size=20))
def test_positions_count_from_one_in_each_upstream(views: list[Any]) -> None:
    ordered = in_order(views)
    positions: dict[str, list[str]] = {"a": [], "b": []}
    for view, row in zip(ordered, rows(ordered, 0, places(ordered)), strict=True):
        if view.state == "waiting":
            positions[view.upstream].append(str(row[0]))
        else:
            assert row[0] == "-"
    for name, shown in positions.items():
        assert shown == [str(number + 1) for number in range(len(shown))], name


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 400])
def test_on_a_terminal_it_fits(run: Any, daemon: Any, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    daemon.requests = requests()
    monkeypatch.setattr("llmgate.cli.ps.terminal_width", lambda: width)
    lines = run("ps", "-a", "--socket", daemon.socket).out.splitlines()
    assert max(map(len, lines)) <= max(width, 50)
    assert [line.split()[3] for line in lines[1:3]] == ["waiting", "waiting"]
    assert ("API" in lines[0]) == (width == 400)


def test_a_cut_id_can_be_typed(run: Any, daemon: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = ["req_cb7f3a21d94e4b", "req_cb7f3a21d94eZb", "req_e"]
    daemon.requests = [request(one, order=n, model="qwen2.5:3b-instruct-q8") for n, one in enumerate(ids)]
    monkeypatch.setattr("llmgate.cli.ps.terminal_width", lambda: 60)
    shown = [line.split()[1] for line in run("ps", "--socket", daemon.socket).out.splitlines()[1:]]
    assert shown == ["req_cb7f3a21d94e4", "req_cb7f3a21d94eZ", "req_e"]


def test_at_80_columns_it_still_says_who(run: Any, daemon: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.requests = [request("q-7f3a21", client="claude-code", purpose="compaction", model="qwen2.5:3b-instruct")]
    monkeypatch.setattr("llmgate.cli.ps.terminal_width", lambda: 80)
    header, line = run("ps", "--socket", daemon.socket).out.splitlines()
    assert "MODEL" in header
    assert "claude-code" in line
    assert "qwen2.5:3b-instruct" in line
