"""Bounds what may be kept in memory of one stream that is read to its end or translated."""

from llmgate.errors import UpstreamFailed

LIMIT = 16 << 20
"""Bytes of one event, and bytes of all tool calls and texts that are kept until their turn or their end."""

_TOO_LONG = "llmgate: the upstream sent more at once than can be kept (UPSTREAM_ERROR)"


class Budget:
    """Counts bytes; beyond the limit the stream fails."""

    __slots__ = ("_kept", "_limit")

    def __init__(self, limit: int = LIMIT) -> None:
        self._kept = 0
        self._limit = limit

    def take(self, size: int) -> None:
        """Raises UpstreamFailed beyond the limit."""
        self.require(size)
        self._kept += size

    def require(self, size: int) -> None:
        """Raises UpstreamFailed if so many more bytes would be too many."""
        if self._kept + size > self._limit:
            raise UpstreamFailed(_TOO_LONG)

    def give_back(self, size: int) -> None:
        """What was taken is no longer kept."""
        self._kept -= size
