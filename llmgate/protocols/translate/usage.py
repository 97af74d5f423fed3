"""How many tokens a message took: as the upstream told it, else estimated."""

from typing import Any, TypeVar

T = TypeVar("T")

_MOST = 2**53
_CHARACTERS_PER_TOKEN = 4


class Usage:
    """What is known so far. OpenAI's prompt counts what was read from a cache, Anthropic's input does not."""

    __slots__ = ("_cached", "_characters", "_pieces", "output", "prompt")

    def __init__(self) -> None:
        self.prompt: int | None = None
        """Tokens, those from a cache included; None until it is told."""
        self.output: int | None = None
        """None until it is told."""
        self._cached = 0
        self._pieces = self._characters = 0

    def read(self, told: Any) -> None:
        """Takes over what a chunk or an answer tells; the newest number counts."""
        if not isinstance(told, dict):
            return
        self.prompt = _count(told.get("prompt_tokens"), self.prompt)
        self.output = _count(told.get("completion_tokens"), self.output)
        hit = _count(told.get("prompt_cache_hit_tokens"), self._cached)  # DeepSeek
        details = told.get("prompt_tokens_details")
        self._cached = _count(details.get("cached_tokens"), hit) if isinstance(details, dict) else hit

    def count(self, piece: str) -> None:
        """One more piece of the answer, for the estimate."""
        self._pieces += 1
        self._characters += len(piece)

    @property
    def produced(self) -> int:
        """The output told, else an estimate: a piece is at least a token, and so are four characters."""
        if self.output is not None:
            return self.output
        return max(self._pieces, estimate(self._characters))

    def render(self, input_estimate: int) -> dict[str, int]:
        """The `usage` of a message's end."""
        if self.prompt is None:
            return {"input_tokens": input_estimate, "output_tokens": self.produced}
        cached = min(self._cached, self.prompt)
        usage = {"input_tokens": self.prompt - cached, "output_tokens": self.produced}
        if cached:
            usage["cache_read_input_tokens"] = cached
        return usage


def estimate(characters: int) -> int:
    """Tokens of so much text."""
    return -(-characters // _CHARACTERS_PER_TOKEN)


def _count(told: Any, known: T) -> int | T:
    if isinstance(told, int) and not isinstance(told, bool) and 0 <= told <= _MOST:
        return told
    return known
