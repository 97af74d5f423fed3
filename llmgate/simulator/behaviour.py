"""How a simulated server behaves: its slots, its speed, its failures; decided once, drawn from a seed."""

import random
from dataclasses import dataclass
from typing import Self

REFUSE = "refuse"
BREAK = "break"


def _is_error_status(kind: str) -> bool:
    return kind.isascii() and kind.isdigit() and 400 <= int(kind) <= 599


@dataclass(frozen=True)
class Failure:
    """One way to fail: `kind` is "refuse" (the connection is closed unanswered), "break" (it is closed in the middle of
    the answer) or an HTTP status from "400" to "599"; `rate` from 0 to 1 is how often.
    """

    kind: str
    rate: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in (REFUSE, BREAK) and not _is_error_status(self.kind):
            raise ValueError(f"{self.kind!r} is no way to fail: give refuse, break, or a status from 400 to 599")
        if not 0 <= self.rate <= 1:
            raise ValueError(f"the rate of a failure is a number from 0 to 1, not {self.rate}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read "KIND" or "KIND:RATE", such as "503:0.1"; ValueError says what is wrong."""
        kind, colon, rate = text.partition(":")
        try:
            return cls(kind, float(rate) if colon else 1.0)
        except ValueError as error:
            if "could not convert" in str(error):
                raise ValueError(f"{rate!r} is no rate: give a number from 0 to 1, as in {kind}:0.1") from None
            raise


@dataclass(frozen=True)
class Behaviour:
    """A request keeps its slot for `hold` seconds, or longer if its tokens take longer than that.

    After `prompt` seconds of silence (the headers have gone out) its `tokens` follow at `tokens_per_second`;
    0 spreads them over the hold. A request's own max_tokens lowers `tokens`.
    """

    slots: int = 1
    hold: float = 0.0
    prompt: float = 0.0
    tokens: int = 16
    tokens_per_second: float = 0.0
    failures: tuple[Failure, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.slots < 1 or self.tokens < 1:
            raise ValueError("a simulated server needs at least one slot and one token")
        if min(self.hold, self.prompt, self.tokens_per_second) < 0:
            raise ValueError("times and rates are not negative")

    def token_times(self, tokens: int) -> list[float]:
        """Seconds after the start at which each token goes out: the first after the prompt."""
        spread = max(0.0, self.hold - self.prompt) / tokens
        step = 1 / self.tokens_per_second if self.tokens_per_second else spread
        return [self.prompt + step * number for number in range(tokens)]

    def ends_at(self, tokens: int) -> float:
        """Seconds after the start at which the answer is over and the slot free."""
        return max(self.hold, self.token_times(tokens)[-1])


class Fate:
    """Draws for each request whether and how it fails; the same seed draws the same."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._failures = behaviour.failures
        self._random = random.Random(behaviour.seed)  # noqa: S311 (nothing secret hangs on it)

    def draw(self) -> str | None:
        """The kind of failure that meets the next request, or None."""
        for failure in self._failures:
            if self._random.random() < failure.rate:
                return failure.kind
        return None
