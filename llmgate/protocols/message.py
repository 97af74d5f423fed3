"""The text of an error as a client gets it: without secrets, control characters or HTML, and of bounded length."""

import re

MOST = 2_000
"""Characters of a message."""

_SECRETS = (
    (re.compile(r"\b(bearer)\s+[\w.~+/=*-]+", re.IGNORECASE), r"\1 ***"),
    (re.compile(r"\b(basic)\s+[\w+/=]{16,}", re.IGNORECASE), r"\1 ***"),
    (re.compile(r"\bsk-[\w*-]{3,}"), "***"),
    (re.compile(r"\b(?:hf_|gsk_|xai-|gh[opsu]_|AIza|eyJ)[\w.-]{16,}"), "***"),
    (
        re.compile(r"((?:api|access|secret)[-_ ]?(?:key|token)[\"']?\s*[:=]\s*[\"']?)[^\s\"',;}\\]+", re.IGNORECASE),
        r"\1***",
    ),
    (re.compile(r"(://)[^/\s@\"]+@"), r"\1***@"),
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_HTML = re.compile(r"<(?:!doctype|html|head|body|title|center|h1|div|p|script)\b", re.IGNORECASE)


def tidy(text: str) -> str:
    """The text that may go out; the same text where nothing is wrong with it."""
    text = mask(_CONTROL.sub("", text))
    return text if len(text) <= MOST else text[: MOST - 1] + "…"


def mask(text: str) -> str:
    """Whatever looks like a key becomes `***`."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def mask_bytes(data: bytes) -> bytes:
    """The same of bytes. Whatever else is in them stays, be it no UTF-8."""
    return mask(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def is_html(text: str) -> bool:
    """Whether it is a page, or a piece of one, made for a browser."""
    return _HTML.search(text) is not None
