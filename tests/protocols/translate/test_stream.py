"""MessageStream: every stream of the table, however it is cut; what hostile bytes may do."""

import time
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic_message import Seen, seen_in
from hypothesis import assume, given
from hypothesis import strategies as st

from llmgate.protocols.translate.asked import Asked
from llmgate.protocols.translate.stream import MessageStream
from tests.protocols.streams import cut, recorded
from tests.protocols.translate.openai_streams import CASES, DONE, Case, call, chunk, end, say, sse, think, tool

SHORT = {name: case for name, case in CASES.items() if len(case.stream) < 100_000}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def stream_for(case: Case) -> MessageStream:
    return MessageStream(Asked(model="asked", stop_sequences=case.asked, input_estimate=11), "req_1")


def run(stream: MessageStream, pieces: Iterable[bytes]) -> bytes:
    return b"".join(frame for piece in pieces for frame in stream.feed(piece)) + b"".join(stream.end())


def translated(*items: dict[str, object] | bytes) -> Seen:
    return seen_in(run(MessageStream(Asked(), "req_1"), [sse(*items)]))


@every_case
def test_every_stream_becomes_its_message(case: Case) -> None:
    stream = stream_for(case)
    seen = seen_in(run(stream, [case.stream]))
    assert seen.faults == []
    assert seen.content == case.content
    assert (seen.stop_reason, seen.stop_sequence) == (case.stop, case.stop_sequence)
    assert case.usage is None or seen.usage == case.usage
    assert (stream.complete, stream.failed) == (case.stop is not None, case.stop is None)
    assert (case.error is None) == (seen.error is None)
    if case.error and seen.error:
        kind, message = case.error
        assert seen.error["type"] == kind
        assert message in seen.error["message"]


@pytest.mark.parametrize("case", SHORT.values(), ids=SHORT.keys())
def test_every_stream_is_the_same_byte_by_byte(case: Case) -> None:
    pieces = [case.stream[place : place + 1] for place in range(len(case.stream))]
    assert run(stream_for(case), pieces) == run(stream_for(case), [case.stream])


@given(st.sampled_from(list(SHORT.values())), st.lists(st.integers(0, 10_000)))
def test_every_stream_is_the_same_however_it_is_cut(case: Case, places: list[int]) -> None:
    whole, pieces = stream_for(case), stream_for(case)
    assert run(pieces, cut(case.stream, places)) == run(whole, [case.stream])
    assert (pieces.output_tokens, pieces.input_tokens) == (whole.output_tokens, whole.input_tokens)


@given(st.sampled_from(sorted(CASES)), st.integers(0, 3000))
def test_a_stream_that_breaks_off_anywhere_ends_with_an_error_or_with_its_own_end(name: str, place: int) -> None:
    stream = CASES[name].stream
    seen = seen_in(run(stream_for(CASES[name]), [stream[: place % (len(stream) + 1)]]))
    assert seen.faults == []
    assert (seen.error is None) == (seen.stop_reason is not None)


def test_a_stream_that_breaks_off_before_its_end_is_told_never_has_an_end() -> None:
    whole = sse(say("a"), call(tool(0, "f", "{}", id="x")), say("b"), chunk({}, "stop"))
    told = whole.index(b"stop")
    for place in range(told):
        seen = seen_in(run(MessageStream(Asked(), "req_1"), [whole[:place]]))
        assert (seen.stop_reason, seen.faults) == (None, [])
        assert seen.error is not None


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(["stop", "a", "{}", "error"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def some(**fields: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Objects that may lack any of these fields, or have something else in them."""
    return st.fixed_dictionaries({}, optional={key: value | _ANY for key, value in fields.items()})


_FUNCTION = some(
    name=st.sampled_from(["f", "g", "", "get_"]),
    arguments=st.sampled_from(["", "{", "}", "{}", '{"a":1}', '"', "\\", "null", " ", "[", "\ud83d"]),
)
_CALL = some(index=st.integers(0, 2), id=st.sampled_from(["", "x", "y"]), function=_FUNCTION)
_DELTA = some(
    content=st.text(max_size=3) | st.just("\ud83d"),
    reasoning_content=st.text(max_size=3),
    tool_calls=st.lists(_CALL, max_size=3),
    refusal=st.text(max_size=2),
)
_CHOICE = some(index=st.just(0), delta=_DELTA, finish_reason=st.sampled_from(["stop", "length", "tool_calls", None]))
_USAGE = some(
    prompt_tokens=st.integers(), completion_tokens=st.integers(), prompt_tokens_details=some(cached_tokens=_ANY)
)
_CHUNK = some(choices=st.lists(_CHOICE, min_size=1, max_size=2), usage=_USAGE, error=st.none(), model=st.just("m"))
_ITEM = _CHUNK | st.binary(max_size=5) | st.sampled_from([DONE, b"\n", b"data: {", b"event: error\n", b": x\n"])


@given(st.lists(_ITEM, max_size=8), st.lists(st.integers(0, 10_000), max_size=5))
def test_whatever_comes_a_good_stream_goes_out(items: list[dict[str, object] | bytes], places: list[int]) -> None:
    stream = sse(*items)
    out = run(MessageStream(Asked(), "req_1"), [stream])
    assert seen_in(out).faults == []
    assert run(MessageStream(Asked(), "req_1"), cut(stream, places)) == out


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_end_with_an_error(data: bytes) -> None:
    assume(b"[DONE]" not in data)  # the one thing that ends a stream without a word of JSON
    seen = seen_in(run(MessageStream(Asked(), "req_1"), [data]))
    assert (seen.error is None, seen.faults) == (False, [])


def test_each_piece_is_passed_on_at_once() -> None:
    stream = MessageStream(Asked(), "req_1")
    passed = [
        len(stream.feed(sse(item)))
        for item in (
            chunk({"role": "assistant", "content": ""}),
            think("r"),
            say("a"),
            say("b"),
            call(tool(0, "f", "", id="x")),
            call(tool(0, None, '{"a":')),
            call(tool(0, None, "1")),
            call(tool(0, None, "}")),
            call(tool(1, "g", '{"b":', id="y")),
            call(tool(1, None, "1}")),
            chunk({}, "tool_calls"),
        )
    ]
    start, delta, stop = 1, 1, 1
    assert passed == [
        0,
        1 + start + delta,
        delta + stop + start + delta,  # the signature
        delta,
        stop,
        start + delta,
        delta,
        delta,
        stop + start + delta,
        delta,
        0,
    ]


def test_the_message_starts_with_its_first_content() -> None:
    stream = MessageStream(Asked(model="alias", input_estimate=5), "req_1")
    assert stream.feed(sse(chunk({"role": "assistant", "content": ""}))) == []
    assert not stream.started
    first = stream.feed(sse(say("a")))[0]
    assert stream.started
    assert first == (
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","type":"message",'
        b'"role":"assistant","model":"alias","content":[],"stop_reason":null,"stop_sequence":null,'
        b'"usage":{"input_tokens":5,"output_tokens":0}}}\n\n'
    )


@pytest.mark.parametrize(("asked", "shown"), [("", "m"), ("alias", "alias")])
def test_the_model_is_shown_as_it_was_asked_for(asked: str, shown: str) -> None:
    assert seen_in(run(MessageStream(Asked(model=asked), "r"), [sse(say("a"), *end())])).model == shown


def test_a_model_that_is_no_name_is_not_shown() -> None:
    assert translated({**say("a"), "model": 5}, *end()).model == ""
    assert translated({**say("a"), "model": "\ud83d"}, *end()).model == "\ufffd"


def test_frames_are_whole_and_one_by_one() -> None:
    frames = MessageStream(Asked(), "req_1").feed(sse(say("a"), *end()))
    assert [frame.count(b"\n\n") for frame in frames] == [1] * 6
    assert all(frame.endswith(b"\n\n") for frame in frames)


def test_nothing_follows_the_end_and_nothing_an_error() -> None:
    for items in ([*end()], [{"error": "x"}]):
        stream = MessageStream(Asked(), "req_1")
        stream.feed(sse(*items))
        assert stream.feed(sse(say("a"), DONE)) == []
        assert stream.end() == []


def test_tokens_are_known_while_they_come() -> None:
    stream = MessageStream(Asked(), "req_1")
    stream.feed(sse(say("a"), think("b"), call(tool(0, "f", "{}"))))
    assert (stream.output_tokens, stream.input_tokens) == (3, None)
    stream.feed(sse(*end()))
    assert (stream.output_tokens, stream.input_tokens) == (3, 7)


def test_an_error_tells_the_request() -> None:
    stream = MessageStream(Asked(), "req_1")
    assert b"".join(stream.end()) == (
        b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"llmgate: the upstream ended its '
        b'stream before the answer was complete (UPSTREAM_ERROR)"},"request_id":"req_1"}\n\n'
    )
    assert stream.failed
    assert stream.started


def test_a_stream_of_a_real_server() -> None:
    """llama-server, gemma-3-270m."""
    seen = seen_in(run(MessageStream(Asked(), "req_1"), [recorded("chat")]))
    assert seen.faults == []
    assert seen.content == [{"type": "text", "text": "hi<|im_end"}]
    assert (seen.stop_reason, seen.model) == ("max_tokens", "gemma-3-270m")
    assert seen.usage == {"input_tokens": 5, "cache_read_input_tokens": 20, "output_tokens": 6}


def _sdk_for(stream: bytes) -> anthropic.Anthropic:
    response = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)
    client = httpx2.Client(transport=httpx2.MockTransport(lambda request: response))
    return anthropic.Anthropic(api_key="k", base_url="http://gate/llm", http_client=client, max_retries=0)


def _read_by_sdk(stream: bytes) -> anthropic.types.Message:
    asked: Any = {"model": "m", "max_tokens": 16, "messages": [{"role": "user", "content": "hi"}]}
    with _sdk_for(stream).messages.stream(**asked) as events:
        return events.get_final_message()


def test_the_official_sdk_reads_the_message() -> None:
    case = CASES["reasoning, text, two tools"]
    message = _read_by_sdk(run(stream_for(case), [case.stream]))
    assert [
        block.model_dump(include=set(wanted)) for block, wanted in zip(message.content, case.content, strict=True)
    ] == (case.content)
    assert (message.stop_reason, message.usage.input_tokens, message.usage.output_tokens) == ("tool_use", 7, 3)


@pytest.mark.parametrize("name", ["an error in the middle", "an error at first", "end of the connection"])
def test_the_official_sdk_raises_the_error(name: str) -> None:
    with pytest.raises(anthropic.APIStatusError):
        _read_by_sdk(run(stream_for(CASES[name]), [CASES[name].stream]))


def test_huge_arguments_pass_whole() -> None:
    code = "x = 1\n" * 500_000
    given = '{"code":' + repr(code).replace("'", '"') + "}"
    seen = translated(call(tool(0, "write", given, id="x")), *end("tool_calls"))
    assert seen.content == [{"type": "tool_use", "id": "x", "name": "write", "input": {"code": code}}]


_GROWING: dict[str, Callable[[int], dict[str, object] | bytes]] = {
    "arguments that wait": lambda _: call(tool(1, "g", "x" * 1000)),
    "a name": lambda number: call(tool(9, f"{number}" * 100, "")),
    "calls that wait": lambda _: call(tool(None, "h", "{}")),
    "calls of which nothing is told": lambda number: call({"index": number}),
    "ids": lambda number: call(tool(number, id="x" * 1000)),
    "calls that are over": lambda number: call(tool(None, "f", '"}', id="x"), tool(number, "f", "{}", id="x")),
    "ids of one call": lambda number: call(tool(0, None, "x" * 99, id=f"{number}" * 9)),
    "text": lambda _: say("x" * 1000),
    "blocks": lambda _: chunk({"content": [{"type": kind, kind: "x"} for kind in ("text", "thinking")] * 9}),
    "data": lambda _: b"data: " + b"x" * 1000 + b"\n",
    "a name of an event": lambda _: b"event: " + b"x" * 1000,
    "lines of data": lambda _: b"data\n" * 100,
    "a comment": lambda _: b":" + b"x" * 1000,
}


@pytest.mark.parametrize("grow", _GROWING.values(), ids=_GROWING.keys())
def test_what_is_kept_is_bounded(grow: Callable[[int], dict[str, object] | bytes]) -> None:
    limit = 100_000
    stream = MessageStream(Asked(), "req_1", limit=limit)
    stream.feed(sse(call(tool(0, "f", '{"a":"', id="x"))))
    tracemalloc.start()
    for number in range(1, 10_000):
        stream.feed(sse(grow(number)))
        if stream.failed:
            break
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert stream.failed
    assert kept < 3 * limit


def test_what_was_sent_is_not_kept() -> None:
    stream = MessageStream(Asked(), "req_1", limit=100_000)
    for _ in range(100):
        stream.feed(sse(say("x" * 1000), think("y" * 1000)))
    for number in range(30):
        stream.feed(sse(call(tool(number, "f", '{"a":"' + "x" * 9000 + '"}', id=f"call_{number}"))))
    assert not stream.failed


@pytest.mark.parametrize(
    "frame",
    [
        sse(say("a")),
        sse(call(tool(0, None, "a"))),
        sse(call(tool(1, "g", "a"))),
        sse(call(tool(0, None, "\\"))),
        b": x\n",
        b"data: x",
    ],
)
def test_the_work_is_linear(frame: bytes) -> None:
    """Four times the bytes, one by one, must not cost sixteen times the work; wide bounds for busy machines."""

    def cost(count: int) -> float:
        stream = MessageStream(Asked(), "req_1")
        stream.feed(sse(call(tool(0, "f", '{"a":"', id="x"))))
        began = time.process_time()
        for byte in frame * count:
            stream.feed(bytes([byte]))
        return time.process_time() - began

    frames = 60_000 // len(frame)
    assert cost(4 * frames) < 9 * min(cost(frames), cost(frames)) + 0.05


def test_an_event_called_error_keeps_its_status() -> None:
    stream = b'event: error\ndata: {"code":503,"message":"the model is busy"}\n\n'
    seen = seen_in(run(MessageStream(Asked(), "req_1"), [stream]))
    assert seen.error == {"type": "overloaded_error", "message": "the model is busy"}
