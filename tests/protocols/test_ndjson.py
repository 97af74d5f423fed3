"""Whole lines pass, however the stream is cut."""

import tracemalloc
from collections.abc import Iterator
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from llmgate.protocols import ndjson
from llmgate.protocols.ndjson import LIMIT, LineWatch, is_ndjson
from tests.protocols.streams import check_passed, cut, cuts, learnt, run, told

PART = b'{"model":"m","created_at":"t","message":{"role":"assistant","content":"a"},"done":false}\n'
DONE = b'{"model":"m","message":{"role":"assistant","content":""},"done":true,"prompt_eval_count":5,"eval_count":9}\n'
ERROR = b'{"error":"llama runner process has terminated"}\n'
Lines = partial(LineWatch, told)

_LINES = [
    *(line[:-1] for line in (PART, PART, PART, DONE, ERROR)),
    b'{"model":"m","response":"\\"done\\":true \\"error\\"","done":false}',
    b'{"model":"m","response":"\\u003c","done":false}',
    b'{"model":"m","d\\u006fne":true}',
    b'{"model":"m","e\\u0072ror":"x","done":false}',
    b'{"model":"m","error":"x","done":false}',
    b'{"model":"m","error":"x"}',
    b'{"model":"m","done": false}',
    b'{"model":"m","done": true}',
    b'{"model":"m","done":false,"done":true}',
    b'{"model":"m","done":falsehood}',
    b'{"model":"m","message":{"tool_calls":[{"function":{"arguments":{"done":true,"error":1}}}]},"done":false}',
    b'{"model":"m"}',
    b'{"model":',
    b'{"done":true,"eval_count":-1}',
    b'{"done":true,"prompt_eval_count":"x","eval_count":4}',
    b'{"error":null,"done":false}',
    b'{"error":{"message":"m"}}',
    b'{"object":"error","message":"m"}',
    b'{"done":1}',
    b'   {"model":"m","done":false}',
    b'{"model":"m","done":false}\r',
    b"[]",
    b"not json",
    b"\xff\x00",
    b"",
    b" ",
    b"\t\r",
]


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    lines = draw(st.lists(st.sampled_from(_LINES), max_size=10))
    return b"".join(line + b"\n" for line in lines) + draw(st.sampled_from([b"", b"{", b" ", DONE[:-1], b"{}"]))


def expected(stream: bytes) -> bytes:
    """What a watch passes of a stream that breaks off."""
    whole = stream[: stream.rfind(b"\n") + 1]
    return b"".join(line + b"\n" for line in whole.split(b"\n")[:-1] if line.strip(b" \t\r"))


@pytest.mark.parametrize(
    ("content_type", "said"),
    [
        (b"application/x-ndjson", True),
        (b"Application/X-NDJSON; charset=utf-8", True),
        (b"application/ndjson", True),
        (b"application/json", False),
        (b"text/event-stream", False),
        (b"", False),
    ],
)
def test_is_ndjson(content_type: bytes, said: bool) -> None:
    assert is_ndjson(content_type) is said


@given(stream=streams(), places=cuts)
@example(stream=PART + DONE, places=[len(PART)])
def test_cuts_change_nothing(stream: bytes, places: list[int]) -> None:
    whole = run(Lines, [stream])
    assert run(Lines, cut(stream, places)) == whole
    check_passed(whole[0], expected(stream), complete=whole[2])
    assert whole[4] == bool(whole[0] or whole[1])


@given(stream=streams(), places=cuts, limit=st.integers(4, 90))
def test_cuts_change_nothing_where_lines_are_too_long(stream: bytes, places: list[int], limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ndjson, "LIMIT", limit)
        assert run(Lines, cut(stream, places)) == run(Lines, [stream])


@given(stream=streams(), places=cuts)
def test_each_piece_gives_all_that_is_whole_and_no_more(stream: bytes, places: list[int]) -> None:
    watch, passed, came = Lines(), b"", b""
    for piece in cut(stream, places):
        passed, came = passed + watch.feed(piece), came + piece
        check_passed(passed, expected(came), complete=watch.complete)


@given(stream=streams())
def test_short_cuts_change_nothing_of_what_is_learnt(stream: bytes) -> None:
    """A blank before each line, and no piece of lines alone is taken in one look."""
    slow = b"".join(b" " + line for line in stream.splitlines(keepends=True))
    lines = stream.splitlines(keepends=True)
    assert learnt(run(Lines, lines)) == learnt(run(Lines, [slow])) == learnt(run(Lines, [stream]))


@given(data=st.binary() | st.text(alphabet='\r\n {}"done:true').map(str.encode), places=cuts)
def test_any_bytes_are_taken(data: bytes, places: list[int]) -> None:
    assert run(Lines, cut(data, places)) == run(Lines, [data])
    assert run(Lines, [data])[0] == expected(data)


def test_cut_at_every_byte_whole_lines_only() -> None:
    stream = PART * 3 + DONE
    for place in range(len(stream)):
        watch = Lines()
        passed = watch.feed(stream[:place])
        assert passed == stream[: stream.rfind(b"\n", 0, place) + 1]
        assert (watch.complete, watch.started) == (False, bool(passed))
        assert passed + watch.feed(stream[place:]) == stream
        assert watch.complete
        assert watch.finish() == b""


def watch_after(*pieces: bytes) -> LineWatch:
    watch = Lines()
    assert b"".join(map(watch.feed, pieces)) == b"".join(pieces)
    return watch


def test_parts_are_counted_until_the_server_tells_its_own_number() -> None:
    watch = watch_after(PART, PART, PART * 3, b" " + PART)
    assert (watch.input_tokens, watch.output_tokens) == (None, 6)
    watch.feed(DONE)
    assert (watch.input_tokens, watch.output_tokens, watch.complete) == (5, 9, True)
    for more in (PART, PART * 2, b" " + PART):
        watch.feed(more)
    assert watch.output_tokens == 9


@pytest.mark.parametrize(
    ("line", "complete", "failed", "prompt", "counts"),
    [
        (DONE, True, False, 5, (9, 9)),
        (b'{"done":true}\n', True, False, None, (0, 1)),
        (b'{"done":true,"eval_count":3}\n', True, False, None, (3, 3)),
        (b'{"done":true,"prompt_eval_count":3}\n', True, False, 3, (0, 1)),
        (b'{"done":true,"prompt_eval_count":-3,"eval_count":1}\n', True, False, None, (0, 1)),
        (b'{ "done" : true }\r\n', True, False, None, (0, 1)),
        (ERROR, False, True, None, (0, 1)),
        (b'{"error":{"message":"m"},"done":true}\n', False, True, None, (0, 1)),
        (b'{"model":"m","error":"x","done":false}\n', False, True, None, (0, 1)),
        (b'{"model":"m","error":"x"}\n', False, True, None, (0, 1)),
        (b'{"error":null,"done":true}\n', True, False, None, (0, 1)),
        (b'{"done":"true"}\n', False, False, None, (1, 2)),
        (b'{"response":"\\"done\\":true"}\n', False, False, None, (1, 2)),
        (b'{"message":{"done":true}}\n', False, False, None, (1, 2)),
        (b"nonsense\n", False, False, None, (1, 2)),
    ],
)
def test_what_a_line_means(
    line: bytes, complete: bool, failed: bool, prompt: int | None, counts: tuple[int, int]
) -> None:
    """Alone, and after a part."""
    for first, count in zip(([], [PART]), counts, strict=True):
        watch = Lines()
        for fed in (*first, line):
            watch.feed(fed)
        assert (watch.complete, watch.failed, watch.input_tokens) == (complete, failed, prompt)
        assert watch.output_tokens == count


@pytest.mark.parametrize("blank", [b"\n", b" \n", b"\r\n", b" \t\r\n"])
def test_blank_lines_are_swallowed(blank: bytes) -> None:
    watch = Lines()
    assert watch.feed(blank) == b""
    assert not watch.started
    assert watch.feed(PART + blank + PART) == PART + PART
    assert watch.feed(blank) == b""


def test_blanks_before_a_part_belong_to_it() -> None:
    """So does another llmgate's sign of life."""
    watch = Lines()
    assert (watch.feed(b" "), watch.feed(b" "), watch.started) == (b"", b"", False)
    assert watch.feed(PART) == b"  " + PART


@pytest.mark.parametrize(
    ("rest", "passed"),
    [(DONE[:-1], DONE), (b"{}", b"{}\n"), (b'{"a":', b""), (b"[]", b""), (b" ", b""), (b"", b"")],
)
def test_a_regular_end_without_an_end_of_line(rest: bytes, passed: bytes) -> None:
    watch = Lines()
    assert watch.feed(PART + rest) == PART
    assert watch.finish() == passed
    assert watch.finish() == b""
    assert watch.complete is (rest == DONE[:-1])


def test_a_line_up_to_the_limit_is_held_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndjson, "LIMIT", 40)
    line = b'{"done":true' + b" " * 27 + b"}\n"
    assert len(line) == 41
    watch = Lines()
    assert watch.feed(line[:-1]) == b""
    assert watch.feed(line[-1:]) == line
    assert watch.complete


def test_a_longer_line_passes_as_it_comes_and_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndjson, "LIMIT", 40)
    watch = Lines()
    start = b'{"done":true' + b" " * 28
    assert watch.feed(start) == b""
    assert watch.feed(b"}") == start + b"}"
    assert (watch.inside_event, watch.started, watch.complete) == (True, True, False)
    assert watch.finish() == b""
    assert watch.feed(b"") == b""
    assert watch.feed(b" ") == b" "
    assert watch.inside_event
    assert watch.feed(b'\n{"done"') == b"\n"
    assert not watch.inside_event
    assert watch.feed(b":true}\n") == b'{"done":true}\n'
    assert watch.complete


def test_a_longer_line_in_one_piece_is_not_read_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndjson, "LIMIT", 40)
    watch = Lines()
    start = b'{"done":true' + b" " * 28
    assert watch.feed(start + b"}\n" + start) == start + b"}\n"
    assert not watch.complete


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_nothing_passes_behind_the_last_line(size: int) -> None:
    watch = Lines()
    stream = PART + DONE + PART + b'{"error":"m"}\n' + DONE[:-1]
    got = b"".join(watch.feed(stream[start : start + size]) for start in range(0, len(stream), size))
    assert got == PART + DONE
    assert (watch.complete, watch.failed, watch.finish()) == (True, False, b"")


def pieces_without_end(count: int, size: int) -> Iterator[bytes]:
    for _ in range(count):
        yield b"x" * size


def test_a_stream_without_an_end_of_line_needs_bounded_memory() -> None:
    watch, passed = Lines(), 0
    tracemalloc.start()
    for piece in pieces_without_end(200, 262_144):
        passed += len(watch.feed(piece))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert passed == 200 * 262_144
    assert peak < 6 * LIMIT
