"""Decodes foreign JSON of which nothing is sure."""

from typing import TypeVar

import msgspec

T = TypeVar("T")

_ANYTHING = msgspec.json.Decoder(msgspec.Raw)

NULL = msgspec.Raw(b"null")
"""What an absent field is taken for, where a field of any type is allowed."""


def decoded(decoder: msgspec.json.Decoder[T], data: bytes) -> T | None:
    """None where the data is not what the decoder expects."""
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None


def is_json(data: bytes) -> bool:
    """Whether this is one JSON document, whatever is in it."""
    return decoded(_ANYTHING, data) is not None
