"""Blocks: the order of blocks, and which of them waits. Whole streams: see test_stream."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from llmgate.protocols.call_piece import CallPiece
from llmgate.protocols.translate.blocks import Blocks
from llmgate.protocols.translate.piece import Spoken


def events(frames: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(frame.partition(b"\ndata: ")[2]) for frame in frames]


def kinds(frames: list[bytes]) -> list[str]:
    return [f"{event['type'].removeprefix('content_block_')} {event['index']}" for event in events(frames)]


def test_a_call_behind_one_that_is_open_waits() -> None:
    blocks, out = Blocks("r"), []
    blocks.call(CallPiece(0, "x", "f", '{"a"'), out)
    blocks.call(CallPiece(1, "y", "g", "{}"), out)
    blocks.say(Spoken("text", "t"), out)
    assert kinds(out) == ["start 0", "delta 0"]
    blocks.call(CallPiece(0, "", "", ":1}"), out)
    assert kinds(out[2:]) == ["delta 0", "stop 0", "start 1", "delta 1", "stop 1", "start 2", "delta 2"]
    blocks.end(out, cut_short=False)
    assert kinds(out[9:]) == ["stop 2"]
    assert blocks.calls == 2


def test_a_call_without_a_name_keeps_what_follows_waiting() -> None:
    blocks, out = Blocks("r"), []
    blocks.call(CallPiece(0, "x", "", "{}"), out)
    blocks.say(Spoken("text", "t"), out)
    assert out == []
    blocks.call(CallPiece(0, "", "f", ""), out)
    assert kinds(out) == ["start 0", "delta 0", "stop 0", "start 1", "delta 1"]


@given(st.lists(st.sampled_from(["f", "g", "h", "text", "thinking"]), max_size=20))
def test_each_block_is_opened_once_and_closed_in_its_turn(order: list[str]) -> None:
    """Pieces of three calls, of text and of thinking in any order."""
    blocks, out = Blocks("r"), []
    left = {name: ["", "{", '"x"', ":", "0", "}"] for name in "fgh"}
    begun = []
    for kind in [*order, *"fgh" * 6]:
        if kind in ("text", "thinking"):
            blocks.say(Spoken("text" if kind == "text" else "thinking", "a"), out)
        elif left[kind]:
            begun += [kind] if kind not in begun else []
            blocks.call(CallPiece("fgh".index(kind), f"id_{kind}", kind, left[kind].pop(0)), out)
    blocks.end(out, cut_short=False)
    found: list[dict[str, Any]] = []
    is_open = False
    for event in events(out):
        match event:
            case {"type": "content_block_start", "content_block": block}:
                assert not is_open
                found.append({**block, "pieces": ""})
            case {"delta": {"partial_json": piece} | {"text": piece}}:
                found[-1]["pieces"] += piece
        assert event["index"] == len(found) - 1
        is_open = event["type"] != "content_block_stop"
    assert not is_open
    calls = [block for block in found if block["type"] == "tool_use"]
    assert [(block["name"], block["id"], block["pieces"]) for block in calls] == [
        (name, f"id_{name}", '{"x":0}') for name in begun
    ]
    assert sum(len(block["pieces"]) for block in found if block["type"] == "text") == order.count("text")
