"""The events of an Anthropic Messages stream, as bytes.

Source: Anthropic, "Streaming Messages".
"""

from typing import Any

import msgspec

from llmgate.protocols.translate.piece import Kind
from llmgate.protocols.translate.reason import Stop

SIGNATURE = "bGxtZ2F0ZQ=="
"""Every thinking block must be signed: clients take one without for broken off. Nobody checks this one."""

_DELTAS: dict[Kind, tuple[str, str]] = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}
_EMPTY: dict[Kind, dict[str, str]] = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
}


def message_start(message_id: str, model: str, input_estimate: int) -> bytes:
    """The numbers of its usage are set right by message_delta."""
    usage = {"input_tokens": input_estimate, "output_tokens": 0}
    message = {"id": message_id, "type": "message", "role": "assistant", "model": model, "content": []}
    return _frame("message_start", message={**message, "stop_reason": None, "stop_sequence": None, "usage": usage})


def spoken_start(index: int, kind: Kind) -> bytes:
    """Opens a block of text or thinking."""
    return _frame("content_block_start", index=index, content_block=_EMPTY[kind])


def spoken_delta(index: int, kind: Kind, text: str) -> bytes:
    """A piece of text or thinking."""
    name, field = _DELTAS[kind]
    return _delta(index, {"type": name, field: text})


def signature_delta(index: int) -> bytes:
    """The last piece of a thinking block."""
    return _delta(index, {"type": "signature_delta", "signature": SIGNATURE})


def call_start(index: int, identity: str, name: str) -> bytes:
    """Opens a tool call."""
    block = {"type": "tool_use", "id": identity, "name": name, "input": {}}
    return _frame("content_block_start", index=index, content_block=block)


def call_delta(index: int, arguments: str) -> bytes:
    """A piece of a tool call's arguments."""
    return _delta(index, {"type": "input_json_delta", "partial_json": arguments})


def block_stop(index: int) -> bytes:
    """Closes a block."""
    return _frame("content_block_stop", index=index)


def message_end(stop: Stop, usage: dict[str, int]) -> tuple[bytes, bytes]:
    """message_delta and message_stop."""
    delta = {"stop_reason": stop.reason, "stop_sequence": stop.sequence}
    return _frame("message_delta", delta=delta, usage=usage), _frame("message_stop")


def _delta(index: int, delta: dict[str, str]) -> bytes:
    return _frame("content_block_delta", index=index, delta=delta)


def _frame(name: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode({"type": name, **fields}))
