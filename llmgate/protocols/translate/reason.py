"""Why a message ended: OpenAI's finish_reason and what servers add to it, as Anthropic's stop_reason."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from llmgate.errors import UpstreamFailed

StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"]

_REASONS: dict[str, StopReason] = {
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "model_length": "max_tokens",  # Mistral
    "tool_calls": "tool_use",
    "tool_use": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
    "refusal": "refusal",
    "stop_sequence": "stop_sequence",  # text-generation-inference
}
"""Any other, "stop" first of all, is a regular end."""
_BROKEN_OFF = frozenset({"error", "abort", "aborted", "cancelled", "canceled", "insufficient_system_resource"})
"""Some servers call it a reason when they give up: OpenRouter, vLLM and SGLang, DeepSeek."""


class Stop(msgspec.Struct, frozen=True):
    """The end of one message."""

    reason: StopReason
    sequence: str | None = None
    """The stop string that was matched."""


class Finish:
    """What is known so far of why the message ended."""

    __slots__ = ("_asked", "_matched", "_told", "refused")

    def __init__(self, stop_sequences: Sequence[str]) -> None:
        self._asked = stop_sequences
        self._told = ""
        self._matched: str | None = None
        self.refused = False
        """The model sent a refusal of its own, which is no cut: set by the reader of its pieces."""

    def read(self, choice: dict[str, Any]) -> None:
        """Takes over what a choice tells. Raises UpstreamFailed where the upstream gave up."""
        told = choice.get("finish_reason")
        if isinstance(told, str) and told:
            self._told = told
        if self._told in _BROKEN_OFF:
            raise UpstreamFailed("llmgate: the upstream broke its answer off (UPSTREAM_ERROR)")
        for key in ("stop_reason", "matched_stop"):  # vLLM, SGLang
            if choice.get(key) in self._asked:
                self._matched = choice[key]

    @property
    def known(self) -> bool:
        """The upstream told that the message ended."""
        return self._told != ""

    @property
    def cut_short(self) -> bool:
        """The model had more to say, so its last tool call may be half of one."""
        return self._reason in ("max_tokens", "refusal")

    def decide(self, *, calls: bool) -> Stop:
        """`calls`: the message holds tool calls. A client runs them if the reason says so: no other is given then."""
        if self.cut_short:
            return Stop(self._reason)
        if self.refused:
            return Stop("refusal")
        if calls:
            return Stop("tool_use")
        if self._matched is not None:
            return Stop("stop_sequence", self._matched)
        if self._reason == "stop_sequence":
            return Stop("stop_sequence", self._asked[0] if len(self._asked) == 1 else None)
        return Stop("end_turn")

    @property
    def _reason(self) -> StopReason:
        return _REASONS.get(self._told, "end_turn")
