"""complaint: our words for msgspec's."""

import msgspec
import pytest

from llmgate.protocols.translate.complaint import complaint


class _Inner(msgspec.Struct):
    name: str


class _Outer(msgspec.Struct):
    inner: list[_Inner]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[]", "it is not of the type that it must be"),
        (b"{}", "it lacks inner"),
        (b'{"inner":5}', "inner is not of the type that it must be"),
        (b'{"inner":[5]}', "inner is not of the type that it must be"),
        (b'{"inner":[{}]}', "it lacks name"),
        (b'{"inner":[{"name":"a"},{"name":5}]}', "inner.name is not of the type that it must be"),
    ],
)
def test_what_is_wrong(data: bytes, said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as error:
        msgspec.json.decode(data, type=_Outer)
    assert complaint(str(error.value), "it") == said


def test_what_is_wrong_in_a_list() -> None:
    with pytest.raises(msgspec.ValidationError) as error:
        msgspec.json.decode(b'[{"name":5}]', type=list[_Inner])
    assert complaint(str(error.value), "it") == "name is not of the type that it must be"
