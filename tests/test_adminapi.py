"""The wire types of the admin API: an older viewer reads a newer daemon."""

import msgspec
import pytest

from llmgate.adminapi import (
    REQUEST_STATES,
    SCHEMA,
    UPSTREAM_STATES,
    EventView,
    FeedItem,
    Requests,
    RequestView,
    Status,
    UpstreamView,
    View,
    as_plain,
    encode,
)

UPSTREAM = UpstreamView(name="a", state="idle", url="http://a", max_concurrent=1)
REQUEST = RequestView(id="r", upstream="a", state="waiting", order=1, model="m", api="chat", path="/p", stream=True)
EVENT = EventView(number=1, at="2026-11-30T00:00:00Z", now_ms=5, kind="queued", upstream="a")
STATUS = Status(
    version="1", pid=1, started_at="", uptime_ms=1, now_at="", now_ms=1, state="running",
    listen=[], config="", socket="", upstreams=[UPSTREAM],
)  # fmt: skip
ITEM = FeedItem(type="event", number=1, now_ms=5, event=EVENT, upstream=UPSTREAM, request=REQUEST, status=STATUS)
VIEWS: list[View] = [UPSTREAM, REQUEST, EVENT, STATUS, ITEM, Requests(now_ms=1, requests=[REQUEST])]


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: type(view).__name__)
def test_a_view_survives_the_wire(view: View) -> None:
    data = encode(view)
    assert b"\n" not in data
    assert msgspec.json.decode(data, type=type(view)) == view
    assert msgspec.convert(as_plain(view), type(view)) == view


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: type(view).__name__)
def test_unknown_fields_are_passed_over(view: View) -> None:
    assert msgspec.json.decode(encode(view)[:-1] + b',"new":{"a":[1]}}', type=type(view)) == view


@pytest.mark.parametrize("view", [STATUS, ITEM, Requests(now_ms=1, requests=[])])
def test_what_is_asked_for_begins_with_the_schema(view: View) -> None:
    assert encode(view).startswith(b'{"schema":%d,' % SCHEMA)


def test_the_words_of_the_states() -> None:
    assert set(REQUEST_STATES) == {"waiting", "running", "draining", "done"}
    assert {"idle", "ok", "full", "down", "paused", "draining", "drained"} == set(UPSTREAM_STATES)


def test_one_that_is_down_and_does_not_hold_its_queue_is_remarked() -> None:
    strict = msgspec.structs.replace(UPSTREAM, holds=False, detail="it takes no connection", alarms=["odd"])
    assert strict.remarks == "it takes no connection; odd"
    down = msgspec.structs.replace(strict, up=False)
    assert down.remarks == "it takes no connection; requests fail meanwhile (on_down); odd"
    assert msgspec.structs.replace(down, holds=True).remarks == "it takes no connection; odd"
