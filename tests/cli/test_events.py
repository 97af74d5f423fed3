"""`llmgate events`: the line of an event, and which are shown; against a real daemon: tests/e2e/cli."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import typer

from llmgate.adminapi import EventView, FeedItem
from llmgate.cli.events import ALL_KEPT, Chosen, _since, line
from llmgate.errors import AdminRefusal
from tests.cli.conftest import FakeDaemon, Run, status_of, upstream

NOW = datetime(2026, 11, 30, 14, 2, 31, tzinfo=UTC)


def event(number: int = 1, **fields: Any) -> EventView:
    at = (NOW + timedelta(seconds=number)).isoformat()
    return EventView(**{"number": number, "at": at, "now_ms": 0, "kind": "queued", "upstream": "a"} | fields)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"text": "queued (depth 3)"}, "a queued (depth 3)"),
        (
            {"text": "dispatched after 5ms", "client": "web", "purpose": "title", "request_id": "req_1"},
            "a dispatched after 5ms (web title) req_1",
        ),
        ({"kind": "released", "word": "completed", "outcome": "completed"}, "a completed"),
        ({"kind": "thing_done"}, "a thing done"),
        ({"kind": "settings_reloaded", "upstream": "", "text": "reload: 1"}, "reload: 1"),
        ({"text": "queued", "client": "\x1b[2J"}, "a queued (?[2J)"),
    ],
)
def test_a_line(fields: dict[str, Any], said: str) -> None:
    moment = (NOW + timedelta(seconds=1)).astimezone()
    assert line(event(**fields)) == f"{moment:%H:%M:%S} {said}"


def test_which_are_shown() -> None:
    quiet, other = event(kind="released"), event(upstream="b", text="x")
    chosen = Chosen("a", None, 10, every=False)
    assert (chosen.shows(event(text="x")), chosen.shows(quiet), chosen.shows(other)) == (True, False, False)
    everything = Chosen(None, None, 10, every=True)
    assert (everything.shows(quiet), everything.shows(other)) == (True, True)


def test_of_the_past_the_newest_or_those_since_then() -> None:
    item = FeedItem(type="snapshot", number=9, now_ms=0, events=[event(number, text="x") for number in range(9)])
    assert [each.number for each in Chosen(None, None, 3, every=False).earlier(item)] == [6, 7, 8]
    late = Chosen(None, NOW + timedelta(seconds=7), None, every=False)
    assert [each.number for each in late.earlier(item)] == [7, 8]
    assert list(Chosen(None, None, 0, every=False).earlier(item)) == []


@pytest.mark.parametrize(
    ("chosen", "wanted"),
    [
        (Chosen(None, None, 300, every=True), 300),
        (Chosen(None, None, 0, every=True), 0),
        (Chosen(None, None, 10, every=False), ALL_KEPT),
        (Chosen("a", None, 10, every=True), ALL_KEPT),
        (Chosen(None, NOW, 10, every=True), ALL_KEPT),
        (Chosen(None, None, None, every=True), ALL_KEPT),
    ],
)
def test_how_far_back_is_asked(chosen: Chosen, wanted: int) -> None:
    assert chosen.wanted == wanted


@pytest.mark.parametrize(
    ("options", "latest"),
    [([], 10), (["-n", "3"], 3), (["--since", "5m"], None), (["--since", "5m", "-n", "3"], 3)],
)
def test_the_newest_of_those_since_then(
    run: Run, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch, options: list[str], latest: int | None
) -> None:
    seen: list[Chosen] = []

    async def follow(_: object, chosen: Chosen, *__: object, **___: object) -> None:
        seen.append(chosen)

    monkeypatch.setattr("llmgate.cli.events._follow", follow)
    assert run("events", *options, "--socket", daemon.socket).status == 0
    assert seen[0]._lines == latest


def test_one_that_a_reload_calls_otherwise() -> None:
    status = status_of(upstream("uno"), renamed={"one": "uno"})
    item = FeedItem(type="snapshot", number=9, now_ms=0, status=status)
    with pytest.raises(AdminRefusal, match="a reload calls it uno"):
        Chosen("one", None, 1, every=True).check(item)


def test_since_when() -> None:
    assert abs((datetime.now(UTC) - _since("10m")).total_seconds() - 600) < 60
    assert _since("2026-11-30T14:02:31Z") == NOW
    assert _since("2026-11-30T14:02:31").tzinfo is not None
    with pytest.raises(typer.BadParameter, match="must be a duration"):
        _since("yesterday")
