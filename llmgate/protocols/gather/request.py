"""Turns a request that asks for a whole answer into the same request for a stream."""

from typing import Final

from llmgate.protocols.gather.fields import may_be_gathered
from llmgate.protocols.gather.members import Members, read_members

_STREAMING_UNLESS_TOLD: Final = frozenset({"/api/chat", "/api/generate"})
_WITH_USAGE: Final = frozenset({"/v1/chat/completions", "/v1/completions"})
"""Where a stream tells its usage only if it is asked to."""


def as_stream(path: str, body: bytes) -> bytes | None:
    """The body asking for a stream; every other byte as it was.

    `path` is that of the surface, without prefix. None: the request streams already, is of a surface without streams,
    or must go as it is, since the answer could come out different (see fields).
    """
    members = read_members(body)
    if members is None or not _asks_for_all(path, members) or not may_be_gathered(path, members):
        return None
    changed = {"stream": b"true"}
    if path in _WITH_USAGE:
        options = _with_usage(members.get("stream_options") or b"null")
        if options is None:
            return None
        changed["stream_options"] = options
    return members.replaced(changed)


def _asks_for_all(path: str, members: Members) -> bool:
    stream = members.get("stream")
    return stream == b"false" or (stream in (None, b"null") and path not in _STREAMING_UNLESS_TOLD)


def _with_usage(options: bytes) -> bytes | None:
    """`stream_options` that ask for usage; None where they are no object."""
    if options in (b"null", b"{}"):
        return b'{"include_usage":true}'
    members = read_members(options)
    return members.replaced({"include_usage": b"true"}) if members else None
