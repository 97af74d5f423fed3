"""Frames: each, byte for byte."""

from llmgate.protocols.translate import frames
from llmgate.protocols.translate.reason import Stop


def test_blocks() -> None:
    assert frames.spoken_start(0, "text") == (
        b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
        b'"content_block":{"type":"text","text":""}}\n\n'
    )
    assert frames.spoken_start(1, "thinking") == (
        b'event: content_block_start\ndata: {"type":"content_block_start","index":1,'
        b'"content_block":{"type":"thinking","thinking":"","signature":""}}\n\n'
    )
    assert frames.call_start(2, "x", "f") == (
        b'event: content_block_start\ndata: {"type":"content_block_start","index":2,'
        b'"content_block":{"type":"tool_use","id":"x","name":"f","input":{}}}\n\n'
    )
    assert frames.block_stop(2) == b'event: content_block_stop\ndata: {"type":"content_block_stop","index":2}\n\n'


def test_deltas() -> None:
    begin = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":3,"delta":'
    assert frames.spoken_delta(3, "text", "a\n\u2028é") == (
        begin + '{"type":"text_delta","text":"a\\n\u2028é"}}\n\n'.encode()
    )
    assert frames.spoken_delta(3, "thinking", "a") == begin + b'{"type":"thinking_delta","thinking":"a"}}\n\n'
    assert frames.call_delta(3, '{"') == begin + b'{"type":"input_json_delta","partial_json":"{\\""}}\n\n'
    assert frames.signature_delta(3) == begin + b'{"type":"signature_delta","signature":"bGxtZ2F0ZQ=="}}\n\n'


def test_the_end() -> None:
    delta, stop = frames.message_end(Stop("stop_sequence", "END"), {"output_tokens": 1})
    assert delta == (
        b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"stop_sequence",'
        b'"stop_sequence":"END"},"usage":{"output_tokens":1}}\n\n'
    )
    assert stop == b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
