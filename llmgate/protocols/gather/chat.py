"""Puts a chat completion together: POST /v1/chat/completions.

Checked against llama-server (build 10434), see tests/e2e/test_llama_gather.py. Its whole answers have a text as
`content` always, "" beside tool calls; other servers null there, which clients must take as well as "".
"""

from typing import Any

from llmgate.protocols.budget import Budget
from llmgate.protocols.gather.calls import Called, Calls
from llmgate.protocols.gather.choices import Choice, ChoicesGathering
from llmgate.protocols.gather.merged import Merged, with_defaults

_SAYING = ("delta", "message")
"""Some servers send all they have as a message, in one chunk."""


class _ChatChoice(Choice):
    __slots__ = ("_calls", "_function", "_message")

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget)
        self._message = Merged(budget)
        self._calls: Calls | None = None
        self._function: Called | None = None
        """The older function_call."""

    def _say(self, key: str, value: Any) -> bool:
        if key in _SAYING and isinstance(value, dict):
            self._add(dict(value))
        return key in _SAYING

    def _add(self, delta: dict[str, Any]) -> None:
        calls, function = delta.pop("tool_calls", None), delta.pop("function_call", None)
        if isinstance(calls, list):
            self._calls = self._calls or Calls(self._budget)
            self._calls.add(calls)
        if isinstance(function, dict):
            self._function = self._function or Called(self._budget, "arguments")
            self._function.add(function)
        self._message.add(delta)

    def _said(self, *, whole: bool) -> dict[str, Any]:
        message = with_defaults(self._message.value(), role="assistant", content="")
        if self._calls is not None:
            message["tool_calls"] = self._calls.value(whole=whole)
        if self._function is not None:
            message["function_call"] = self._function.value(whole=whole)
        return {"message": message}


class ChatGathering(ChoicesGathering):
    """See Gathering."""

    __slots__ = ()

    kind = "chat.completion"
    choice = _ChatChoice
