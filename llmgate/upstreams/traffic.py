"""The requests that one server has at this moment, and which of them it has begun to answer."""


class Traffic:
    """Told by whoever makes the calls, with the id of each request."""

    __slots__ = ("_sent", "_with_head")

    def __init__(self) -> None:
        self._sent: dict[str, float] = {}
        """Without a head yet, with the second in which they were sent; the oldest first."""
        self._with_head: set[str] = set()

    def sent(self, request_id: str, now: float) -> None:
        """It is being sent; a second time where it is asked in another way."""
        self.over(request_id)
        self._sent[request_id] = now

    def answered(self, request_id: str) -> None:
        """The head of its answer is here."""
        if self._sent.pop(request_id, None) is not None:
            self._with_head.add(request_id)

    def over(self, request_id: str) -> None:
        """Its call is over, however it ended."""
        self._sent.pop(request_id, None)
        self._with_head.discard(request_id)

    def with_head(self) -> frozenset[str]:
        """Those that the server works on for certain."""
        return frozenset(self._with_head)

    def oldest_without_head(self) -> float | None:
        """When the one was sent that waits longest for its head; None where none does."""
        return next(iter(self._sent.values()), None)
