"""Bounds the bytes of all request bodies that are held in memory at once, whoever sent them."""


class Bodies:
    """What is held of requests that are not answered yet."""

    __slots__ = ("held", "limit")

    def __init__(self, limit: int | None) -> None:
        """`limit` in bytes; None = no limit."""
        self.limit = limit
        self.held = 0

    def take(self, size: int) -> bool:
        """So many more bytes are here, and count until they are given back; false where that is too much."""
        self.held += size
        return self.limit is None or self.held <= self.limit

    def give(self, size: int) -> None:
        """So many bytes are held no longer."""
        self.held -= size
