"""Joins pieces of text whose cuts may lie inside a surrogate pair, so that what comes out is always valid Unicode."""

_FIRST_HALVES = ("\ud800", "\udbff")
_INSTEAD = "\ufffd"


def whole(text: str) -> str:
    """Halves that meet become one character, a half alone U+FFFD; any other text stays as it is."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class Seam:
    """Where two pieces of one text meet."""

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = ""

    def join(self, piece: str) -> str:
        """What is whole so far; a first half at the end waits for the next piece."""
        text = self._half + piece
        first, last = _FIRST_HALVES
        self._half = text[-1] if text and first <= text[-1] <= last else ""
        return whole(text.removesuffix(self._half))

    def rest(self) -> str:
        """At the end of the text: what stands for a half that stayed alone."""
        half, self._half = self._half, ""
        return _INSTEAD if half else ""
