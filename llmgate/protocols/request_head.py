"""Reads the head of a request in its raw bytes: what it may look like, and how the body behind it is framed.

Whatever two readers could understand differently is refused (RFC 9112, 11.2). So this is stricter than the standard
where that allows it, and in two things beyond: no absolute-form, and one Content-Length only, even where two are equal.
The parser behind it reads the same bytes once more, and both must agree. A method that takes no body may come with one.
"""

import re
from typing import NamedTuple

from llmgate.errors import BadRequest, HeadTooLarge

TARGET_LIMIT = 8 * 1024
"""Bytes of the request line."""
FIELD_LIMIT = 16 * 1024
"""Bytes of one header line."""
FIELDS_LIMIT = 100
"""Header lines of a head."""
HEAD_LIMIT = 64 * 1024
"""Bytes of a head."""

CHUNKED = -1
"""In the place of a length: the body comes in chunks."""

FIELD = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++:[\t -~\x80-\xff]*+\r\n"
"""One header line (RFC 9110, 5.1 and 5.5), which no other line continues."""

_LINE = rb"(?!CONNECT )[A-Z][A-Z-]{0,19} (?:/[!\"$-~]*+|(?<=OPTIONS )\*) HTTP/1\.([01])\r\n"
_REQUEST_LINE = re.compile(_LINE)
_HEAD = re.compile(_LINE + rb"(?:" + FIELD + rb")*+\r\n")
_OTHER_VERSION = re.compile(rb"(?!CONNECT )[A-Z][A-Z-]{0,19} /[!\"$-~]*+ HTTP/[0-9]\.[0-9]\r\n")
_HOST = re.compile(rb"(?:[a-z0-9._~!$&'()*+;=%-]*+|\[[0-9a-f:.]+\])(?::[0-9]{0,5})?")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_OFFER = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
_NO_OFFER = b"\r\nx-offer:"

_OTHER_HTTP, _LINE_TOO_LONG = 505, 414


class Head(NamedTuple):
    """One head that is fit for the parser."""

    raw: bytes
    """With its blank line. An offer to upgrade has another name in it: the parser would take the body for the other
    protocol, and whoever does not take the offer up answers as if it were not there (RFC 9110, 7.8)."""
    length: int
    """Bytes of the body, or CHUNKED."""


class HeadReader:
    """Collects a head from its first byte. What it says does not depend on how the bytes were cut."""

    __slots__ = ("_begin", "_fields", "_kept", "_searched", "_skipped")

    def __init__(self) -> None:
        self._kept = b""
        self._begin = 0
        """Of the line that is not whole yet."""
        self._searched = 0
        self._fields = -1
        """Header lines that are whole; -1 before the request line is."""
        self._skipped = 0

    @property
    def has_begun(self) -> bool:
        """Something came, and the head is not whole yet."""
        return bool(self._kept) or self._skipped > 0

    def feed(self, data: bytes) -> tuple[Head | None, bytes]:
        """The head as soon as it is whole, and what came behind it. Raises BadRequest, HeadTooLarge."""
        if self._kept:
            data = self._kept + data
        if data[:1] == b"\r":
            data = self._skip_blank_line(data)
        whole = _HEAD.match(data) if not self._begin else None
        if whole is not None and whole.end() <= TARGET_LIMIT and data.count(b"\r\n", 0, whole.end()) <= FIELDS_LIMIT:
            end = whole.end()
        else:
            end = self._look_at_lines(data)
            if not end:
                self._kept = data
                return None, b""
            whole = _HEAD.fullmatch(data, 0, end)
            if whole is None:
                raise BadRequest("llmgate: a header line of the request is not well-formed (BAD_REQUEST)")
        self._kept, self._begin, self._searched, self._fields, self._skipped = b"", 0, 0, -1, 0
        head = data if end == len(data) else data[:end]
        return _read(head, http_1_0=whole[1] == b"0"), data[end:]

    def _skip_blank_line(self, data: bytes) -> bytes:
        """One is no fault (RFC 9112, 2.2)."""
        if data[:2] == b"\r\n" and not self._skipped:
            self._skipped = 1
            self._kept = b""
            return data[2:]
        if data == b"\r" and not self._skipped:
            return data
        raise BadRequest("llmgate: what came is no HTTP request (BAD_REQUEST)")

    def _look_at_lines(self, data: bytes) -> int:
        """The limits, line by line, so that they do not depend on what comes later; where the head ends, or 0."""
        if not self._begin and data not in (b"", b"\r") and not b"A" <= data[:1] <= b"Z":
            raise BadRequest("llmgate: what came is no HTTP request (BAD_REQUEST)")
        while (end := data.find(b"\r\n", self._searched)) >= 0:
            self._check_size(data, end)
            if end == self._begin:
                return end + 2
            self._fields += 1
            if not self._fields:
                _check_request_line(data)
            elif self._fields > FIELDS_LIMIT:
                raise HeadTooLarge("llmgate: the request has too many headers (HEAD_TOO_LARGE)")
            self._begin = self._searched = end + 2
        self._check_size(data, len(data) - data.endswith(b"\r"))
        self._searched = max(self._begin, len(data) - 1)
        return 0

    def _check_size(self, data: bytes, end: int) -> None:
        """Of one line, as far as it is here."""
        limit = FIELD_LIMIT if self._fields >= 0 else TARGET_LIMIT
        if data.find(b"\n", max(self._begin, self._searched), min(self._begin + limit, HEAD_LIMIT, end)) >= 0:
            raise BadRequest("llmgate: a line of the request's head ends in a bare LF (BAD_REQUEST)")
        if end - self._begin > limit and self._fields < 0:
            raise _with_status(HeadTooLarge("llmgate: the request line is too long (HEAD_TOO_LARGE)"), _LINE_TOO_LONG)
        if end - self._begin > limit or end > HEAD_LIMIT:
            raise HeadTooLarge("llmgate: the head of the request is too large (HEAD_TOO_LARGE)")


def _check_request_line(data: bytes) -> None:
    if _REQUEST_LINE.match(data) is not None:
        return
    if _OTHER_VERSION.match(data) is not None:
        raise _with_status(BadRequest("llmgate: this speaks HTTP/1.1 only (BAD_REQUEST)"), _OTHER_HTTP)
    raise BadRequest("llmgate: the request line is not METHOD /PATH HTTP/1.1 (BAD_REQUEST)")


def _with_status(error: BadRequest, status: int) -> BadRequest:
    error.status = status
    return error


def _read(raw: bytes, *, http_1_0: bool) -> Head:
    """What the fields say of host and body (RFC 9112, 3.2 and 6.3)."""
    lower = raw.lower()
    hosts = lower.count(b"\r\nhost:")
    if hosts != 1 and (hosts or not http_1_0):
        raise BadRequest("llmgate: the request has no Host header, or several (BAD_REQUEST)")
    if hosts and _HOST.fullmatch(_value(lower, b"\r\nhost:")) is None:
        raise BadRequest("llmgate: the Host header is no host (BAD_REQUEST)")
    length = _read_length(lower, http_1_0=http_1_0)
    if b"\r\nupgrade:" in lower:
        raw = _OFFER.sub(_NO_OFFER, raw)
    return Head(raw, length)


def _read_length(lower: bytes, *, http_1_0: bool) -> int:
    codings, lengths = lower.count(b"\r\ntransfer-encoding:"), lower.count(b"\r\ncontent-length:")
    if codings:
        if codings > 1 or _value(lower, b"\r\ntransfer-encoding:") != b"chunked" or http_1_0:
            raise BadRequest("llmgate: the Transfer-Encoding is not just chunked (BAD_REQUEST)")
        if lengths:
            raise BadRequest("llmgate: the request has both Content-Length and Transfer-Encoding (BAD_REQUEST)")
        return CHUNKED
    if not lengths:
        return 0
    value = _value(lower, b"\r\ncontent-length:")
    if lengths > 1 or _LENGTH.fullmatch(value) is None:
        raise BadRequest("llmgate: the Content-Length is not one number (BAD_REQUEST)")
    return int(value)


def _value(lower: bytes, name: bytes) -> bytes:
    """Of the first header of this name, with its line end before it and its colon."""
    begin = lower.find(name) + len(name)
    return lower[begin : lower.find(b"\r\n", begin)].strip(b" \t")
