"""Why a gate takes nobody new, and what is said of it: to who comes, to who waited there, and to an operator."""

import enum

from llmgate.errors import Refused


class Closing(enum.IntEnum):
    """The higher one counts where there are several."""

    DRAIN = 1
    """An operator lets it run empty."""
    LEAVE = 2
    """A reload took it out of the settings."""
    STOP = 3
    """llmgate stops."""

    @property
    def reason(self) -> str:
        """For an operator, in log and events."""
        return _REASONS[self]


_REASONS = {
    Closing.DRAIN: "draining",
    Closing.LEAVE: "no longer in the settings",
    Closing.STOP: "llmgate is stopping",
}
_TO_NEWCOMERS = {
    Closing.DRAIN: "takes no new requests: an operator lets it run empty",
    Closing.LEAVE: "takes no new requests: it is no longer in the settings",
    Closing.STOP: "takes no new requests: llmgate is stopping",
}
CUT = "llmgate: llmgate is stopping, this request was cut (REFUSED)"
UNBEGUN = "llmgate: llmgate is stopping, this request was not begun: send it again when it is back (REFUSED)"


def closing_of(*, dismiss: bool, leaving: bool) -> Closing:
    """As Gate.close is asked: who waits is sent away, the upstream goes for good."""
    if leaving:
        return Closing.LEAVE
    return Closing.STOP if dismiss else Closing.DRAIN


def refusal(closing: Closing, upstream: str) -> Refused:
    """For who comes."""
    return Refused(f"llmgate: upstream {upstream} {_TO_NEWCOMERS[closing]} (REFUSED)")


def dismissal(closing: Closing | None, upstream: str, depth: int) -> Refused:
    """For who waited; `depth` still wait. None: it was no closing that sent it away."""
    if closing is Closing.STOP:
        return Refused(UNBEGUN, depth=depth)
    if closing is Closing.LEAVE:
        why = "a reload took it out of the settings, and nobody could be served there"
        return Refused(f"llmgate: upstream {upstream} takes no more requests: {why} (REFUSED)", depth=depth)
    return Refused(f"llmgate: upstream {upstream} takes this request no more (REFUSED)", depth=depth)
