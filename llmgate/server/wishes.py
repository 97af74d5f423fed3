"""What a request asks of the gate itself, in `llmgate-*` headers; what is not offered is a BadRequest."""

from typing import Literal, cast

import msgspec

from llmgate.config.units import BadValue, parse_duration
from llmgate.errors import BadRequest
from llmgate.protocols.surface import Manner
from llmgate.server.asgi import Headers

QueueEvents = Literal["on", "comment", "off"]
Keepalive = Literal["comment", "chunk", "off"]


class Wishes(msgspec.Struct, frozen=True):
    """`max_wait` in seconds (0: a slot now or QUEUE_FULL). `queue_events` on: frames of the surface; comment: comments
    only; off: nothing of ours before the upstream's own answer, not even a heartbeat; None: as the settings say."""

    max_wait: float | None = None
    queue_events: QueueEvents | None = None


_NONE = Wishes()


def read_wishes(headers: Headers) -> Wishes:
    """The wishes in a request's headers."""
    max_wait, events = headers.get(b"llmgate-max-wait"), headers.get(b"llmgate-queue-events")
    if max_wait is None and events is None:
        return _NONE
    return Wishes(_read_wait(max_wait), _read_events(events))


def manner_of(wish: QueueEvents | None, keepalive: Keepalive | None) -> Manner | None:
    """How a stream is told of its wait; None: not at all.

    `keepalive` is the setting `openai_keepalive`, None on surfaces that it does not concern. A client's own wish goes
    before it, but `on` gives no more than the surface is safe with: comments, unless the settings say chunks.
    """
    if wish == "off" or (wish is None and keepalive == "off"):
        return None
    if wish == "comment" or keepalive in ("comment", "off"):
        return "comments"
    return "chunks" if keepalive == "chunk" else "frames"


def _read_wait(value: bytes | None) -> float | None:
    if value is None:
        return None
    try:
        return parse_duration(value.decode("ascii").strip())
    except (BadValue, UnicodeDecodeError):
        raise BadRequest(
            "llmgate: the header llmgate-max-wait takes a duration such as 30s or 0 (BAD_REQUEST)"
        ) from None


def _read_events(value: bytes | None) -> QueueEvents | None:
    if value is None:
        return None
    word = value.strip().lower()
    if word not in (b"on", b"comment", b"off"):
        raise BadRequest("llmgate: the header llmgate-queue-events takes on, comment or off (BAD_REQUEST)")
    return cast("QueueEvents", word.decode())
