"""A request for a whole answer becomes one for a stream."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.protocols.gather.request import as_stream
from tests.protocols.gather.gathered import CHAT, COMPLETIONS, GENERATE, MESSAGES, OLLAMA_CHAT, PATHS, RESPONSES

USAGE = b'{"include_usage":true}'


@pytest.mark.parametrize(
    ("path", "body", "result"),
    [
        (MESSAGES, b'{"model":"m"}', b'{"stream":true,"model":"m"}'),
        (MESSAGES, b'{ "model" : "m" , "stream" : false }', b'{ "model" : "m" , "stream" : true }'),
        (MESSAGES, b'{"stream":null,"model":"m"}', b'{"stream":true,"model":"m"}'),
        (RESPONSES, b'{"model":"m","stream":false}', b'{"model":"m","stream":true}'),
        (OLLAMA_CHAT, b'{"model":"m","stream":false}', b'{"model":"m","stream":true}'),
        (GENERATE, b'{"model":"m","stream":false}', b'{"model":"m","stream":true}'),
        (CHAT, b'{"stream":false,"model":"m"}', b'{"stream_options":' + USAGE + b',"stream":true,"model":"m"}'),
        (
            CHAT,
            b'{"stream_options":{ "include_obfuscation" : false },"model":"m"}',
            b'{"stream":true,"stream_options":{ "include_usage":true,"include_obfuscation" : false },"model":"m"}',
        ),
        (
            CHAT,
            b'{"model":"m","stream_options":{"include_usage": false},"stream":false}',
            b'{"model":"m","stream_options":{"include_usage": true},"stream":true}',
        ),
        (
            COMPLETIONS,
            b'{"model":"m","stream_options":null,"stream":false}',
            b'{"model":"m","stream_options":{"include_usage":true},"stream":true}',
        ),
        (
            COMPLETIONS,
            b'{"model":"m","stream_options":{},"stream":false}',
            b'{"model":"m","stream_options":{"include_usage":true},"stream":true}',
        ),
        (
            CHAT,
            b'{"model":"m","messages":[{"content":"\\"stream\\":false","stream":false}],"str\\u0065am":false}',
            (
                b'{"stream_options":{"include_usage":true},"model":"m","messages":'
                b'[{"content":"\\"stream\\":false","stream":false}],"str\\u0065am":true}'
            ),
        ),
    ],
)
def test_as_stream(path: str, body: bytes, result: bytes) -> None:
    assert as_stream(path, body) == result


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, b'{"model":"m","stream":true}'),
        (OLLAMA_CHAT, b'{"model":"m"}'),
        (GENERATE, b'{"model":"m","stream":null}'),
        (GENERATE, b'{"model":"m","stream":true}'),
        ("/v1/embeddings", b'{"model":"m"}'),
        (CHAT, b'{"model":"m","tomorrow":1}'),
        (CHAT, b'{"model":"m","n":2}'),
        (CHAT, b'{"model":"m","stream_options":5}'),
        (CHAT, b'{"model":"m","stream_options":[]}'),
        (CHAT, b'{"model":"m","stream":false,"stream":false}'),
        (CHAT, b'{"model":"m","stream":0}'),
        (CHAT, b"not JSON"),
        (CHAT, b""),
    ],
)
def test_what_goes_as_it_is(path: str, body: bytes) -> None:
    assert as_stream(path, body) is None


_TEXTS = st.text(max_size=10) | st.sampled_from(['"stream":false', "\\", '{"stream":'])
_BODIES = st.fixed_dictionaries(
    {"model": _TEXTS, "stream": st.just(False)},
    optional={
        "temperature": st.floats(0, 2),
        "stop": st.lists(_TEXTS, max_size=2),
        "tools": st.lists(st.dictionaries(_TEXTS, _TEXTS, max_size=2), max_size=2),
        "stream_options": st.dictionaries(st.sampled_from(["include_usage", "x"]), st.booleans()),
    },
)


@pytest.mark.parametrize("path", PATHS)
@given(body=_BODIES, indent=st.sampled_from([None, 1]))
def test_nothing_else_changes(path: str, body: dict[str, Any], indent: int | None) -> None:
    result = as_stream(path, json.dumps(body, indent=indent).encode())
    if result is None:
        assert path in (MESSAGES, OLLAMA_CHAT, GENERATE)
        assert body.keys() & {"tools", "stop", "temperature", "stream_options"}
        return
    changed = {"stream": True}
    if path in (CHAT, COMPLETIONS):
        changed["stream_options"] = {**body.get("stream_options", {}), "include_usage": True}
    assert json.loads(result) == {**body, **changed}
