"""Reads from a request's JSON body what routing, log and feed need, and replaces its model.

Only five keys of the outermost object are decoded; msgspec checks the grammar of the rest without building it.

One body, one model: parsers take the first or the last of two equal keys in silence, and some (that of Go, so Ollama)
do not tell MODEL from model, so a body with two outermost `model` keys could be routed by one and served by the other.
The rule: of the outermost keys exactly one may be `model`, once escapes are read ("mod\\u0065l") and case is set aside,
and that one is in lower case. One quick search finds all such keys at any depth; only where there are two or more (tool
schemas have them) brackets are counted to tell which are outermost. A body is nested DEPTH_MOST deep at most: servers
take less than we do, and not all of them survive more. Both rely on the body being valid JSON and come after decoding.
"""

import codecs
import re
from collections.abc import Iterator
from itertools import accumulate, islice

import msgspec

from llmgate.errors import BadRequest
from llmgate.protocols.decoding import NULL, T, decoded
from llmgate.protocols.surface import ModelRequest

MODEL_MOST = 256
"""Characters of a model name."""
_SESSION_MOST = 256
_FIELD_MOST = 16_384

DEPTH_MOST = 128
"""Brackets inside each other; the limit of serde_json, which some servers read with."""

_MODEL = re.compile(
    rb'"(?<!\\")(?:[mM]|\\u00[46][dD])(?:[oO]|\\u00[46][fF])(?:[dD]|\\u00[46]4)(?:[eE]|\\u00[46]5)(?:[lL]|\\u00[46][cC])"'
)
_MODEL_MOST_BYTES = 32
_COLON = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*")
# A quote that opens a string has no backslash before it, and no letter follows one that closes it: in valid JSON each
# match that a colon follows is a whole key.
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_WINDOW = 65_536
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class _Head(msgspec.Struct):
    model: str
    stream: bool | None = None
    metadata: msgspec.Raw = NULL
    user: msgspec.Raw = NULL
    prompt_cache_key: msgspec.Raw = NULL


class _Metadata(msgspec.Struct):
    user_id: str = ""


class _ClaudeCodeUser(msgspec.Struct):
    session_id: str = ""


_HEAD = msgspec.json.Decoder(_Head)
_METADATA = msgspec.json.Decoder(_Metadata)
_CLAUDE_CODE_USER = msgspec.json.Decoder(_ClaudeCodeUser)
_TEXT = msgspec.json.Decoder(str)


def read_model_request(body: bytes, *, streams: bool = False) -> ModelRequest:
    """What a body asks for; BadRequest where it cannot be read, and nothing else.

    `streams` is what a body means that says nothing of `stream`.
    """
    head = _read_head(body)
    if not head.model or len(head.model) > MODEL_MOST or not head.model.isprintable():
        raise _bad("the model name is empty, too long or holds control characters")
    _refuse_two_models(body)
    _refuse_deep(body)
    stream = streams if head.stream is None else head.stream
    return ModelRequest(model=head.model, stream=stream, body=body, session=_session(head))


def replace_model(body: bytes, model: str) -> bytes:
    """A body that `read_model_request` took, with another model; every other byte as it was."""
    start = next(_model_values(body), 0)
    value = _STRING.match(body, start)
    if not value:
        raise _bad("the body names no model")
    view = memoryview(body)  # the rest is copied once only: that is one call as well
    return b"".join((view[:start], msgspec.json.encode(model), view[value.end() :]))


def _read_head(body: bytes) -> _Head:
    try:
        if not body.isascii():
            _check_utf8(body)  # msgspec does not look into the strings that it skips
        return _HEAD.decode(body)
    except msgspec.ValidationError as error:
        raise _bad(_what_is_wrong(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _bad("the body is not valid JSON") from None
    except RecursionError:
        raise _bad("the body is nested too deeply") from None


def _check_utf8(body: bytes) -> None:
    """Raises UnicodeDecodeError. In windows: one call would hold up all threads for as long as it takes."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(body), _WINDOW):
        decoder.decode(body[start : start + _WINDOW])
    decoder.decode(b"", final=True)


def _what_is_wrong(found: str) -> str:
    """Our words for msgspec's, which end in the path of the value at fault."""
    if found.endswith("`$.model`"):
        return "the model is not a string"
    if found.endswith("`$.stream`"):
        return "stream is neither true nor false"
    if found.endswith("field `model`"):
        return "the body names no model"
    return "the body is not a JSON object"


_MODEL_KEYS_READ = 10_000
"""Each takes a step of its own: more of them, at whatever depth, would hold up everybody else."""


def _refuse_two_models(body: bytes) -> None:
    if len(list(islice(_model_keys(body), 2))) > 1 and len(list(islice(_model_values(body), 2))) > 1:
        raise _bad("the body names its model twice")


def _model_keys(body: bytes) -> Iterator[tuple[int, int]]:
    """Where such a key begins, and where its value does. In windows: one search holds up all threads until it ends."""
    for start in range(0, len(body), _WINDOW):
        for found in _MODEL.finditer(body, start, start + _WINDOW + _MODEL_MOST_BYTES - 1):
            if found.start() < start + _WINDOW and (colon := _COLON.match(body, found.end())):
                yield found.start(), colon.end()


def _model_values(body: bytes) -> Iterator[int]:
    """Where the values of the outermost object's `model` keys begin. Linear in the length of the body."""
    depth = start = 0
    for number, (begin, end) in enumerate(_model_keys(body)):
        if number == _MODEL_KEYS_READ:
            raise _bad("the body has too many keys called model")
        depth += _nesting(body, start, begin)
        start = end
        if depth == 1:
            yield start


def _nesting(body: bytes, start: int, end: int) -> int:
    """Opening less closing brackets in a piece of JSON that begins and ends outside of strings."""
    return sum(2 * _opening(brackets) - len(brackets) for brackets in _brackets(body, start, end))


def _refuse_deep(body: bytes) -> None:
    depth = 0
    for brackets in _brackets(body, 0, len(body)) if _has_many_brackets(body) else ():
        opening = _opening(brackets)
        if depth + opening > DEPTH_MOST and _deepest(brackets, depth) > DEPTH_MOST:
            raise _bad("the body is nested too deeply")
        depth += 2 * opening - len(brackets)


def _has_many_brackets(body: bytes) -> bool:
    opening = 0
    for start in range(0, len(body), _WINDOW):
        opening += _opening(body[start : start + _WINDOW])
        if opening > DEPTH_MOST:
            return True
    return False


def _deepest(brackets: bytes, depth: int) -> int:
    return max(accumulate(map(_STEPS.__getitem__, brackets), initial=depth))


def _opening(text: bytes) -> int:
    return len(text) - len(text.translate(None, b"[{"))


def _brackets(body: bytes, start: int, end: int) -> Iterator[bytes]:
    """The brackets that are outside of strings, in a piece of JSON that begins outside of them.

    Without its escapes every other part between two quotes is outside of a string.
    """
    inside = 0
    for text in _without_escapes(body, start, end):
        parts = text.split(b'"')
        yield b"".join(parts[inside::2]).translate(None, _NO_BRACKETS)
        inside = (inside + len(parts) - 1) % 2


def _without_escapes(body: bytes, start: int, end: int) -> Iterator[bytes]:
    """In windows, none of which ends inside an escape: a list of parts is many times as large as its text, and one call
    for all of a body would hold up all threads."""
    while start < end:
        text = body[start : min(start + _WINDOW, end)]
        if (len(text) - len(text.rstrip(b"\\"))) % 2:
            text = body[start : min(start + _WINDOW + 1, end)]
        start += len(text)
        yield text.replace(b"\\\\", b"").replace(b'\\"', b"")


def _session(head: _Head) -> str:
    for text in (_text(head.prompt_cache_key), _user_id(head.metadata), _text(head.user)):
        if text and text.isprintable():
            return text[:_SESSION_MOST]
    return ""


def _text(raw: msgspec.Raw) -> str:
    return _short(_TEXT, bytes(raw)) or ""


def _user_id(raw: msgspec.Raw) -> str:
    """`metadata.user_id`; Claude Code's is "user_..._account_..._session_ID" or, newer, an object inside the string."""
    metadata = _short(_METADATA, bytes(raw))
    text = metadata.user_id if metadata else ""
    if text.startswith("{"):
        user = _short(_CLAUDE_CODE_USER, text.encode())
        text = user.session_id if user else ""
    return text.rpartition("_session_")[2]


def _short(decoder: msgspec.json.Decoder[T], raw: bytes) -> T | None:
    """None where it is of another type, or longer than anything worth showing."""
    return decoded(decoder, raw) if len(raw) <= _FIELD_MOST else None


def _bad(reason: str) -> BadRequest:
    return BadRequest(f"llmgate: {reason} (BAD_REQUEST)")
