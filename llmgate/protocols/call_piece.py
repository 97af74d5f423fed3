"""A piece of a tool call in OpenAI's streams, and the one rule of which call it belongs to.

Servers differ: some use one index for several calls, some repeat id or name in every piece, some tell no id, and vLLM
was seen to make a new id for every piece, of which the first has the name alone.
"""

from typing import Any

import msgspec

from llmgate.protocols.document import write_object
from llmgate.protocols.seam import whole


class CallPiece(msgspec.Struct, frozen=True):
    """A piece of a tool call; "" where it tells nothing."""

    index: int | None
    id: str
    name: str
    arguments: str


def piece_of(entry: dict[str, Any], function: Any) -> CallPiece:
    """An entry of a delta's tool_calls, and its function, which may be anything."""
    function = function if isinstance(function, dict) else {}
    index = entry.get("index")
    identity = entry.get("id")
    return CallPiece(
        index=index if isinstance(index, int) else None,
        id=str(identity) if isinstance(identity, int) else whole(_text(identity)),
        name=whole(_text(function.get("name"))),
        arguments=arguments_of(function.get("arguments")),
    )


def arguments_of(told: Any) -> str:
    """As a text; some servers send an object."""
    return write_object(told) if isinstance(told, dict) else _text(told)


class KnownCall(msgspec.Struct, frozen=True):
    """What is known of a call so far."""

    id: str
    name: str
    begun: bool
    """Some of its arguments have come."""
    complete: bool
    """The object of its arguments has ended."""


def goes_on(call: KnownCall, piece: CallPiece) -> bool:
    """Whether a piece at the call's index belongs to it: a new id begins a new call, and so does a new name.

    But a piece with a new id and no name goes on, where it brings arguments to a name or comes amid them.
    """
    if piece.id and call.id and piece.id != call.id:
        awaited = call.begun or (call.name != "" and piece.arguments != "")
        return not piece.name and not call.complete and awaited
    if not piece.name or not call.name or (piece.id and call.id):
        return True
    if piece.id:
        return piece.name == call.name and not call.complete
    if not call.begun:
        return piece.index is not None or piece.name == call.name
    return piece.name == call.name and not (call.complete and piece.arguments.strip())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
