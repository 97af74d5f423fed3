"""What a request may ask of the gate in `llmgate-*` headers, and what it is told when it asks for something else."""

import contextlib
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from llmgate.errors import BadRequest
from llmgate.protocols.surface import Manner
from llmgate.server.wishes import Keepalive, QueueEvents, Wishes, manner_of, read_wishes

WAITS = [
    (b"30s", 30.0),
    (b"250ms", 0.25),
    (b"5m", 300.0),
    (b"1h", 3600.0),
    (b"0", 0.0),
    (b"0s", 0.0),
    (b"12", 12.0),
    (b"2.5", 2.5),
    (b"  7s\t", 7.0),
]
BAD_WAITS = [b"", b"soon", b"-1", b"-1s", b"nan", b"inf", b"1e400", b"30 s s", b"\xff", "½s".encode(), b"0x10", b"11y"]


@pytest.mark.parametrize(("value", "seconds"), WAITS)
def test_max_wait(value: bytes, seconds: float) -> None:
    assert read_wishes({b"llmgate-max-wait": value}) == Wishes(max_wait=seconds)


@pytest.mark.parametrize("value", BAD_WAITS)
def test_what_is_no_duration(value: bytes) -> None:
    with pytest.raises(BadRequest, match=r"header llmgate-max-wait takes a duration such as 30s or 0 \(BAD_REQUEST\)"):
        read_wishes({b"llmgate-max-wait": value})


@pytest.mark.parametrize(
    ("value", "events"), [(b"on", "on"), (b"comment", "comment"), (b"off", "off"), (b" Off ", "off"), (b"ON", "on")]
)
def test_queue_events(value: bytes, events: str) -> None:
    assert read_wishes({b"llmgate-queue-events": value}).queue_events == events


@pytest.mark.parametrize("value", [b"", b"true", b"onoff", b"\xff", b"on,off"])
def test_other_queue_events(value: bytes) -> None:
    with pytest.raises(BadRequest, match="header llmgate-queue-events takes on, comment or off"):
        read_wishes({b"llmgate-queue-events": value})


def test_who_wishes_nothing() -> None:
    assert read_wishes({b"user-agent": b"curl", b"llmgate-session": b"x"}) == Wishes(None, None)


def test_both_wishes() -> None:
    headers = {b"llmgate-max-wait": b"1m", b"llmgate-queue-events": b"comment"}
    assert read_wishes(headers) == Wishes(60.0, "comment")


@given(st.binary(max_size=30), st.one_of(st.none(), st.binary(max_size=10)))
@example(b"9" * 30, None)
def test_any_bytes_are_a_wish_or_a_bad_request(wait: bytes, events: bytes | None) -> None:
    headers = {b"llmgate-max-wait": wait} | ({b"llmgate-queue-events": events} if events is not None else {})
    with contextlib.suppress(BadRequest):
        wishes = read_wishes(headers)
        assert wishes.max_wait is not None
        assert 0 <= wishes.max_wait < math.inf
        assert wishes.queue_events in (None, "on", "comment", "off")


MANNERS: list[tuple[QueueEvents | None, Keepalive | None, Manner | None]] = [
    (None, None, "frames"),
    ("on", None, "frames"),
    ("comment", None, "comments"),
    ("off", None, None),
    (None, "comment", "comments"),
    ("on", "comment", "comments"),
    ("comment", "comment", "comments"),
    ("off", "comment", None),
    (None, "chunk", "chunks"),
    ("on", "chunk", "chunks"),
    ("comment", "chunk", "comments"),
    ("off", "chunk", None),
    (None, "off", None),
    ("on", "off", "comments"),
    ("comment", "off", "comments"),
    ("off", "off", None),
]


@pytest.mark.parametrize(("wish", "keepalive", "manner"), MANNERS)
def test_the_clients_wish_goes_before_the_setting(
    wish: QueueEvents | None, keepalive: Keepalive | None, manner: Manner | None
) -> None:
    assert manner_of(wish, keepalive) == manner
