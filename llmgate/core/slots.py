"""What a server's own count of busy slots says about requests that are over here."""


def freed(draining: int, busy: int, certain: int) -> int:
    """How many of those that drain have certainly left the server.

    `busy` of its slots were at work when it was asked; `certain` requests of ours were among those all the time that
    the question took. What is left may be a drained one, one that was only just sent, or somebody else's: each of them
    is taken for a drained one, so that a slot is never handed on too early.
    """
    return max(0, draining - max(0, busy - certain))


def waits_inside(without_head: bool, busy: int, slots: int, certain: int) -> bool:
    """Whether the server makes one of ours wait, because all its slots are busy and not all with ours."""
    return without_head and busy >= slots > 0 and busy > certain
