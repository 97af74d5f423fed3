"""One request as the simulated server reads it, and what one way of speaking must bring to answer it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

WORDS = ["The", "queue", "is", "short", "and", "the", "answer", "is", "long,", "so", "wait", "for", "your", "turn."]


@dataclass(frozen=True)
class Call:
    """One request as a server reads it."""

    id: str
    model: str
    stream: bool
    tokens: int
    cut: bool
    """True when the request's own limit ends the answer."""
    prompt_tokens: int
    include_usage: bool = False

    @property
    def words(self) -> list[str]:
        return [WORDS[number % len(WORDS)] + " " for number in range(self.tokens)]


class BadCall(Exception):
    """The body is no request; the message says why."""


@dataclass(frozen=True)
class Dialect:
    """How one surface answers: `head`, a `token` for each word and `tail` make a stream; `whole` is the JSON.

    Its requests hold their text in the field `prompt`, and stream by themselves where `streams`.
    """

    head: Callable[[Call], bytes]
    token: Callable[[Call, str], bytes]
    tail: Callable[[Call], bytes]
    whole: Callable[[Call], bytes]
    error: Callable[[int, str], bytes]
    prompt: str = "messages"
    streams: bool = False
    stream_type: str = "text/event-stream"


def read_call(body: bytes, call_id: str, tokens: int, dialect: Dialect) -> Call:
    """Read a dialect's request; `tokens` is how many the server would say."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise BadCall("the body is not JSON") from None
    kind = list if dialect.prompt == "messages" else (str, list)
    if not isinstance(fields, dict) or not isinstance(fields.get(dialect.prompt), kind):
        raise BadCall(f"'{dialect.prompt}' is required")
    limit = _limit(fields, tokens)
    options = fields.get("stream_options")
    return Call(
        id=call_id,
        model=str(fields.get("model", "")),
        stream=fields.get("stream", dialect.streams) is True,
        tokens=min(limit, tokens),
        cut=limit < tokens,
        prompt_tokens=max(1, len(body) // 4),
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


def _limit(fields: dict[str, Any], tokens: int) -> int:
    """The request's own limit, under whichever name; `tokens` where it has none that can be read."""
    options = fields.get("options")
    if isinstance(options, dict):
        fields = fields | {"num_predict": options.get("num_predict")}
    named = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict")
    limit = next((fields[name] for name in named if fields.get(name)), None)
    return limit if isinstance(limit, int) and limit >= 1 else tokens


def as_json(value: Any) -> bytes:
    """Without blanks between its parts."""
    return json.dumps(value, separators=(",", ":")).encode()


def named_event(name: str, **fields: Any) -> bytes:
    """A server-sent event whose data says its name again."""
    return b"event: " + name.encode() + b"\ndata: " + as_json({"type": name, **fields}) + b"\n\n"
