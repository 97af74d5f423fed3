"""Who is asking: session, purpose and client of a request, from headers that clients send anyway.

Everything that comes out is printable, on one line and short: it is shown in logs and on terminals.
"""

import re
from collections.abc import Sequence

import msgspec

from llmgate.server.asgi import Headers

_LONGEST = 128
_PRODUCT = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z][A-Za-z0-9._-]*(?=[ /]|$))?")
_VERSION = re.compile(r"[ /]v?([0-9][A-Za-z0-9._+-]*)")

CLIENTS = {
    "anthropic/python": "anthropic-python",
    "asyncanthropic/python": "anthropic-python",
    "anthropic/js": "anthropic-js",
    "openai/python": "openai-python",
    "asyncopenai/python": "openai-python",
    "openai/js": "openai-js",
    "codex_cli_rs": "codex",
    "codex_exec": "codex",
    "codex-tui": "codex",
    "codex_vscode": "codex",
    "python-httpx": "httpx",
    "python-requests": "requests",
}


class _CodexTurn(msgspec.Struct):
    request_kind: str = ""


def session_of(headers: Headers, names: Sequence[str], from_body: str) -> tuple[str, str]:
    """The session, and the name of the header that told it, or "body".

    The first header that is not empty, else what the body told; last of all `x-client-request-id`, which changes.
    """
    weak = "", ""
    for name in names:
        value = clean(headers.get(name.encode(), b""))
        if value and name == "x-client-request-id":
            weak = value, name
        elif value:
            return value, name
    return (from_body, "body") if from_body else weak


def purpose_of(headers: Headers, names: Sequence[str]) -> str:
    """What the request is for, "" for an ordinary turn."""
    for name in names:
        value = headers.get(name.encode(), b"")
        purpose = _read_purpose(name, value) if value else ""
        if purpose:
            return purpose
    return ""


def client_of(headers: Headers) -> str:
    """Short name of the client program; of a browser its origin.

    The SDKs for JavaScript take their name from a class, of which a bundled program leaves a letter or two.
    """
    named = clean(headers.get(b"llmgate-client", b""))
    if named:
        return named
    agent = clean(headers.get(b"user-agent", b""))
    if agent.startswith("Mozilla/"):
        return clean(headers.get(b"origin", b"")) or "browser"
    product = _PRODUCT.match(agent)
    if product is None:
        return ""
    name = product[0].lower()
    if name.endswith("/js") and headers.get(b"x-stainless-lang") == b"js":
        return "anthropic-js" if headers.get(b"anthropic-version") else "openai-js"
    return CLIENTS.get(name, name.partition("/")[0])


def version_of(headers: Headers) -> str:
    """Of the client program whose name is taken from its User-Agent; "" where that tells none."""
    agent = clean(headers.get(b"user-agent", b""))
    product = _PRODUCT.match(agent)
    if product is None or agent.startswith("Mozilla/") or headers.get(b"llmgate-client"):
        return ""
    version = _VERSION.match(agent, product.end())
    return version[1] if version is not None else ""


def clean(value: bytes) -> str:
    """Printable text on one line, cut to a length that fits a log line."""
    text = value.decode("utf-8", "replace")
    if not text.isprintable():
        parts = "".join(letter if letter.isprintable() else "\n" for letter in text).split("\n")
        text = " ".join(filter(None, parts))
    return text.strip()[:_LONGEST]


def _read_purpose(name: str, value: bytes) -> str:
    if name == "x-deepseek-harness-compact":
        return "compaction" if value.strip() == b"1" else ""
    if name == "x-codex-turn-metadata":
        try:
            kind = msgspec.json.decode(value, type=_CodexTurn).request_kind
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return ""
        return "" if kind == "turn" else clean(kind.encode())
    return clean(value)
