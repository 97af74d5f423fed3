"""Whole events pass, however the stream is cut."""

import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.core.line import Position
from llmgate.protocols import anthropic, openai, responses, sse
from llmgate.protocols.anthropic import MessagesWatch
from llmgate.protocols.openai import ChatWatch
from llmgate.protocols.responses import ResponsesWatch
from llmgate.protocols.sse import LIMIT, EventWatch, comment, fields, is_event_stream
from llmgate.protocols.surface import StreamWatch
from tests.protocols.streams import (
    MARK,
    REGULAR,
    blocks,
    check_passed,
    cut,
    cuts,
    expected,
    is_event,
    learnt,
    recorded,
    run,
    streams,
    told,
)

Make = Callable[[], StreamWatch]
Messages, Chat, Responses = (partial(kind, told) for kind in (MessagesWatch, ChatWatch, ResponsesWatch))
WATCHES: list[Make] = [Messages, Chat, Responses]

RECORDED = [
    ("messages", Messages),
    ("chat", Chat),
    ("completions", Chat),
    ("responses", Responses),
]


@pytest.fixture
def short_limit(monkeypatch: pytest.MonkeyPatch) -> int:
    for module in (sse, anthropic, openai, responses):
        monkeypatch.setattr(module, "LIMIT", 40)
    return 40


def test_comment() -> None:
    assert comment(Position(position=2, depth=3, waited_ms=5)) == b": queue 2/3\n\n"
    assert comment(None) == b": working\n\n"


@pytest.mark.parametrize(
    ("content_type", "said"),
    [
        (b"text/event-stream", True),
        (b"Text/Event-Stream; charset=utf-8", True),
        (b"text/event", False),
        (b"application/x-ndjson", False),
        (b"", False),
    ],
)
def test_is_event_stream(content_type: bytes, said: bool) -> None:
    assert is_event_stream(content_type) is said


@pytest.mark.parametrize(
    ("event", "name", "data"),
    [
        (b"event: a\ndata: b\n\n", b"a", b"b"),
        (b"event:a\rdata:b\r\r", b"a", b"b"),
        (b"data: 1\r\ndata:  2\ndata\nid: 3\n\n", b"", b"1\n 2\n"),
        (b"event: a\nevent: b\n\n", b"b", b""),
        (b"event: a\nevent\n\n", b"", b""),
        (b"data: a:b: c\n\n", b"", b"a:b: c"),
        (b": event: a\n data: b\ndatum: c\n\n", b"", b""),
        (b"data: a\x0b\x0c\x1c\x85b\n\n", b"", b"a\x0b\x0c\x1c\x85b"),
    ],
)
def test_fields(event: bytes, name: bytes, data: bytes) -> None:
    assert fields(event) == (name, data)


def test_a_surface_must_say_how_it_reads() -> None:
    with pytest.raises(NotImplementedError):
        EventWatch(told).feed(b"data: x\n\n")


@pytest.mark.parametrize("make", WATCHES)
@given(stream=streams(), places=cuts)
def test_cuts_change_nothing(make: Make, stream: bytes, places: list[int]) -> None:
    pieces = cut(stream, places)
    whole = run(make, [stream])
    assert run(make, pieces) == whole
    check_passed(whole[0], expected(stream), complete=whole[2])
    assert whole[4] == bool(whole[0].removeprefix(MARK) or whole[1])


@pytest.mark.parametrize("make", WATCHES)
@given(stream=streams(), places=cuts, limit=st.integers(4, 60))
def test_cuts_change_nothing_where_events_are_too_long(
    make: Make, stream: bytes, places: list[int], limit: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (sse, anthropic, openai, responses):
            patch.setattr(module, "LIMIT", limit)
        assert run(make, cut(stream, places)) == run(make, [stream])


@pytest.mark.parametrize("make", WATCHES)
@given(stream=streams(), places=cuts)
def test_each_piece_gives_all_that_is_whole_and_no_more(make: Make, stream: bytes, places: list[int]) -> None:
    watch, passed, came = make(), b"", b""
    for piece in cut(stream, places):
        passed, came = passed + watch.feed(piece), came + piece
        if not MARK.startswith(came):
            check_passed(passed, expected(came), complete=watch.complete)


@pytest.mark.parametrize("make", WATCHES)
@given(stream=streams())
def test_line_ends_change_nothing_of_what_is_learnt(make: Make, stream: bytes) -> None:
    """CRLF never takes the short cut, LF does: both must count the same."""
    stream = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    short = run(make, [stream])
    assert learnt(run(make, [stream.replace(b"\n", b"\r\n")])) == learnt(short)
    assert learnt(run(make, [stream.replace(b"\n", b"\r")])) == learnt(short)


@pytest.mark.parametrize("make", WATCHES)
@given(stream=streams(), chosen=st.integers(0), first=st.sampled_from(REGULAR))
def test_short_cuts_change_nothing(make: Make, stream: bytes, chosen: int, first: bytes) -> None:
    """Pieces of whole events, behind one that makes the short cut possible."""
    starts = accumulate((len(block) for block in blocks(stream)[0]), initial=0)
    places = [start for number, start in enumerate(starts) if chosen >> number & 1]
    assert run(make, [first, *cut(stream, places)]) == run(make, [first + stream])


MESSAGES_EVENT = b"event: content_block_delta\ndata: {}\n\n"
CHAT_EVENT = b'data: {"choices":[{}]}\n\n'
RESPONSES_EVENT = b"event: response.output_text.delta\ndata: {}\n\n"


@pytest.mark.parametrize("between", [b"\n", b"\r", b"\r\r", b"\n\n", b": c\n\n", b"\r: c\n\n", b"\r\r:c\r\r"])
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_what_only_looks_like_nothing_but_whole_events(between: bytes, lost: int) -> None:
    events = ((Messages, MESSAGES_EVENT), (Chat, CHAT_EVENT), (Responses, RESPONSES_EVENT))
    for make, event in events:
        piece = event[: len(event) - lost] + between + event
        seen = run(make, [event, piece])
        assert seen == run(make, [event + piece])
        assert seen[0] == expected(event + piece)


@pytest.mark.parametrize("make", WATCHES)
@given(data=st.binary() | st.text(alphabet="\r\n:daten []{}").map(str.encode), places=cuts)
def test_any_bytes_are_taken(make: Make, data: bytes, places: list[int]) -> None:
    assert run(make, cut(data, places)) == run(make, [data])
    assert run(make, [data])[0] == expected(data)


@pytest.mark.parametrize(("name", "make"), RECORDED)
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("more", [b"", b"\n", b": c\n\n", b'data: {"error":"m"}\n\n', b"data: {", CHAT_EVENT])
def test_nothing_passes_behind_the_end(name: str, make: Make, line_end: bytes, more: bytes) -> None:
    """Whether it comes with the end or later; but an LF that ends the end's blank line is part of it."""
    whole, more = (text.replace(b"\n", line_end) for text in (recorded(name), more))
    for cut_at in range(len(whole) - 3, len(whole) + len(more)):
        watch = make()
        stream = whole + more
        assert watch.feed(stream[:cut_at]) + watch.feed(stream[cut_at:]) == whole
        assert (watch.complete, watch.failed, watch.finish()) == (True, False, b"")
        assert watch.feed(CHAT_EVENT) + watch.feed(MESSAGES_EVENT) + watch.feed(RESPONSES_EVENT) == b""


@pytest.mark.parametrize(("name", "make"), RECORDED)
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_cut_at_every_byte_whole_events_only(name: str, make: Make, line_end: bytes) -> None:
    stream = recorded(name).replace(b"\n", line_end)
    for place in range(len(stream)):
        watch = make()
        passed = watch.feed(stream[:place])
        whole, rest = blocks(stream[:place])
        assert passed == b"".join(whole)
        last = place == len(stream) - 1 and line_end == b"\r\n"  # only the LF of the last blank line is still to come
        assert watch.complete is last
        assert not watch.failed
        assert passed + watch.feed(stream[place:]) == stream
        assert watch.complete
        assert watch.finish() == b""
        assert not rest or passed != stream[:place]


@pytest.mark.parametrize(("name", "make"), RECORDED)
def test_byte_by_byte_and_every_cut_in_two(name: str, make: Make) -> None:
    stream = recorded(name)
    whole = run(make, [stream])
    assert whole[0] == stream
    assert run(make, cut(stream, range(len(stream)))) == whole
    for place in range(1, len(stream)):
        assert run(make, [stream[:place], stream[place:]]) == whole


def test_nothing_fed_gives_nothing() -> None:
    watch = Chat()
    assert watch.feed(b"") == b""
    assert watch.finish() == b""
    assert not watch.started


@pytest.mark.parametrize(
    "block",
    [b": comment\n\n", b":\n\n", b"\n", b"\r\n", b"\r", b": a\n: b\n\n", b":a\r\r", b":a\r\n:b\r\n\r\n"],
)
def test_blocks_without_a_field_are_swallowed(block: bytes) -> None:
    event = b"id: 5\ndata: {}\n\n"
    watch = Chat()
    assert watch.feed(block) == b""
    assert not watch.started
    assert watch.feed(event + block + event) == event + event
    assert watch.feed(block) == b""
    assert watch.started


def test_a_comment_inside_an_event_passes() -> None:
    event = b": before\ndata: {}\n: after\n\n"
    assert Chat().feed(event) == event


def test_the_last_lf_of_an_event_belongs_to_it() -> None:
    watch = Chat()
    assert watch.feed(b"data: {}\r\n\r") == b"data: {}\r\n\r"
    assert watch.feed(b"\n") == b"\n"
    assert watch.feed(b"\n") == b""
    assert watch.feed(b"data: {}\r\r\r") == b"data: {}\r\r"
    assert watch.feed(b"\n") == b""
    assert watch.feed(b"data: {}\r\r") == b"data: {}\r\r"
    assert watch.feed(b"data: {}\n\n") == b"data: {}\n\n"
    assert watch.feed(b"\n") == b""


@pytest.mark.parametrize("make", WATCHES)
def test_byte_order_mark(make: Make) -> None:
    stream = MARK + recorded("messages")
    assert run(make, [stream])[0] == stream
    assert learnt(run(make, [stream])) == learnt(run(make, [stream[3:]]))
    for pieces in ([stream], cut(stream, range(len(stream)))):
        watch = make()
        watch.opened = True
        assert b"".join(map(watch.feed, pieces)) == stream[3:]
    assert run(make, [MARK])[0:2] == (MARK, b"")
    assert run(make, [MARK[:2]])[0:2] == (b"", b"")
    assert run(make, [b": c\n\n" + MARK + b"data: x\n\n"])[0] == MARK + b"data: x\n\n"


@pytest.mark.parametrize(
    ("rest", "passed"),
    [
        (b"data: [DONE]", b"data: [DONE]\n\n"),
        (b"data: [DONE]\n", b"data: [DONE]\n\n"),
        (b"data: [DONE]\r\n", b"data: [DONE]\r\n\n"),
        (b"data: [DONE]\r", b"data: [DONE]\r\n\n"),
        (b'data: {"a":1}\nid: 5', b'data: {"a":1}\nid: 5\n\n'),
        (b'data: {"a":\ndata: 1}', b'data: {"a":\ndata: 1}\n\n'),
        (b'data: {"a":1', b""),
        (b"data: [DON", b""),
        (b"data: 12", b""),
        (b"event: message_stop\n", b""),
        (b": comment", b""),
        (b"data", b""),
    ],
)
def test_a_regular_end_without_a_blank_line(rest: bytes, passed: bytes) -> None:
    watch = Chat()
    assert watch.feed(b"data: {}\n\n" + rest) == b"data: {}\n\n"
    assert watch.finish() == passed
    assert watch.finish() == b""
    assert watch.complete is (b"[DONE]" in passed)


def test_an_event_up_to_the_limit_is_held_and_read(short_limit: int) -> None:
    event = b"data: [DONE]" + b" " * (short_limit - 14) + b"\n\n"
    assert len(event) == short_limit
    watch = Chat()
    assert watch.feed(event[:-1]) == b""
    assert watch.feed(event[-1:]) == event
    assert watch.complete


def test_the_last_lf_does_not_make_an_event_too_long(short_limit: int) -> None:
    event = b"data: [DONE]" + b" " * (short_limit - 15) + b"\r\n\r\n"
    assert len(event) == short_limit + 1
    for pieces in ([event], [event[:-1], event[-1:]]):
        watch = Chat()
        assert b"".join(map(watch.feed, pieces)) == event
        assert watch.complete


def test_a_longer_event_passes_as_it_comes_and_is_not_read(short_limit: int) -> None:
    watch = Chat()
    start = b"data: [DONE]" + b" " * 28
    assert watch.feed(start) == b""
    assert watch.feed(b"x") == start + b"x"
    assert (watch.inside_event, watch.started, watch.complete) == (True, True, False)
    assert watch.finish() == b""
    assert watch.feed(b"y\r") == b"y\r"
    assert watch.feed(b"\n") == b"\n"
    assert watch.inside_event
    assert watch.feed(b"\r") == b"\r"
    assert not watch.inside_event
    assert watch.feed(b"\n\r\ndata: [DO") == b"\n"
    assert watch.feed(b"NE]\n\n") == b"data: [DONE]\n\n"
    assert watch.complete


def pieces_without_end(count: int, size: int) -> Iterator[bytes]:
    yield b"data: "
    for _ in range(count):
        yield b"x" * size


@pytest.mark.parametrize("make", WATCHES)
def test_a_stream_without_an_end_of_line_needs_bounded_memory(make: Make) -> None:
    watch, passed = make(), 0
    tracemalloc.start()
    for piece in pieces_without_end(200, 262_144):
        passed += len(watch.feed(piece))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert passed == 6 + 200 * 262_144
    assert peak < 6 * LIMIT


@pytest.mark.parametrize("make", WATCHES)
@pytest.mark.parametrize("end", [b"\n", b"\r"])
def test_held_bytes_are_searched_once(make: Make, end: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = 0
    find_end = EventWatch._find_end

    def counted(watch: EventWatch, scan: int) -> int:
        nonlocal searched
        searched += len(watch._held) - scan
        return find_end(watch, scan)

    monkeypatch.setattr(EventWatch, "_find_end", counted)
    watch = make()
    watch.feed(b"data: " + end)
    for _ in range(20_000):
        assert watch.feed(b"x") == b""
    assert len(watch.feed(end + end)) == 20_000 + 9
    assert searched < 3 * 20_000


def test_the_second_reading_itself() -> None:
    assert blocks(b"a\n\r\nb\r\rc\r\n\nd") == ([b"a\n\r\n", b"b\r\r", b"c\r\n\n"], b"d")
    assert is_event(b":a\nb\n\n")
    assert not is_event(b":a\n:b\r\n\n")
