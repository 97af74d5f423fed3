"""Puts a completion of a prompt together: POST /v1/completions."""

from typing import Any

from llmgate.protocols.budget import Budget
from llmgate.protocols.gather.choices import Choice, ChoicesGathering
from llmgate.protocols.gather.values import Text


class _TextChoice(Choice):
    __slots__ = ("_text",)

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget)
        self._text = Text(budget)

    def _say(self, key: str, value: Any) -> bool:
        if key == "text" and isinstance(value, str):
            self._text.add(value)
        return key == "text"

    def _said(self, *, whole: bool) -> dict[str, Any]:  # noqa: ARG002  of a text nobody knows
        return {"text": self._text.value()}


class CompletionsGathering(ChoicesGathering):
    """See Gathering."""

    __slots__ = ()

    kind = "text_completion"
    choice = _TextChoice
