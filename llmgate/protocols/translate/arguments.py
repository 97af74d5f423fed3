"""The arguments of one tool call: JSON text that comes in pieces and goes out in pieces.

- What may be sent is sent at once, since a long text in them takes minutes. What does not begin as an object is kept
  until its end: servers were seen to send nothing or `null` for "no arguments", and the object inside a string.
- `{}` alone is kept too: proxies were seen to send it first and the object after it.
- The end is found by counting brackets, so that a call behind this one need not wait for the end of the stream. The
  text is validated once, at its end. The work is linear in its length.
"""

from typing import NoReturn

from llmgate.errors import UpstreamFailed
from llmgate.protocols.brackets import Brackets
from llmgate.protocols.document import is_object, read_string
from llmgate.protocols.seam import whole

_BLANK = b" \t\r\n"
_NOTHING = (b"", b"null")


class Arguments:
    """Takes pieces by `add`; what `take` and, at the end, `rest` return, joined, is an object or nothing."""

    __slots__ = ("_brackets", "_final", "_scanned", "_sent", "_text", "begun", "complete")

    def __init__(self) -> None:
        self._text = bytearray()
        """Without blanks before and after the object."""
        self._sent = self._scanned = 0
        self._brackets = Brackets()
        self._final = False
        """No other object may come in the place of an empty one."""
        self.begun = False
        """Something came that is not blank."""
        self.complete = False
        """The object has ended."""

    @property
    def size(self) -> int:
        """Bytes that are kept, sent or not."""
        return len(self._text)

    def add(self, piece: str) -> None:
        """A piece of valid Unicode. Raises UpstreamFailed where more follows the end of the object."""
        end = len(self._text)
        self._text += piece.encode() if self.begun else piece.encode().lstrip(_BLANK)
        self.begun = self.begun or len(self._text) > 0
        if self.complete:
            self._read_surplus(end)
        elif self._text.startswith(b"{"):
            self._follow()

    def take(self) -> str:
        """What may be sent by now."""
        if not self._text.startswith(b"{") or bytes(self._text[:3]) in (b"{", b"{}"):
            return ""
        return self._send()

    def rest(self, *, cut_short: bool) -> str:
        """What is left to be sent, at the end; after it nothing but blanks may come, and nothing is kept.

        `cut_short`: the answer was, so half an object is no fault. Raises UpstreamFailed where the text is no object.
        """
        self._final = True
        rest = self._rest(cut_short=cut_short)
        self._text.clear()
        return rest

    def _rest(self, *, cut_short: bool) -> str:
        if not self._text.startswith(b"{"):
            return self._unwrap()
        if not (is_object(bytes(self._text)) if self.complete else cut_short):
            _refuse()
        return self._send()

    def _send(self) -> str:
        fresh = self._text[self._sent :].decode()
        self._sent = len(self._text)
        return fresh

    def _follow(self) -> None:
        start, self._scanned = self._scanned, len(self._text)
        end = self._brackets.find_end(bytes(self._text[start:]))
        if end:
            self.complete = True
            self._read_surplus(start + end)

    def _read_surplus(self, end: int) -> None:
        surplus = bytes(self._text[end:]).strip(_BLANK)
        del self._text[end:]
        if not surplus:
            return
        if self._final or self._text != b"{}" or not surplus.startswith(b"{"):
            _refuse()
        self._text[:] = surplus
        self._scanned, self._brackets = 0, Brackets()
        self.complete, self._final = False, True
        self._follow()

    def _unwrap(self) -> str:
        """The object inside a string."""
        text = bytes(self._text).rstrip(_BLANK)
        if text in _NOTHING:
            return ""
        inner = whole(read_string(text.decode()) or "").strip()
        if not is_object(inner.encode()):
            _refuse()
        return inner


def _refuse() -> NoReturn:
    raise UpstreamFailed("llmgate: the upstream sent a tool call whose arguments are no JSON object (UPSTREAM_ERROR)")
