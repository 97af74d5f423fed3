"""JSON of upstreams: strict where it can be, else what can be made of it."""

import json
from typing import Any

import pytest

from llmgate.protocols.document import is_object, read_object, read_string, write_object

DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'{"a":1}', {"a": 1}),
        (b' {"a":\n1} ', {"a": 1}),
        (b'{"a":"\\ud83d"}', {"a": "\ud83d"}),
        (b'{"a":"\\ud83d\\ude00"}', {"a": "\U0001f600"}),
        (b'{"a":"\xc3"}', {"a": "\ufffd"}),
        (b'{"a":-Infinity}', {"a": float("-inf")}),
        (b"[1]", None),
        (b'["\\ud83d"]', None),
        (b"5", None),
        (b"null", None),
        (b"", None),
        (b"{", None),
        (b'{"a":' + b"1" * 5000 + b"}", None),
        (DEEP, None),
    ],
)
def test_an_object_is_read(data: bytes, found: Any) -> None:
    assert read_object(data) == found


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        (b'{"a":1}', True),
        (b'{"a":"\\ud83d"}', True),
        (b'{"a":NaN}', False),
        (b'{"a":1}}', False),
        (b"[1]", False),
        (b'["\\ud83d"]', False),
        (b"", False),
        (DEEP, False),
    ],
)
def test_what_every_client_can_read(text: bytes, valid: bool) -> None:
    assert is_object(text) is valid


@pytest.mark.parametrize(("text", "found"), [('"a"', "a"), ('"\\u00e9"', "é"), ("5", None), ('"a', None), ("", None)])
def test_a_string_is_read(text: str, found: str | None) -> None:
    assert read_string(text) == found


def test_an_object_is_written() -> None:
    assert write_object({"a": [1, "é"]}) == '{"a":[1,"é"]}'
    assert write_object({"a": "\ud83d"}) == '{"a":"\\ud83d"}'


def test_an_object_that_is_too_deep_is_not_written() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert write_object(deep) == ""
    assert json.loads(write_object({})) == {}
