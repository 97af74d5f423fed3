"""Decodes what an upstream sends as JSON, also where it is slightly broken.

msgspec takes strict JSON only. Seen beyond it: half of a surrogate pair (proxies in JavaScript that cut text by code
units), a character that was cut between its bytes, and NaN among log probabilities (servers in Python).
"""

import json
from typing import Any, NoReturn

import msgspec

_OBJECT = msgspec.json.Decoder(dict[str, Any])


def read_object(data: bytes) -> dict[str, Any] | None:
    """None where the data is no JSON object. Texts in it may hold single surrogates: see Seam."""
    try:
        return _OBJECT.decode(data)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, RecursionError):
        found = _loads(data.decode("utf-8", "replace"))
        return found if isinstance(found, dict) else None


def write_object(found: dict[str, Any]) -> str:
    """What `read_object` read, as JSON without blanks; "" where it is nested too deeply for that."""
    try:
        return msgspec.json.encode(found).decode()
    except UnicodeEncodeError:
        return json.dumps(found, separators=(",", ":"))
    except RecursionError:
        return ""


def is_object(text: bytes) -> bool:
    """Whether it is one JSON object that every client can read; a single escaped surrogate is left to the client."""
    try:
        _OBJECT.decode(text)
    except msgspec.ValidationError:
        return False
    except (msgspec.DecodeError, RecursionError):
        return isinstance(_loads(text.decode(), constants=False), dict)
    return True


def read_string(text: str) -> str | None:
    """None where the text is no JSON string."""
    found = _loads(text)
    return found if isinstance(found, str) else None


def _loads(text: str, *, constants: bool = True) -> Any:
    """None where it cannot be read; `constants`: NaN and Infinity may stand in it."""
    try:
        return json.loads(text, parse_constant=None if constants else _refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
