"""Streams for tests: generated ones, cuts of them, recorded ones, and a plain second reading of the grammar."""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from hypothesis import strategies as st

from llmgate.protocols.surface import Manner, Opening, StreamWatch

MARK = b"\xef\xbb\xbf"
RECORDED = Path(__file__).parent / "recorded"
_LINES = re.compile(rb"([^\r\n]*)(\r\n|\r|\n)")


def opening(manner: Manner = "frames") -> Opening:
    return Opening(request_id="req_1", model="m", at=datetime(2026, 11, 30, 10, 20, 30, tzinfo=UTC), manner=manner)


def recorded(name: str) -> bytes:
    """What llama-server (build 10434, gemma-3-270m) answered."""
    return (RECORDED / f"{name}.sse").read_bytes()


def blocks(stream: bytes) -> tuple[list[bytes], bytes]:
    """Line by line: everything up to and with each blank line, and the unfinished rest."""
    found, start, begun = [], 0, False
    for line in _LINES.finditer(stream):
        begun = begun or bool(line[1])
        if not line[1]:
            found.append(stream[start : line.end()])
            start, begun = line.end(), False
    return found, stream[start:]


def is_event(block: bytes) -> bool:
    """Whether there is a line that is neither blank nor a comment."""
    return any(line and not line.startswith(b":") for line in re.split(rb"[\r\n]", block))


def expected(stream: bytes) -> bytes:
    """What a watch passes of a stream that breaks off, where no event is too long."""
    start = MARK if stream.startswith(MARK) else b""
    return start + b"".join(block for block in blocks(stream.removeprefix(MARK))[0] if is_event(block))


TOLD = b"told"
"""What stands for an error of a foreign shape."""


def told(_: int, __: bytes) -> bytes:
    """An ErrorFrame."""
    return TOLD


ENDS = (b"message_stop", b"[DONE]", b"response.completed", b"response.incomplete", b"response.failed", b"true")
"""What one of the surfaces' own ends holds."""


def check_passed(passed: bytes, whole: bytes, *, complete: bool) -> None:
    """It is the whole, or all of it that lies before the stream's own end or an error of a foreign shape."""
    before = passed.removesuffix(TOLD)
    assert whole.startswith(before)
    if complete and passed != whole:
        last = (blocks(passed)[0] or passed.splitlines())[-1]
        assert any(end in last for end in ENDS)
    elif before == passed:
        assert passed == whole
    else:
        assert b"error" in whole[len(before) :].replace(b"\\u0072", b"r")


Seen = tuple[bytes, bytes, bool, bool, bool, bool, int, int | None]


def run(make: Callable[[], StreamWatch], pieces: Iterable[bytes]) -> Seen:
    """What passed, what passed at the end, and what was learnt."""
    watch = make()
    passed = b"".join(map(watch.feed, pieces))
    rest = watch.finish()
    return (
        passed,
        rest,
        watch.complete,
        watch.failed,
        watch.started,
        watch.inside_event,
        watch.output_tokens,
        watch.input_tokens,
    )


def learnt(seen: Seen) -> tuple[object, ...]:
    """Without the bytes."""
    return seen[2:]


def cut(stream: bytes, places: Iterable[int]) -> list[bytes]:
    """The stream in pieces, none of them empty."""
    ends = sorted({place % (len(stream) + 1) for place in places} | {0, len(stream)})
    return [stream[start:end] for start, end in pairwise(ends)]


_MESSAGES_LINES = [
    b"event: message_start",
    b"event: content_block_delta",
    b"event:content_block_delta",
    b"event: message_delta",
    b"event: message_stop",
    b"event: error",
    b"event: ping",
    b"event: message",
    b"event",
    b"eventual: x",
    b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\\n\\nevent: error"}}',
    b'data:{"type":"content_block_delta"}',
    b'data: {"type":"message_start","message":{"usage":{"input_tokens":7,"cache_read_input_tokens":3}}}',
    b'data: {"type":"message_delta","usage":{"output_tokens":41}}',
    b'data: {"type":"message_delta","usage":{"output_tokens":-1}}',
    b'data: {"type":"message_stop"}',
    b'data: {"type":"error","error":{"type":"api_error","message":"m"}}',
    b'data: {"code":500,"message":"m","type":"server_error"}',
]
_CHAT_LINES = [
    b'data: {"choices":[{"delta":{"content":"a"}}]}',
    b'data: {"choices":[{"delta":{"content":"\\"error\\" \\"usage\\""}}],"usage":null}',
    b'data: {"choices": [ {"delta":{}}]}',
    b'data: {"choices":[]}',
    b'data:{"choices":[{}]}',
    b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":9}}',
    b'data: {"choices":[{}],"usage":{"completion_tokens":4}}',
    b'data: {"error":null,"choices":[{}]}',
    b'data: {"error":{"message":"m"}}',
    b'data: {"object":"error","message":"m","code":500}',
    b"data: [DONE]",
    b"data:[DONE]",
]
_RESPONSES_LINES = [
    b"event: response.created",
    b"event: response.output_text.delta",
    b"event:response.output_text.delta",
    b"event: response.reasoning_text.delta",
    b"event: response.delta",
    b"event: response.completed",
    b"event: response.incomplete",
    b"event: response.failed",
    b'data: {"type":"response.output_text.delta","delta":"\\n\\nevent: response.failed"}',
    b'data: {"type":"response.completed","response":{"usage":{"input_tokens":5,"output_tokens":9}}}',
    b'data: {"response":{"usage":{"output_tokens":-1}}}',
    b'data: {"type":"response.failed","response":null}',
    b'data: {"type":"error","code":"c","message":"m","error":{"message":"m"}}',
]
_OTHER_LINES = [
    b": comment",
    b":",
    b":data: x",
    b"data",
    b"data:",
    b'data: {"a":',
    b"data: 1}",
    b"data: }",
    b"id: 5",
    b"retry: 3000",
    b"unknown",
    b" : not a comment",
    b"\xef\xbb\xbfdata: x",
    b"\xff\x00",
]
_line_ends = st.sampled_from([b"\n", b"\r", b"\r\n"])


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Any lines with any line ends; half of them regular: what real servers send."""
    if draw(st.booleans()):
        return draw(regular_streams())
    lines = st.sampled_from(_MESSAGES_LINES + _CHAT_LINES + _RESPONSES_LINES + _OTHER_LINES)
    parts = draw(st.lists(st.tuples(st.lists(lines, max_size=4), st.integers(0, 3)), max_size=8))
    ends = draw(st.sampled_from([_line_ends, st.just(b"\n"), st.just(b"\r\n"), st.just(b"\r")]))
    stream = draw(st.sampled_from([b"", b"", MARK, MARK[:2]]))
    for block, blanks in parts:
        stream += b"".join(line + draw(ends) for line in block) + b"".join(draw(ends) for _ in range(blanks))
    return stream + draw(
        st.sampled_from([b"", b"da", b"data: [DONE]", b'data: {"choices":[{}]}', b'data: {"a', b": c"])
    )


REGULAR = [
    b'event: content_block_delta\ndata: {"type":"content_block_delta"}\n\n',
    b'data: {"choices":[{"delta":{"content":"a"}}],"usage":null}\n\n',
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"a"}\n\n',
]


@st.composite
def regular_streams(draw: st.DrawFn) -> bytes:
    """One event a block, LF throughout, the odd comment and surplus blank line."""
    names = st.sampled_from(_MESSAGES_LINES[:8] + _RESPONSES_LINES[:8])
    named = st.tuples(names, st.sampled_from(_MESSAGES_LINES[10:] + _RESPONSES_LINES[8:]))
    block = (
        st.sampled_from(REGULAR)
        | named.map(lambda lines: b"\n".join(lines) + b"\n\n")
        | st.sampled_from(_CHAT_LINES).map(lambda line: line + b"\n\n")
        | st.sampled_from([b": c\n\n", b"\n", b"id: 5\n" + REGULAR[0], b"event: content_block_delta\n" + REGULAR[1]])
    )
    return b"".join(draw(st.lists(block, max_size=10)))


cuts = st.lists(st.integers(0, 2_000), max_size=12) | st.just(list(range(5_000)))
