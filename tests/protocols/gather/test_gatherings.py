"""What holds for the gathering of every surface."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.errors import UpstreamFailed
from llmgate.protocols.gather.gatherings import gathering_of
from llmgate.protocols.surfaces import SURFACES
from tests.protocols.gather.gathered import (
    CHAT,
    COMPLETIONS,
    GENERATE,
    OLLAMA_CHAT,
    PATHS,
    RECORDED,
    STREAMS,
    cut_anywhere,
    gather,
    gathering,
)
from tests.protocols.streams import cut, cuts

EVENTS = [path for path in PATHS if path not in (OLLAMA_CHAT, GENERATE)]
OWN = {"id", "call_id", "created", "created_at", "completed_at", "timings"}


def normal(value: Any) -> Any:
    """Without what differs from answer to answer."""
    if isinstance(value, list):
        return [normal(item) for item in value]
    if isinstance(value, dict):
        return {key: type(item) if key in OWN else normal(item) for key, item in value.items()}
    return value


def test_which_surfaces_stream() -> None:
    assert [path for path in SURFACES if gathering_of(path)] == [
        "/v1/messages",
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/api/chat",
        "/api/generate",
    ]
    assert gathering_of("/v1/embeddings") is None


@pytest.mark.parametrize("name", RECORDED)
def test_it_is_what_the_server_itself_answered(name: str) -> None:
    recorded = RECORDED[name]
    assert normal(gather(recorded["path"], recorded["stream"].encode())) == normal(recorded["whole"])


@pytest.mark.parametrize("path", PATHS)
@given(places=cuts)
def test_the_cut_does_not_matter(path: str, places: list[int]) -> None:
    stream = STREAMS[path]
    assert gather(path, *cut(stream, places)) == gather(path, stream)


@pytest.mark.parametrize("path", PATHS)
def test_never_half_an_answer(path: str) -> None:
    """A completion may end without [DONE], and any stream without its last blank line."""
    stream = STREAMS[path]
    whole = gather(path, stream)
    ended = [place for place, beginning in enumerate(cut_anywhere(stream)) if has_ended(path, beginning)]
    least = ended[0] if ended else len(stream)
    assert ended == list(range(least, len(stream)))
    for place in ended:
        found = gather(path, stream[:place])
        assert {**found, "usage": None} == {**whole, "usage": None}
    if path in (CHAT, COMPLETIONS):
        assert b'"finish_reason": "' in stream[:least]
    else:
        assert len(stream) - least <= 2


def has_ended(path: str, stream: bytes) -> bool:
    found = gathering(path)
    found.feed(stream)
    try:
        found.end()
    except UpstreamFailed as error:
        return "before the answer was complete" not in str(error)
    return True


@pytest.mark.parametrize("path", EVENTS)
@pytest.mark.parametrize("end", [b"\r\n", b"\r"])
def test_other_line_ends(path: str, end: bytes) -> None:
    stream = STREAMS[path]
    other = stream.replace(b"\n", end)
    assert gather(path, other) == gather(path, stream)
    assert gather(path, *(other[place : place + 1] for place in range(len(other)))) == gather(path, stream)


@pytest.mark.parametrize("path", EVENTS)
def test_comments_and_a_byte_order_mark(path: str) -> None:
    stream = STREAMS[path]
    other = b"\xef\xbb\xbf: queue 1/1\n\n" + stream.replace(b"data: ", b": x\nid: 5\ndata:").replace(
        b"\n\n", b"\n\n:\n\n\n"
    )
    assert gather(path, other) == gather(path, stream)


def test_lines_may_be_blank_and_end_with_crlf() -> None:
    stream = STREAMS[GENERATE]
    assert gather(GENERATE, b" " + stream.replace(b"\n", b"\r\n\n \n")) == gather(GENERATE, stream)
    assert gather(GENERATE, stream.rstrip(b"\n")) == gather(GENERATE, stream)


@pytest.mark.parametrize("path", PATHS)
def test_what_follows_the_end_is_ignored(path: str) -> None:
    found = gathering(path)
    found.feed(STREAMS[path] + b'data: {oops\n\n{"error":"x"}\n')
    assert found.complete
    assert not found.failed
    found.feed(b"data: {oops\n\n")
    assert json.loads(found.end()) == gather(path, STREAMS[path])
    assert found.end() == found.end()


@pytest.mark.parametrize("path", PATHS)
def test_it_counts_like_the_watch_of_the_surface(path: str) -> None:
    watch, found = SURFACES[path].watch(), gathering(path)
    for place in range(len(STREAMS[path])):
        piece = STREAMS[path][place : place + 1]
        watch.feed(piece)
        found.feed(piece)
        assert (found.output_tokens, found.input_tokens) == (watch.output_tokens, watch.input_tokens)
        assert found.started == watch.started
        assert found.complete == watch.complete


@pytest.mark.parametrize("name", RECORDED)
def test_it_counts_like_the_watch_what_was_recorded(name: str) -> None:
    recorded = RECORDED[name]
    watch, found = SURFACES[recorded["path"]].watch(), gathering(recorded["path"])
    for piece in recorded["stream"].encode().splitlines(keepends=True):
        watch.feed(piece)
        found.feed(piece)
        assert (found.output_tokens, found.input_tokens) == (watch.output_tokens, watch.input_tokens)


def words(text: str) -> st.SearchStrategy[str]:
    return st.sampled_from(text.split())


_KEYS = words(
    "type message delta index content_block usage choices finish_reason text content tool_calls function name id "
    "arguments logprobs partial_json citation stop_reason response output status done error model thinking reasoning "
    "input_tokens output_tokens timings created_at object custom function_call"
)
_NAMES = words(
    "message_start content_block_start content_block_delta message_delta message_stop ping error response.completed "
    "response.output_text.delta response.failed other"
)
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(
        ["stop", "\ud83d", "\ude00", "tool_use", "message_stop", "text", "response.completed", "reasoning"]
    )
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)
_DOCUMENTS = st.dictionaries(_KEYS, _VALUES, max_size=6)


@st.composite
def _mixed(draw: st.DrawFn) -> bytes:
    """Events and lines of any data."""
    stream = b""
    for _ in range(draw(st.integers(0, 5))):
        kind = draw(st.integers(0, 3))
        data = json.dumps(draw(_DOCUMENTS)).encode()
        if kind == 0:
            stream += b"event: %s\ndata: %s\n\n" % (draw(_NAMES).encode(), data)
        elif kind == 1:
            stream += b"data: %s\n\n" % data
        else:
            stream += data + b"\n"
    return stream


@st.composite
def _damaged(draw: st.DrawFn, path: str) -> bytes:
    """A regular stream into which anything comes: other events, other values, other bytes."""
    parts = STREAMS[path].splitlines(keepends=True)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(parts) - 1))
        with_value = json.dumps(draw(_VALUES)).encode()
        parts[place] = draw(
            st.sampled_from(
                [
                    parts[place],
                    draw(_mixed()),
                    parts[place].replace(b'""', with_value),
                    parts[place].replace(b"null", with_value),
                    parts[place].replace(b"{}", with_value),
                    parts[place].replace(b"0", with_value, 1),
                    parts[place][1:],
                    draw(st.binary(max_size=3)),
                ]
            )
        )
    return b"".join(parts)


@pytest.mark.parametrize("path", PATHS)
@given(data=st.data(), places=cuts)
def test_whatever_comes_it_fails_in_one_way(path: str, data: st.DataObject, places: list[int]) -> None:
    stream = data.draw(_damaged(path) | _mixed())

    def outcome(*pieces: bytes) -> tuple[object, ...]:
        found = gathering(path)
        for piece in pieces:
            found.feed(piece)
        try:
            document: object = json.loads(found.end(), parse_constant=pytest.fail)
        except UpstreamFailed as error:
            document = str(error)
            assert document.endswith("(UPSTREAM_ERROR)") or found.failed
        return document, found.started, found.failed, found.complete, found.output_tokens, found.input_tokens

    assert outcome(*cut(stream, places)) == outcome(stream)
