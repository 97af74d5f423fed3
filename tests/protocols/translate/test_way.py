"""The translated way: what goes to the server, and that its answer, streamed or not, is the same message."""

import json
from typing import Any

import pytest
from anthropic_message import seen_in
from hypothesis import given
from hypothesis import strategies as st

from llmgate.errors import BadRequest, UpstreamFailed
from llmgate.protocols.anthropic import MessagesSurface
from llmgate.protocols.budget import LIMIT
from llmgate.protocols.gather.gatherings import gathering_of
from llmgate.protocols.surface import StreamWatch
from llmgate.protocols.translate.request import Options
from llmgate.protocols.translate.way import Translated
from llmgate.protocols.upstream_error import UpstreamTold
from tests.protocols.streams import cut, recorded
from tests.protocols.translate.openai_streams import CASES, USAGE, Case, say, sse, tool

ASKED = {"model": "nick", "max_tokens": 16, "messages": [{"role": "user", "content": "hi"}]}


def translated(options: Options | None = None, **fields: Any) -> Translated:
    return Translated(json.dumps(ASKED | fields).encode(), options or Options(model="real"), "req_1")


def for_case(case: Case) -> Translated:
    return translated(stop_sequences=list(case.asked))


# ---- the request


def test_the_request_is_one_for_chat_completions() -> None:
    way = translated(stream=True, stop_sequences=["END"])
    assert (way.path, way.keeps_query) == ("/v1/chat/completions", False)
    assert json.loads(way.body) == {
        "model": "real",
        "max_tokens": 16,
        "messages": [{"role": "user", "content": "hi"}],
        "stop": ["END"],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_what_cannot_be_said_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(BadRequest):
        translated(messages=[])


@pytest.mark.parametrize(
    ("sent", "arrived"),
    [
        ({}, {}),
        (
            {b"anthropic-version": b"2023-06-01", b"anthropic-beta": b"x", b"user-agent": b"u", b"accept": b"*/*"},
            {b"user-agent": b"u", b"accept": b"*/*"},
        ),
        ({b"anthropic-dangerous-direct-browser-access": b"true"}, {}),
        ({b"x-api-key": b"secret"}, {b"authorization": b"Bearer secret"}),
        ({b"authorization": b"Bearer other"}, {b"authorization": b"Bearer other"}),
        ({b"x-api-key": b"secret", b"authorization": b"Bearer other"}, {b"authorization": b"Bearer other"}),
        ({b"openai-organization": b"o"}, {b"openai-organization": b"o"}),
    ],
)
def test_headers(sent: dict[bytes, bytes], arrived: dict[bytes, bytes]) -> None:
    before = dict(sent)
    assert translated().headers(sent) == arrived
    assert sent == before


# ---- the stream


@pytest.mark.parametrize(
    ("content_type", "is_one"),
    [(b"text/event-stream", True), (b"Text/Event-Stream; charset=utf-8", True), (b"application/json", False)],
)
def test_a_stream_is_an_event_stream(content_type: bytes, is_one: bool) -> None:
    assert translated().is_stream(content_type) is is_one


def followed(watch: StreamWatch, pieces: list[bytes]) -> bytes:
    return b"".join(map(watch.feed, pieces)) + watch.finish()


@given(st.sampled_from(sorted(CASES)), st.lists(st.integers(0, 10_000), max_size=12))
def test_its_watch_tells_the_message_and_what_becomes_of_it(name: str, places: list[int]) -> None:
    case = CASES[name]
    watch = for_case(case).watch()
    seen = seen_in(followed(watch, cut(case.stream, places)))
    assert (seen.faults, seen.content, seen.stop_reason) == ([], case.content, case.stop)
    assert (watch.complete, watch.failed) == (seen.error is None, seen.error is not None)
    assert (watch.started, watch.inside_event) == (True, False)


def test_its_watch_counts_tokens() -> None:
    watch = translated().watch()
    assert (watch.output_tokens, watch.input_tokens, watch.started) == (0, None, False)
    assert watch.feed(b": c\n\n") == b""
    assert not watch.started
    watch.feed(sse(say("a"), say("b")))
    assert (watch.output_tokens, watch.input_tokens, watch.started) == (2, None, True)
    watch.feed(sse({"choices": [], "usage": {**USAGE, "completion_tokens": 9}}))
    assert (watch.output_tokens, watch.input_tokens) == (9, 7)


@pytest.mark.parametrize("opened", [False, True])
def test_a_byte_order_mark_never_passes(opened: bool) -> None:
    watch = translated().watch()
    watch.opened = opened
    stream = b"\xef\xbb\xbf" + CASES["text"].stream
    assert followed(watch, [stream]) == followed(translated().watch(), [CASES["text"].stream])


def test_two_requests_are_two_messages() -> None:
    def shown(request_id: str) -> bytes:
        way = Translated(json.dumps(ASKED).encode(), Options(), request_id)
        return followed(way.watch(), [CASES["text"].stream])

    assert shown("req_1").replace(b"msg_1", b"msg_2") == shown("req_2")


# ---- the same stream for a client that asked for none


def in_order(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As a whole message of OpenAI's can tell it: thinking, text, then the calls; half a call is left out."""
    said = [
        {"type": kind, kind: "".join(block[kind] for block in content if block["type"] == kind)}
        for kind in ("thinking", "text")
    ]
    calls = [block for block in content if block["type"] == "tool_use" and isinstance(block["input"], dict)]
    return [block for block in said if block[block["type"]]] + calls


def gathered(way: Translated, stream: bytes) -> dict[str, Any]:
    """The message, or the error that is told in its place."""
    gathering = gathering_of(way.path)
    assert gathering is not None
    gathering.feed(stream)
    try:
        body = way.whole(gathering.end())
    except UpstreamTold as error:
        _, body = MessagesSurface().upstream_error_body(error.status, error.body, "req_1")
    except UpstreamFailed as error:
        body = MessagesSurface().error_body(error, "req_1")
    message = json.loads(body)
    assert isinstance(message, dict)
    return message


UNFINISHED = {
    "type": "api_error",
    "message": "llmgate: the upstream ended its stream before the answer was complete (UPSTREAM_ERROR)",
}
BROKEN_CALL = {
    "type": "api_error",
    "message": "llmgate: the upstream sent a tool call whose arguments are no JSON (UPSTREAM_ERROR)",
}


@pytest.mark.parametrize("name", CASES)
def test_a_stream_is_the_same_message_when_it_is_gathered(name: str) -> None:
    case = CASES[name]
    watch = for_case(case).watch()
    seen = seen_in(followed(watch, [case.stream]))
    whole = gathered(for_case(case), case.stream)
    if seen.error is not None:
        message = seen.error["message"].replace(
            "a chunk that is no JSON object", "a part of its answer that cannot be read"
        )
        assert whole["error"] in (seen.error, {**seen.error, "message": message}, UNFINISHED, BROKEN_CALL)
    elif "error" in whole:  # a stream goes on to its end without a reason; a whole answer would have to make one up
        assert whole["error"] == UNFINISHED
        assert name == "other choices" or b'"finish_reason":"' not in case.stream.replace(b" ", b"")
    else:
        for block in whole["content"]:
            block.pop("signature", None)
        assert whole["content"] == in_order(seen.content)
        assert (whole["stop_reason"], whole["stop_sequence"]) == (seen.stop_reason, seen.stop_sequence)
        if watch.input_tokens is not None:  # else both are estimates, of what there is to count
            assert whole["usage"] == seen.usage


# ---- the whole answer, and a stream made of it


def completion(message: Any, finish: Any = "stop", usage: Any = USAGE) -> dict[str, Any]:
    choices = [{"index": 0, "finish_reason": finish, "message": message}]
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage}


def check_same(body: bytes, way: Translated) -> dict[str, Any]:
    """What a client puts together from the stream is the message that is not streamed."""
    message: dict[str, Any] = json.loads(way.whole(body))
    assert way.as_stream is not None
    stream = way.as_stream(body)
    seen = seen_in(stream)
    assert (seen.faults, seen.error) == ([], None)
    assert seen.content == [without_signature(block) for block in message["content"]]
    assert (seen.stop_reason, seen.stop_sequence) == (message["stop_reason"], message["stop_sequence"])
    assert (seen.usage, seen.model) == (message["usage"], message["model"])
    assert json.dumps(message["id"]).encode() in stream
    return message


def without_signature(block: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key != "signature"}


_texts = st.text(max_size=20) | st.sampled_from(
    ["", "a\r\n\r\nb", "\u2028\x85\x0b", "data: [DONE]\n\n", "\ud83d\ude00"]
)
_leaves = st.none() | st.booleans() | st.integers(-9, 9) | _texts
_values = _leaves | st.lists(_leaves, max_size=2) | st.dictionaries(_texts, st.lists(_leaves, max_size=2), max_size=2)
_arguments = st.dictionaries(_texts, _values, max_size=3)


@st.composite
def _calls(draw: st.DrawFn) -> list[dict[str, Any]]:
    """As servers send them in a whole answer: few with an index, and some without an id."""
    index = draw(st.sampled_from([lambda number: None, lambda number: number, lambda number: 0]))
    named_by = draw(st.sampled_from([lambda number: {"id": f"call_{number}"}, lambda number: {"id": ""}, lambda _: {}]))
    given_as = draw(st.sampled_from([json.dumps, lambda found: json.dumps(found, indent=1), lambda found: found]))
    named = draw(st.lists(st.tuples(st.sampled_from(["f", "g"]), _arguments), max_size=3))
    return [
        tool(index(number), name, given_as(arguments), **named_by(number), type="function")
        for number, (name, arguments) in enumerate(named)
    ]


_contents = (
    st.none()
    | _texts
    | st.lists(
        st.builds(lambda said: {"type": "text", "text": said}, _texts)
        | st.builds(lambda said: {"type": "thinking", "thinking": [{"type": "text", "text": said}]}, _texts),
        max_size=3,
    )
)
_messages = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": _contents},
    optional={"reasoning_content": _texts | st.none(), "reasoning": _texts, "tool_calls": _calls(), "refusal": _texts},
)
_usages = st.none() | st.fixed_dictionaries(
    {"prompt_tokens": st.integers(0, 99), "completion_tokens": st.integers(0, 99)},
    optional={"prompt_tokens_details": st.fixed_dictionaries({"cached_tokens": st.integers(0, 120)})},
)
_finishes = st.sampled_from(["stop", "tool_calls", "length", "content_filter", None, "eos"])


@given(_messages, _finishes, _usages, st.sampled_from([None, 2, "\t"]), st.booleans())
def test_a_stream_made_of_a_whole_answer_is_the_same_message(
    message: dict[str, Any], finish: str | None, usage: Any, indent: Any, escaped: bool
) -> None:
    text = json.dumps(completion(message, finish, usage), indent=indent, ensure_ascii=escaped)
    check_same(text.replace("\n", "\r\n").encode("utf-8", "surrogatepass"), translated())


def test_a_stream_made_of_text_reasoning_and_calls() -> None:
    calls = [tool(None, "f", '{"a":1}', id="x"), tool(None, "g", "", id="y")]
    found = completion({"content": "t", "reasoning_content": "r", "tool_calls": calls}, "tool_calls")
    message = check_same(json.dumps(found, indent=2).encode(), translated())
    assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert (message["model"], message["stop_reason"]) == ("nick", "tool_use")
    assert message["usage"] == {"input_tokens": 7, "output_tokens": 3}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"data: {}\n\n",
        b'{"choices":[]}',
        b'{"error":{"message":"slot lost","code":500}}',
        json.dumps(completion({"content": "a"}, "abort")).encode(),
        json.dumps(completion({"tool_calls": [tool(0, "f", '{"a":', id="x")]}, "tool_calls")).encode(),
    ],
)
def test_what_is_no_answer_is_none_as_a_stream_either(body: bytes) -> None:
    """It raises in both: where no byte went out yet, the client still gets a status."""
    for read in (translated().whole, translated().as_stream):
        assert read is not None
        with pytest.raises(UpstreamFailed):
            read(body)


def test_a_whole_answer_may_be_longer_than_what_a_stream_may_keep() -> None:
    found = completion({"content": "x" * LIMIT, "tool_calls": [tool(0, "f", "{}", id="x")]})
    check_same(json.dumps(found).encode(), translated())


def test_a_recorded_stream_is_the_same_as_its_whole() -> None:
    """llama-server, gemma-3-270m: its deltas put together by hand."""
    seen = seen_in(followed(translated().watch(), [recorded("chat")]))
    usage = {"prompt_tokens": 25, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 20}}
    found = completion({"role": "assistant", "content": "hi<|im_end"}, "length", usage)
    message = check_same(json.dumps(found).encode(), translated())
    assert message["content"] == seen.content
    assert (message["stop_reason"], message["usage"]) == (seen.stop_reason, seen.usage)
