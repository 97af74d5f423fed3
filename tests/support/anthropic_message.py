"""Puts an Anthropic stream together to the message that a client sees, and lists what a strict client would not take.

Written from the protocol and without our own code, on top of `anthropic_check`.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from anthropic_check import faults_of, read_events

ENDS = (b"event: message_delta\ndata: {", b"event: message_stop\ndata: {")


@dataclass
class Seen:
    content: list[dict[str, Any]] = field(default_factory=list)
    """Blocks as an answer that is not streamed has them, without signatures."""
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: dict[str, int] = field(default_factory=dict)
    model: str | None = None
    error: dict[str, Any] | None = None
    faults: list[str] = field(default_factory=list)


def seen_in(stream: bytes) -> Seen:
    """A stream that ended with message_stop or with an error."""
    events = read_events(stream)
    if events and events[-1][0] == "error":
        return _seen_broken(stream, events)
    seen = Seen(faults=faults_of(stream))
    for _, data in events:
        _take(seen, data)
    _finish(seen)
    return seen


def _seen_broken(stream: bytes, events: list[tuple[str | None, Any]]) -> Seen:
    """An error ends a stream anywhere: until there it must be the beginning of a good one."""
    seen = Seen()
    for _, data in events[:-1]:
        _take(seen, data)
    name, error = events[-1]
    if error.get("type") != name or not isinstance(error["error"]["type"], str) or not error["error"]["message"]:
        seen.faults.append("the error event is malformed")
    seen.error = error["error"]
    if any(name in {"error", "message_stop", "message_delta"} for name, _ in events[:-1]):
        seen.faults.append("an end before the error")
    missing = {
        "no message_start",
        "no message_stop",
        "0 message_delta",
        "the stop_reason is None",
        "a block is left open",
    }
    good = stream[: stream.rindex(b"event: error\n")]
    seen.faults += [fault for fault in faults_of(good) if fault not in missing]
    for block in seen.content:
        block.pop("json", None)
        block.pop("signature", None)
    return seen


def _take(seen: Seen, data: dict[str, Any]) -> None:
    match data:
        case {"type": "message_start", "message": message}:
            seen.model = message["model"]
            seen.usage |= message["usage"]
        case {"type": "content_block_start", "content_block": block}:
            seen.content.append({**block, "json": ""} if block["type"] == "tool_use" else dict(block))
            if block["type"] == "tool_use" and (not block["id"] or not block["name"] or block["input"] != {}):
                seen.faults.append("a malformed tool_use")
        case {"type": "content_block_delta", "delta": delta}:
            _take_delta(seen.content[-1], delta, seen.faults)
        case {"type": "message_delta", "delta": delta, "usage": usage}:
            seen.stop_reason, seen.stop_sequence = delta["stop_reason"], delta["stop_sequence"]
            seen.usage |= usage


def _take_delta(block: dict[str, Any], delta: dict[str, Any], faults: list[str]) -> None:
    match delta:
        case {"type": "input_json_delta", "partial_json": str(piece)}:
            block["json"] += piece
        case {"type": "text_delta", "text": str(piece)}:
            block["text"] += piece
        case {"type": "thinking_delta", "thinking": str(piece)}:
            block["thinking"] += piece
        case {"type": "signature_delta", "signature": str(piece)}:
            block["signature"] += piece
        case _:
            faults.append(f"a malformed delta {delta}")
            return
    if not piece:
        faults.append("an empty delta")


def _finish(seen: Seen) -> None:
    ids = [block["id"] for block in seen.content if block["type"] == "tool_use"]
    if len(set(ids)) < len(ids):
        seen.faults.append("two tool calls have one id")
    for block in seen.content:
        if block["type"] == "tool_use":
            _read_input(block, seen)
        elif not block[block["type"]]:
            seen.faults.append("an empty block")
        if block["type"] == "thinking" and not block.pop("signature"):
            seen.faults.append("thinking without a signature")
    if bool(ids) != (seen.stop_reason == "tool_use") and seen.stop_reason not in {"max_tokens", "refusal"}:
        seen.faults.append(f"{len(ids)} tool calls and the stop_reason {seen.stop_reason}")
    if (seen.stop_reason == "stop_sequence") < (seen.stop_sequence is not None):
        seen.faults.append("a stop_sequence and another stop_reason")
    if not {"input_tokens", "output_tokens"} <= seen.usage.keys() or min(seen.usage.values()) < 0:
        seen.faults.append("the usage is incomplete")


def _read_input(block: dict[str, Any], seen: Seen) -> None:
    """Half a call is left as it is where the answer was cut short, as Anthropic does."""
    text = block.pop("json")
    try:
        block["input"] = json.loads(text or "{}")
    except ValueError:
        block["input"] = text
        if seen.stop_reason not in {"max_tokens", "refusal"} or block is not seen.content[-1]:
            seen.faults.append("the input of a tool call is not JSON")
        return
    if not isinstance(block["input"], dict):
        seen.faults.append("the input of a tool call is no object")
