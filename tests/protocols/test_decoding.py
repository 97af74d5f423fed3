"""Foreign JSON is decoded, or it is None."""

import msgspec
import pytest

from llmgate.protocols.decoding import decoded, is_json

NUMBERS = msgspec.json.Decoder(list[int])


def test_what_is_expected_is_decoded() -> None:
    assert decoded(NUMBERS, b"[1,2]") == [1, 2]


@pytest.mark.parametrize("data", [b"", b"[1", b'["a"]', b"[1]\xff", b"[" * 100_000])
def test_anything_else_is_none(data: bytes) -> None:
    assert decoded(NUMBERS, data) is None
    assert decoded(msgspec.json.Decoder(msgspec.Raw), b"[" * 100_000) is None


@pytest.mark.parametrize("data", [b"1", b' {"a": [null]} ', b"null"])
def test_one_document_is_json(data: bytes) -> None:
    assert is_json(data)


@pytest.mark.parametrize("data", [b"", b"{", b"{}{}", b"data: {}", b"[" * 100_000])
def test_what_is_not_one_document_is_none(data: bytes) -> None:
    assert not is_json(data)
