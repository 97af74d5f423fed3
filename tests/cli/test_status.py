"""`llmgate status`: the screen of the man page, its JSON, its exit statuses."""

import itertools
import json
from typing import Any

import msgspec
import pytest
import typer

from llmgate.cli.status import only, screen
from tests.cli.conftest import status_of, upstream


def example() -> Any:
    return status_of(
        upstream(
            "ha-llm",
            state="full",
            running=1,
            max_queued=16,
            waiting=3,
            oldest_arrived_ms=59_000,
            p50_wait_ms=5_700,
            p95_wait_ms=38_000,
            queue_full=2,
            failed=5,
            served=1204,
        ),
        upstream("reasoning", running=7, draining=1, max_concurrent=8, max_queued=64, p50_wait_ms=0, queue_timeout=4),
        upstream("open", max_concurrent=0, running=3),
        upstream("vllm-a100", state="down", max_concurrent=8, detail="refused\x1b[2J"),
        upstream("gone", state="down", waiting=2, detail="no", alarms=["one", "b"]),
    )


def test_the_screen() -> None:
    assert screen(example()) == [
        "● llmgate 0.1.0, up 1:05, http://127.0.0.1:8080, config /etc/llmgate/llmgate.toml",
        "UPSTREAM   STATE  RUN/SLOTS  WAIT/MAX  OLDEST  P50 WAIT  P95 WAIT  FULL  TIMEOUT  FAILED  SERVED",
        "ha-llm     full   1/1        3/16      41s     5.7s      38s       2     0        5       1204",
        (
            "reasoning  ok     8/8        0/64      -       0s        -         0     4        0       0       "
            "1 slot not free yet"
        ),
        "open       ok     3/∞        0/∞       -       -         -         0     0        0       0       not gated",
        "vllm-a100  down   0/8        0/∞       -       -         -         0     0        0       0       refused?[2J",
        "gone       down   0/1        2/∞       -       -         -         0     0        0       0       no; one; b",
    ]


def test_those_that_were_refused_have_a_column_where_there_are_any() -> None:
    title, first, second = screen(status_of(upstream("a", refused=3), upstream("b")))[1:]
    assert title.split()[-4:] == ["TIMEOUT", "REFUSED", "FAILED", "SERVED"]
    assert (first.split()[-3], second.split()[-3]) == ("3", "0")


def test_a_daemon_that_stops_says_so() -> None:
    line = screen(status_of(state="stopping", config="", listen=["unix:/s", "[::1]:80"]))[0]
    assert line == "● llmgate 0.1.0, up 1:05, unix:/s, http://[::1]:80, stopping"


def test_colour_only_where_it_is_wanted() -> None:
    assert "\x1b[33mfull\x1b[0m" in screen(example(), color=True)[2]
    assert "\x1b" not in "".join(screen(example()))


def test_the_command_prints_the_screen(run: Any, daemon: Any) -> None:
    daemon.status = example()
    result = run("status", "--socket", daemon.socket)
    assert (result.status, result.err) == (0, "")
    assert result.out.splitlines() == screen(example())


def test_one_upstream(run: Any, daemon: Any) -> None:
    daemon.status = example()
    result = run("status", "reasoning", "--socket", daemon.socket)
    assert len(result.out.splitlines()) == 3
    assert "reasoning" in result.out


def test_an_unknown_upstream_is_an_error_that_names_the_known(run: Any, daemon: Any) -> None:
    daemon.status = example()
    result = run("status", "nobody", "--socket", daemon.socket)
    assert (result.status, result.out) == (1, "")
    assert "ha-llm, reasoning, open, vllm-a100, gone" in result.err


def test_json_is_the_wire_s_and_begins_with_the_schema(run: Any, daemon: Any) -> None:
    daemon.status = example()
    result = run("status", "--json", "ha-llm", "--socket", daemon.socket)
    assert result.out.startswith('{"schema": 1, ')
    assert [view["name"] for view in json.loads(result.out)["upstreams"]] == ["ha-llm"]


@pytest.mark.parametrize(("name", "status"), [("vllm-a100", 4), ("gone", 4), ("ha-llm", 0), (None, 4)])
def test_check_tells_of_an_upstream_that_is_down(run: Any, daemon: Any, name: str | None, status: int) -> None:
    daemon.status = example()
    assert run("status", *([name] if name else []), "--check", "--socket", daemon.socket).status == status


def test_check_tells_of_a_server_that_is_down_while_its_upstream_drains(run: Any, daemon: Any) -> None:
    sound = example()
    drains = upstream("drains", state="draining", up=False, detail="it takes no connection")
    daemon.status = msgspec.structs.replace(sound, upstreams=[sound.upstreams[0], drains])
    assert run("status", "--check", "--socket", daemon.socket).status == 4
    assert run("status", sound.upstreams[0].name, "--check", "--socket", daemon.socket).status == 0


def test_a_quiet_check_tells_by_its_exit_status_only(run: Any, daemon: Any) -> None:
    daemon.status = example()
    at = ("--socket", daemon.socket)
    assert run("status", "--check", "-q", *at) == (4, "", "")
    assert run("status", "-q", *at).out
    assert json.loads(run("status", "--check", "-q", "--json", *at).out)["upstreams"]
    assert "leave out --watch" in run("status", "--check", "--watch", "1", *at).err


def test_without_check_a_down_upstream_is_no_failure(run: Any, daemon: Any) -> None:
    daemon.status = example()
    assert run("status", "--socket", daemon.socket).status == 0


def test_watch_shows_it_again(run: Any, daemon: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-c is tried in tests/e2e/cli."""
    daemon.status = example()
    naps = itertools.count()

    def sleep(seconds: float) -> None:
        assert seconds == 2
        if next(naps) == 2:
            raise typer.Exit

    monkeypatch.setattr("time.sleep", sleep)
    result = run("status", "--watch", "2", "--socket", daemon.socket)
    assert (result.status, result.out.count("UPSTREAM ")) == (0, 3)
    assert "\x1b" not in result.out


def test_only_leaves_the_rest_as_it_is() -> None:
    assert only(example(), None) == example()
    assert only(example(), "open").uptime_ms == 65_000


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_narrow_terminal_has_the_remarks_below(width: int) -> None:
    lines = screen(example(), width=width)
    table, remarks = lines[1:7], lines[7:]
    assert max(map(len, table)) <= width
    assert remarks == [
        "reasoning: 1 slot not free yet",
        "open: not gated",
        "vllm-a100: refused?[2J",
        "gone: no; one; b",
    ]
    assert all(title in table[0] for title in ("STATE", "RUN/SLOTS", "WAIT/MAX", "FULL", "FAILED"))


def test_a_wide_terminal_has_all_of_it_in_the_table() -> None:
    assert screen(example(), width=140) == screen(example())
