"""One tool call of an answer, put together from its pieces."""

from llmgate.errors import UpstreamFailed
from llmgate.protocols.call_piece import CallPiece, KnownCall, goes_on
from llmgate.protocols.seam import Seam
from llmgate.protocols.translate.arguments import Arguments

_NAME_MOST = 4096
"""Characters."""
_NAMELESS = "llmgate: the upstream sent a tool call whose name is missing or too long (UPSTREAM_ERROR)"


class Call:
    """What is known of a call so far. Its name is known for good when the first piece of its arguments came."""

    __slots__ = ("_seam", "arguments", "id", "name")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments = Arguments()
        self._seam = Seam()

    @property
    def size(self) -> int:
        """Bytes that are kept, about."""
        return len(self.id) + len(self.name) + self.arguments.size

    def goes_on_with(self, piece: CallPiece) -> bool:
        """Whether a piece at this call's index belongs to it."""
        return goes_on(KnownCall(self.id, self.name, self.arguments.begun, self.arguments.complete), piece)

    def add(self, piece: CallPiece) -> None:
        """Raises UpstreamFailed where the arguments go on after their end, or the name without one."""
        self.id = self.id or piece.id
        if not self.arguments.begun:
            # in parts, or the whole of it again
            self.name = piece.name if piece.name.startswith(self.name) else self.name + piece.name
        self.name = self.name or piece.name
        if len(self.name) > _NAME_MOST:
            raise UpstreamFailed(_NAMELESS)
        if arguments := self._seam.join(piece.arguments):
            self.arguments.add(arguments)

    def end(self, *, cut_short: bool, last: bool) -> str | None:
        """What is left to be sent of the arguments; None where there is no call to be sent.

        `cut_short`: the answer was, so a call may be half of one; the `last`, if its arguments had not begun, is none.
        Raises UpstreamFailed where the call is broken.
        """
        if half := self._seam.rest():
            self.arguments.add(half)
        rest = self.arguments.rest(cut_short=cut_short)
        if not self.arguments.begun and (not self.name or (cut_short and last)):
            return None
        if not self.name:
            raise UpstreamFailed(_NAMELESS)
        return rest
