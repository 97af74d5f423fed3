"""Secrets that tests hand out wherever one may be, and the search for them in all that a daemon says (F65).

    SECRETS = make_canaries(1, ("cookie", "body"))
    assert leaks(gate.log, SECRETS) == {}

Eight characters of one in a row, in whatever case, are a leak.
"""

import random
import string
from collections.abc import Mapping, Sequence

SLICE = 8
_SIGN = "zq7"
"""Each SLICE of a canary holds it: a long text without it need not be searched for the others."""
_BETWEEN, _SIGNS = 3, 4

_LETTERS = string.ascii_lowercase + string.digits


def make_canaries(seed: int, places: Sequence[str]) -> dict[str, str]:
    """One for each place, the same ones for the same seed: workers of one run share them."""
    dice = random.Random(seed)
    return {
        place: "".join(_SIGN + "".join(dice.choices(_LETTERS, k=_BETWEEN)) for _ in range(_SIGNS)) for place in places
    }


def leaks(text: str, canaries: Mapping[str, str]) -> dict[str, str]:
    """The places whose canary shows, and a piece of it that does."""
    text = text.lower()
    if _SIGN not in text:
        return {}
    found = {}
    for place, canary in canaries.items():
        pieces = (canary[start : start + SLICE] for start in range(len(canary) - SLICE + 1))
        if piece := next((piece for piece in pieces if piece in text), ""):
            found[place] = piece
    return found


EVERYWHERE = make_canaries(
    65, ("authorization of a client", "cookie", "query", "prompt", "key of an upstream", "header of an upstream")
)
"""What GateProcess and its clients have about them in every test of a whole daemon."""


def assert_no_leak(text: str) -> None:
    """None of `EVERYWHERE` shows."""
    found = leaks(text, EVERYWHERE)
    assert not found, f"shown: {found}"
