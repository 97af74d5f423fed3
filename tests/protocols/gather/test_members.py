"""Members of an object: where they stand, what is replaced, what stays."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.protocols.gather.members import read_members


def replaced(body: bytes, **values: bytes) -> bytes:
    members = read_members(body)
    assert members is not None
    return members.replaced(values)


@pytest.mark.parametrize(
    ("body", "values", "result"),
    [
        (b'{"a":1}', {"a": b"2"}, b'{"a":2}'),
        (b' {\n "a" : 1 , "b" : [1, {"a":5}] }\n', {"a": b"2"}, b' {\n "a" : 2 , "b" : [1, {"a":5}] }\n'),
        (b'{"a":1,"b":2}', {"b": b"true", "a": b"false"}, b'{"a":false,"b":true}'),
        (b'{"a":1}', {"b": b"2"}, b'{"b":2,"a":1}'),
        (b'{ "a":1 }', {"b": b"2", "a": b"3"}, b'{ "b":2,"a":3 }'),
        (b'{"\\u0061":"x\\"}"}', {"a": b"2"}, b'{"\\u0061":2}'),
        (b'{"b":"\\"a\\":1","a":{}}', {"a": b"2"}, b'{"b":"\\"a\\":1","a":2}'),
        (b'{"a":1}', {}, b'{"a":1}'),
        ('{"ä":"ö","a":1}'.encode(), {"a": b"2"}, '{"ä":"ö","a":2}'.encode()),
    ],
)
def test_replaced(body: bytes, values: dict[str, bytes], result: bytes) -> None:
    assert replaced(body, **values) == result


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b" { } ",
        b"[1]",
        b"5",
        b'{"a":1',
        b'{"a":1}x',
        b'{"a":1,"a":2}',
        b'{"a":1,"b":2,"a":1}',
        b'{"a":1,"a":1,"b":2}',
        b'{"a":1,"a":1}',
        b'{"a":1,"\\u0061":1}',
        b'{"a":12,"a":1}',
        b'{"a":1,"b":1,"a":12}',
        b'{"a":' * 100_000,
    ],
)
def test_what_has_no_members(body: bytes) -> None:
    assert read_members(body) is None


def test_keys_and_values() -> None:
    members = read_members(b'{"a": [1, 2] , "b":null}')
    assert members is not None
    assert members.keys == {"a", "b"}
    assert members.get("a") == b"[1, 2]"
    assert members.get("b") == b"null"
    assert members.get("c") is None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(['"', "\\", '\\"', "},{"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(max_size=6), _JSON, min_size=1, max_size=6),
    _JSON,
    st.data(),
    st.sampled_from([None, 2]),
    st.booleans(),
)
def test_only_the_value_changes(
    document: dict[str, Any], value: Any, data: st.DataObject, indent: int | None, ascii_only: bool
) -> None:
    body = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    key = data.draw(st.sampled_from(sorted(document)) | st.text(max_size=6))
    members = read_members(body.encode())
    assert members is not None
    changed = members.replaced({key: json.dumps(value).encode()})
    assert json.loads(changed) == {**document, key: value}
    if key in document:
        kept = read_members(changed)
        assert kept is not None
        assert kept.replaced({key: members.get(key) or b""}) == body.encode()
