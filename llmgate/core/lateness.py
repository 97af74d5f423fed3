"""Whether a clock that rings may be judged: one that rings late was held up, for the process or its loop stood still.

What others sent meanwhile lies unread, since timers come first when it goes on: it is to be read before.
"""

LATE_SECONDS = 0.25
REREAD_SECONDS = 0.05
"""How long what lies there gets to be read."""


def is_late(now: float, due: float) -> bool:
    """Whether that long after it was due is no matter of how fine a loop's clock is, or of a busy moment."""
    return now - due >= LATE_SECONDS


def prolonged(now: float, due: float, seconds: float) -> float:
    """When a clock of `seconds` for what a peer sends is to be judged that is late now: the time in which nothing was
    read does not count, as far as it is known, since the peer may have had to stop."""
    return now + min(max(now - due, REREAD_SECONDS), max(seconds, REREAD_SECONDS))
