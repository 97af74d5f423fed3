"""Reading and re-addressing a request's body."""

import gc
import json
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from llmgate.errors import BadRequest
from llmgate.protocols import request as request_module
from llmgate.protocols.request import DEPTH_MOST, MODEL_MOST, read_model_request, replace_model

if TYPE_CHECKING:
    from _typeshed import TraceFunction

DEEP = b"[" * 100_000 + b"]" * 100_000

SPELLINGS = [b'"model"', b'"mod\\u0065l"', b'"\\u006dodel"', b'"\\u006D\\u006F\\u0064\\u0065\\u006C"', b'"mo\\u0064el"']

VALUES = [
    b"1e5",
    b"-0.0",
    b"123456789012345678901234567890",
    b'"\\u00e9 \\"model\\": \\\\"',
    b'"\\\\"',
    b'"{[\\"}"',
    b'{"model":"inner","model":"again"}',
    b'[{"model":{"mod\\u0065l":[]}},"model"]',
    b'"model"',
    '"日本語 { [ \'"'.encode(),
    b"[1, 2 ,\t3]",
    b"true",
    b"{}",
]


def refusal(body: bytes) -> str:
    with pytest.raises(BadRequest) as caught:
        read_model_request(body)
    return str(caught.value)


def test_what_is_read() -> None:
    body = b'{"messages":[{"role":"user","content":"hi"}],"model":"reasoning","stream":true,"max_tokens":16}'
    request = read_model_request(body)
    assert (request.model, request.stream, request.session, request.purpose) == ("reasoning", True, "", "")
    assert request.body is body


@pytest.mark.parametrize(("stream", "read"), [(b"true", True), (b"false", False), (b"null", False)])
def test_stream(stream: bytes, read: bool) -> None:
    assert read_model_request(b'{"model":"m","stream":' + stream + b"}").stream is read


def test_stream_left_out_is_what_the_surface_says() -> None:
    for body in (b'{"model":"m"}', b'{"model":"m","stream":null}'):
        assert read_model_request(body).stream is False
        assert read_model_request(body, streams=True).stream is True
    assert read_model_request(b'{"model":"m","stream":false}', streams=True).stream is False


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not valid JSON"),
        (b"nonsense", "not valid JSON"),
        (b'{"model":"m"', "not valid JSON"),
        (b'{"model":"m"} {}', "not valid JSON"),
        (b'{"model":"m","x":NaN}', "not valid JSON"),
        (b'{"model":"m","x":-Infinity}', "not valid JSON"),
        (b'{"model":"m","x":"\xff"}', "not valid JSON"),
        (b'{"model":"m","\xc3":1}', "not valid JSON"),
        (b'{"model":"\xff"}', "not valid JSON"),
        (b'{"model":"\\ud800"}', "not valid JSON"),
        (b'\xef\xbb\xbf{"model":"m"}', "not valid JSON"),
        ('{"model":"m"}'.encode("utf-16"), "not valid JSON"),
        (b"[]", "not a JSON object"),
        (b'"model"', "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"{}", "names no model"),
        (b'{"MODEL":"m"}', "names no model"),
        (b'{"model":null}', "the model is not a string"),
        (b'{"model":5}', "the model is not a string"),
        (b'{"model":["m"]}', "the model is not a string"),
        (b'{"model":"m","stream":1}', "stream is neither true nor false"),
        (b'{"model":"m","stream":"true"}', "stream is neither true nor false"),
        (b'{"model":""}', "empty, too long or holds control"),
        (b'{"model":"a\\nb"}', "empty, too long or holds control"),
        (b'{"model":"a\\u001bb"}', "empty, too long or holds control"),
        (b'{"model":"a\\u009bb"}', "empty, too long or holds control"),
        (b'{"model":"a\\u202eb"}', "empty, too long or holds control"),
        (b'{"model":"' + b"m" * (MODEL_MOST + 1) + b'"}', "empty, too long or holds control"),
        (b'{"model":"m","x":' + DEEP + b"}", "nested too deeply"),
        (b'{"model":"m","metadata":' + DEEP + b"}", "nested too deeply"),
        (b'{"model":"a","model":"b"}', "names its model twice"),
    ],
)
def test_what_is_refused(body: bytes, reason: str) -> None:
    message = refusal(body)
    assert reason in message
    assert message.startswith("llmgate: ")
    assert message.endswith(" (BAD_REQUEST)")
    assert not any(letter.isdigit() for letter in message)


@pytest.mark.parametrize("model", ["m", "qwen2.5:3b-instruct", "org/модель v2", "日本語", "m" * MODEL_MOST])
def test_model_names_that_are_taken(model: str) -> None:
    assert read_model_request(json.dumps({"model": model}).encode()).model == model
    assert read_model_request(json.dumps({"model": model}, ensure_ascii=False).encode()).model == model


CLAUDE_OLD = "user_0ab1_account_6f2c_session_a61e6e40-1111"
CLAUDE_NEW = json.dumps({"device_id": "d", "account_uuid": "", "session_id": "a61e6e40-2222"})


@pytest.mark.parametrize(
    ("fields", "session"),
    [
        ({"metadata": {"user_id": "u1"}}, "u1"),
        ({"metadata": {"user_id": CLAUDE_OLD}}, "a61e6e40-1111"),
        ({"metadata": {"user_id": CLAUDE_NEW}}, "a61e6e40-2222"),
        ({"metadata": {"user_id": "{broken"}}, ""),
        ({"metadata": {"user_id": '{"other":1}'}, "user": "u2"}, "u2"),
        ({"metadata": {"user_id": 5}, "user": "u2"}, "u2"),
        ({"metadata": [], "user": "u2"}, "u2"),
        ({"metadata": None, "user": None, "prompt_cache_key": None}, ""),
        ({"user": "u2"}, "u2"),
        ({"user": {"id": 1}}, ""),
        ({"prompt_cache_key": "p", "user": "u2", "metadata": {"user_id": "u1"}}, "p"),
        ({"prompt_cache_key": "", "user": "u2"}, "u2"),
        ({"prompt_cache_key": "a\nb", "user": "u2"}, "u2"),
        ({"prompt_cache_key": "a\x1b[31m"}, ""),
        ({"prompt_cache_key": "p" * 300}, "p" * 256),
        ({"prompt_cache_key": "p" * 20_000, "user": "u2"}, "u2"),
        ({"metadata": {"user_id": "u1", "more": "x" * 20_000}}, ""),
        ({"metadata": {"user_id": '{"session_id":' + "[" * 5_000}}, ""),
    ],
)
def test_session(fields: dict[str, Any], session: str) -> None:
    assert read_model_request(json.dumps({"model": "m", **fields}).encode()).session == session


@pytest.mark.parametrize("first", SPELLINGS)
@pytest.mark.parametrize("second", SPELLINGS)
@pytest.mark.parametrize("between", VALUES)
def test_two_models_are_refused_in_every_spelling(first: bytes, second: bytes, between: bytes) -> None:
    body = b'{"x":' + between + b"," + first + b' :"a","y":' + between + b"," + second + b':\n"b","z":' + between + b"}"
    assert "names its model twice" in refusal(body)
    assert "names its model twice" in refusal(b"{" + first + b':"a",' + second + b':"a"}')


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("around", VALUES)
def test_inner_models_do_not_count(spelling: bytes, around: bytes) -> None:
    body = b'{"x":' + around + b"," + spelling + b':"a","y":' + around + b"}"
    assert read_model_request(body).model == "a"


def test_a_key_that_only_ends_like_model_is_another() -> None:
    body = b'{"\\"model":1,"a\\\\\\"model" :2,"model":"a","supermodel":3,"model ":4,"\\u0060model":5}'
    assert read_model_request(body).model == "a"
    assert replace_model(body, "b") == body.replace(b'"a"', b'"b"')


IN_CAPITALS = [b'"MODEL"', b'"Model"', b'"mod\\u0045l"', b'"\\u004dodel"', b'"m\\u004f\\u0044e\\u004C"']


@pytest.mark.parametrize("other", IN_CAPITALS)
def test_a_parser_that_does_not_tell_capitals_finds_one_model_too(other: bytes) -> None:
    """Go's, so Ollama's: it would take the last of the two."""
    assert "names its model twice" in refusal(b'{"model":"a",' + other + b':"b"}')
    assert "names its model twice" in refusal(b"{" + other + b':"b","x":[{"model":"c"}],"model":"a"}')
    assert "names no model" in refusal(b"{" + other + b':"a"}')
    inner = b'{"x":{' + other + b':"b"},"model":"a","y":[{' + other + b":1}]}"
    assert read_model_request(inner).model == "a"
    assert json.loads(replace_model(inner, "c"))["model"] == "c"


@pytest.mark.parametrize("inside", [b"%b", b'[{"a":"]}{","b":[]},%b,[]]', b'{"\\"[":[[]],"x":%b,"y":"[[[["}'])
def test_how_deep_a_body_may_be(inside: bytes) -> None:
    around = 1 + (inside != b"%b")
    for deep, taken in ((DEPTH_MOST - around, True), (DEPTH_MOST - around + 1, False)):
        body = b'{"x":' + inside % (b"[" * deep + b"]" * deep) + b',"model":"m"}'
        if taken:
            assert read_model_request(body).model == "m"
        else:
            assert "nested too deeply" in refusal(body)


def test_many_brackets_beside_each_other_are_not_deep() -> None:
    wide = b"[" + b'[{"a":[]}],' * 20_000 + b'"' + b"[" * 500 + b'"]'
    assert read_model_request(b'{"model":"m","x":' + wide + b"}").model == "m"


def test_many_inner_models_are_read_and_too_many_refused() -> None:
    """Each of them is looked at on its own: a body full of them would hold up everybody else."""
    body = b'{"x":[%b{}],"model":"a"}'
    assert read_model_request(body % (b'{"model":1},' * 9_000)).model == "a"
    with pytest.raises(BadRequest, match="too many"):
        read_model_request(body % (b'{"model":1},' * 20_000))


def test_a_body_without_model_cannot_be_given_one() -> None:
    for body in (b"{}", b'{"x":{"model":"a"}}', b'{"model":5}'):
        with pytest.raises(BadRequest):
            replace_model(body, "b")


spaces = st.text(alphabet=" \t\r\n", max_size=2).map(str.encode)
raw_values = st.sampled_from(VALUES) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["model", "a", 'x"', "\\"]), inner, max_size=3)
    ),
    max_leaves=8,
).map(lambda value: json.dumps(value).encode()).filter(lambda text: b"\\ud" not in text)
other_keys = st.sampled_from([b'"x"', b'"x"', b'"messages"', b'"\\"model"', b'"\\\\"', b'"stre\\u0061n"', b'"models"'])


@st.composite
def bodies(draw: st.DrawFn, models: int = 1) -> tuple[list[bytes], bytes]:
    """(what stands around the model's value, its value); other keys may repeat."""
    pairs = draw(st.lists(st.tuples(other_keys, raw_values), max_size=4))
    before = draw(st.integers(0, len(pairs)))

    def written(pair: tuple[bytes, bytes]) -> bytes:
        return draw(spaces) + pair[0] + draw(spaces) + b":" + draw(spaces) + pair[1] + draw(spaces)

    head = draw(spaces) + b"{" + b"".join(written(pair) + b"," for pair in pairs[:before])
    head += draw(spaces) + draw(st.sampled_from(SPELLINGS)) + draw(spaces) + b":" + draw(spaces)
    tail = draw(spaces) + b"".join(b"," + written(pair) for pair in pairs[before:]) + b"}" + draw(spaces)
    return [head, tail], draw(st.sampled_from([b'"old"', b'"o\\"l\\\\d"', b'"\\u006f"', '"ö"'.encode()]))


@given(bodies(), st.text(alphabet=st.characters(exclude_categories=["C"]), min_size=1, max_size=20))
@example(([b'{"x":1e5,"x":123456789012345678901234567890,"model":', b"}"], b'"a"'), "b")
def test_only_the_models_value_changes(body: tuple[list[bytes], bytes], model: str) -> None:
    (head, tail), old = body
    assert read_model_request(head + old + tail).model == json.loads(old)
    changed = replace_model(head + old + tail, model)
    assert changed.startswith(head)
    assert changed.endswith(tail)
    assert json.loads(changed[len(head) : len(changed) - len(tail)]) == model


def outermost_models(body: bytes) -> list[Any]:
    """Python's own parser; the outermost object is the last one that it finishes."""
    pairs: list[tuple[str, Any]] = []

    def keep(found: list[tuple[str, Any]]) -> dict[str, Any]:
        pairs[:] = found
        return dict(found)

    json.loads(body, object_pairs_hook=keep)
    return [value for key, value in pairs if key == "model"]


@given(st.lists(st.tuples(st.sampled_from(SPELLINGS) | other_keys, raw_values | st.just(b'"a"')), max_size=5))
def test_what_is_taken_agrees_with_another_parser(pairs: list[tuple[bytes, bytes]]) -> None:
    body = b"{" + b",".join(key + b":" + value for key, value in pairs) + b"}"
    agree(body)
    for window in (1, 2, 7):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(request_module, "_WINDOW", window)
            agree(body)


def agree(body: bytes) -> None:
    models = outermost_models(body)
    try:
        request = read_model_request(body)
    except BadRequest:
        assert len(models) != 1 or not isinstance(models[0], str) or not models[0] or not models[0].isprintable()
    else:
        assert models == [request.model]


json_text = (
    st.binary() | st.text().map(str.encode) | st.text(alphabet='{}[]":,\\u0065model truefalsn1.e-\n').map(str.encode)
)


@given(json_text, json_text, st.sampled_from(VALUES + SPELLINGS + [b'{"model":"m"', b"}", b""]))
def test_nothing_but_bad_request_is_raised(first: bytes, second: bytes, middle: bytes) -> None:
    for body in (first, first + middle + second, b'{"model":"m","x":' + first + b"}", b'{"model":' + middle + first):
        try:
            request = read_model_request(body)
        except BadRequest:
            continue
        assert json.loads(replace_model(body, "other"))["model"] == "other"
        assert json.loads(body)["model"] == request.model


def depth_of(value: Any) -> int:
    if isinstance(value, (list, dict)):
        return 1 + max(map(depth_of, value.values() if isinstance(value, dict) else value), default=0)
    return 0


@given(st.lists(raw_values, max_size=4), st.integers(1, 8), st.integers(1, 9))
def test_depth_is_that_of_another_parser(values: list[bytes], most: int, window: int) -> None:
    body = b'{"model":"m","x":[' + b",".join(values) + b"]}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request_module, "_WINDOW", window)
        patch.setattr(request_module, "DEPTH_MOST", most)
        try:
            read_model_request(body)
        except BadRequest as error:
            taken = "deeply" not in str(error)
        else:
            taken = True
    assert taken is (depth_of(json.loads(body)) <= most)


LARGE = 8 << 20
LARGE_TEXTS = {
    "objects": b'{"model":"m","messages":[' + b'{"a":1},' * (LARGE // 8) + b"{}]}",
    "one string": b'{"model":"m","messages":["' + b"A" * LARGE + b'"]}',
    "escapes": b'{"model":"m","messages":["' + b'\\"\\\\' * (LARGE // 4) + b'"]}',
    "backslashes": b'{"model":"m","messages":["' + b"\\\\" * (LARGE // 2) + b'"]}',
    "characters": b'{"model":"m","messages":["' + "\u00e9".encode() * (LARGE // 2) + b'"]}',
    "models": b'{"model":"m","messages":[' + b'{"model":1},' * 5_000 + b'"' + b"A" * LARGE + b'"]}',
}


@pytest.mark.parametrize("body", LARGE_TEXTS.values(), ids=LARGE_TEXTS)
def test_no_step_but_the_decoder_takes_more_than_a_small_part(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line of code is one call in C at least, which nothing else can run beside. In time of this thread's own, and
    as a part of the whole: so it does not matter how fast the machine is, and what else it does."""
    spent: list[float] = []
    before = time.thread_time()

    def trace(frame: FrameType, event: str, argument: object) -> "TraceFunction":
        nonlocal before
        now = time.thread_time()
        spent.append(now - before)
        before = time.thread_time()
        return trace

    read_model_request(body)
    monkeypatch.setattr(request_module, "_HEAD", DecodedAlready(body))
    old = sys.gettrace()
    gc.disable()
    sys.settrace(trace)
    try:
        before = time.thread_time()
        read_model_request(body)
    finally:
        sys.settrace(old)
        gc.enable()
    started = time.thread_time()
    body.translate(None, b"[{")
    whole = time.thread_time() - started
    assert max(spent) < max(whole / 4, 0.004), "one pass over the whole body in one call"


class DecodedAlready:
    def __init__(self, body: bytes) -> None:
        self.head = request_module._HEAD.decode(body)

    def decode(self, _: bytes) -> Any:
        return self.head
