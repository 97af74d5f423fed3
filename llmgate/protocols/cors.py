"""The headers that let pages of a named origin ask and read the answers (Fetch, "CORS protocol").

The origin is echoed exactly, never `*`, and always with `Vary: Origin`, so that no cache gives one page's answer to
another. No credentials are allowed: keys come in headers that the page sets itself, and there are no cookies.
"""

import re
from collections.abc import Mapping

Header = tuple[bytes, bytes]

EXPOSED = (
    b"llmgate-code",
    b"llmgate-depth",
    b"llmgate-limit",
    b"llmgate-position",
    b"llmgate-queued-ms",
    b"llmgate-request-id",
    b"llmgate-token-count",
    b"llmgate-upstream",
    b"request-id",
    b"retry-after",
    b"x-request-id",
    b"x-should-retry",
)
"""Headers of an answer that a page may read, beside the few that every page may."""

MAX_AGE_SECONDS = 7200
"""How long a browser need not ask again; Chromium takes no more. The request itself is checked each time."""

VARY: Header = (b"vary", b"Origin")

_METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
_NAMES = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:[ \t]*,[ \t]*[!#$%&'*+.^_`|~0-9A-Za-z-]+)*")
_NAMES_MOST = 8192


def answer_headers(origin: bytes) -> list[Header]:
    """What every answer to a page of an allowed origin has beside its own headers, `VARY` not among it."""
    return [(b"access-control-allow-origin", origin), (b"access-control-expose-headers", b", ".join(EXPOSED))]


def preflight_headers(headers: Mapping[bytes, bytes]) -> list[Header]:
    """What a browser is told that asks beforehand, beside `answer_headers`. Every header may be sent that is asked for:
    which of them count for anything is decided later, as with any client."""
    told = [
        (b"access-control-allow-methods", _METHODS),
        (b"access-control-max-age", b"%d" % MAX_AGE_SECONDS),
    ]
    asked = headers.get(b"access-control-request-headers", b"").strip()
    if len(asked) <= _NAMES_MOST and _NAMES.fullmatch(asked):
        told.append((b"access-control-allow-headers", asked))
    if headers.get(b"access-control-request-private-network") == b"true":
        told.append((b"access-control-allow-private-network", b"true"))
    return told
