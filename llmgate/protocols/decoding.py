"""Decodes foreign JSON of which nothing is sure."""

from typing import TypeVar

import msgspec

T = TypeVar("T")

NULL = msgspec.Raw(b"null")
"""What an absent field is taken for, where a field of any type is allowed."""


def decoded(decoder: msgspec.json.Decoder[T], data: bytes) -> T | None:
    """None where the data is not what the decoder expects."""
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
