"""Turns a whole OpenAI chat completion into an Anthropic message.

What a field may look like is told in `piece`; half a tool call at the end of an answer that was cut short is left out.
"""

from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec

from llmgate.errors import UpstreamFailed
from llmgate.protocols.call_piece import CallPiece
from llmgate.protocols.document import is_object, read_object
from llmgate.protocols.fault import fault_status, is_fault
from llmgate.protocols.seam import whole
from llmgate.protocols.translate.asked import Asked
from llmgate.protocols.translate.call import Call
from llmgate.protocols.translate.frames import SIGNATURE
from llmgate.protocols.translate.ids import call_id, message_id
from llmgate.protocols.translate.piece import Kind, called, first_choice, spoken
from llmgate.protocols.translate.reason import Finish
from llmgate.protocols.translate.usage import Usage
from llmgate.protocols.upstream_error import UpstreamTold

_Block = dict[str, Any]


def answer(body: bytes, asked: Asked, request_id: str) -> bytes:
    """The message as JSON; UpstreamFailed where the body holds none. For `request_id` see MessageStream."""
    document = _read(body)
    choice = first_choice(document) or {}
    message = choice.get("message")
    if not isinstance(message, dict):
        raise UpstreamFailed("llmgate: the upstream answered without a message (UPSTREAM_ERROR)")
    usage, finish = Usage(), Finish(asked.stop_sequences)
    usage.read(document.get("usage"))
    finish.read(choice)
    said = _said(message, usage, finish)
    calls = _calls(list(called(message)), usage, finish, request_id)
    stop = finish.decide(calls=bool(calls))
    return msgspec.json.encode(
        {
            "id": message_id(request_id),
            "type": "message",
            "role": "assistant",
            "model": whole(asked.model or _model(document)),
            "content": said + calls,
            "stop_reason": stop.reason,
            "stop_sequence": stop.sequence,
            "usage": usage.render(asked.input_estimate),
        }
    )


def _read(body: bytes) -> dict[str, Any]:
    document = read_object(body)
    if document is None:
        raise UpstreamFailed("llmgate: the upstream answered with what is no JSON object (UPSTREAM_ERROR)")
    if is_fault(document):
        raise UpstreamTold(fault_status(document), body)
    return document


def _model(document: dict[str, Any]) -> str:
    model = document.get("model")
    return model if isinstance(model, str) else ""


def _said(message: dict[str, Any], usage: Usage, finish: Finish) -> list[_Block]:
    """Blocks of thinking and text; pieces of one kind that follow each other are one block."""
    pieces = list(spoken(message))
    for piece in pieces:
        usage.count(piece.text)
        finish.refused |= piece.refusal
    return [
        _spoken_block(kind, whole("".join(piece.text for piece in same)))
        for kind, same in groupby(pieces, key=attrgetter("kind"))
    ]


def _spoken_block(kind: Kind, text: str) -> _Block:
    signed = {"signature": SIGNATURE} if kind == "thinking" else {}
    return {"type": kind, kind: text, **signed}


def _calls(pieces: list[CallPiece], usage: Usage, finish: Finish, request_id: str) -> list[_Block]:
    blocks: list[_Block] = []
    ids = {""}
    for piece in pieces:
        usage.count(piece.arguments)
        call = Call()
        call.add(piece)
        arguments = call.arguments.take()
        rest = call.end(cut_short=finish.cut_short, last=piece is pieces[-1])
        given = (arguments + (rest or "") or "{}").encode()
        if rest is None or not is_object(given):
            continue
        if call.id in ids:
            call.id = call_id(request_id, len(blocks) + 1)
        ids.add(call.id)
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": msgspec.Raw(given)})
    return blocks
