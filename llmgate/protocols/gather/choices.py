"""What the streams of OpenAI's two completions share: choices that come in pieces, and [DONE] after them.

- As in ChatWatch, a stream that leaves [DONE] out may end after a finish_reason. Where [DONE] comes without any, or
  alone, nobody knows what the server would have answered: that is an error, not an answer with a reason made up.
- Of the fields beside the choices the newest counts: `created` grows in llama-server's chunks, and is the time of the
  end in its whole answers; `timings` and `usage` are those of the end.
"""

from abc import abstractmethod
from typing import Any

from llmgate.errors import UpstreamFailed
from llmgate.protocols.budget import Budget
from llmgate.protocols.gather.gathering import LIMIT, NO_END, StreamGathering, token_count
from llmgate.protocols.gather.merged import Merged
from llmgate.protocols.gather.values import Fields, encoded

_OF_STREAMS = frozenset({"choices", "object", "obfuscation", "prompt_progress"})
"""Fields of a chunk that a whole answer does not have, or not so."""
_WHOLE = frozenset({"stop", "tool_calls", "function_call", "tool_use"})
"""Reasons with which all was said; after any other there may be half of something."""
_COST = 1024
"""Bytes that a choice costs beyond what is in it."""


class Choice:
    """One choice; a surface says what is in it. Its fields of other names keep their newest value."""

    __slots__ = ("_budget", "_fields", "_logprobs")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._fields = Fields(budget)
        self._logprobs: Merged | None = None

    @property
    def finished(self) -> bool:
        """A finish_reason has come."""
        return "finish_reason" in self._fields

    def add(self, choice: dict[str, Any]) -> None:
        """Raises UpstreamFailed beyond the limit."""
        for key, value in choice.items():
            if key == "logprobs" and isinstance(value, dict):
                self._logprobs = self._logprobs or Merged(self._budget)
                self._logprobs.add(value)
            elif not self._say(key, value) and (value or key != "finish_reason"):
                self._fields.add(key, value)

    def value(self) -> dict[str, Any]:
        """As in a whole answer, once it is finished; raises UpstreamFailed where what was said cannot be all of it."""
        logprobs = {} if self._logprobs is None else {"logprobs": self._logprobs.value()}
        whole = self._fields.text("finish_reason") in _WHOLE
        return {**self._fields.value(), **self._said(whole=whole), **logprobs}

    @abstractmethod
    def _say(self, key: str, value: Any) -> bool:
        """Takes a field that is a piece of what the model says; False: it is none."""

    @abstractmethod
    def _said(self, *, whole: bool) -> dict[str, Any]:
        """What the model said; UpstreamFailed where it should be `whole` and is not."""


class ChoicesGathering(StreamGathering):
    """See Gathering."""

    __slots__ = ("_choices", "_fields")

    kind = ""
    """The `object` of a whole answer."""
    choice: type[Choice]

    def __init__(self, limit: int = LIMIT) -> None:
        super().__init__(limit)
        self._choices: dict[int, Choice] = {}
        self._fields = Fields(self._budget)

    def _read(self, name: bytes, document: dict[str, Any]) -> None:  # noqa: ARG002  chunks have no names
        for key, value in document.items():
            if key not in _OF_STREAMS:
                self._fields.add(key, value)
        choices = document.get("choices")
        if isinstance(choices, list) and choices:
            self.output_tokens += self._counting
            for choice in choices:
                self._read_choice(choice)
        self._read_usage(document.get("usage"))

    def _read_choice(self, choice: Any) -> None:
        if not isinstance(choice, dict):
            return
        pieces = dict(choice)
        index = pieces.pop("index", None)
        index = index if isinstance(index, int) else 0
        usage = pieces.pop("usage", None)  # Moonshot
        if index not in self._choices:
            self._budget.take(_COST)
            self._choices[index] = self.choice(self._budget)
        self._choices[index].add(pieces)
        if isinstance(usage, dict):
            self._fields.add("usage", usage)
            self._read_usage(usage)

    def _read_usage(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self.input_tokens = token_count(usage.get("prompt_tokens"), self.input_tokens)
            self._count_output(usage.get("completion_tokens"))

    def _close(self) -> None:
        if not self._may_end():
            raise UpstreamFailed(NO_END)
        self.complete = True

    def _may_end(self) -> bool:
        return bool(self._choices) and all(choice.finished for choice in self._choices.values())

    def _assemble(self) -> bytes:
        choices = [{"index": index, **choice.value()} for index, choice in sorted(self._choices.items())]
        return encoded({"object": self.kind, "choices": choices, **self._fields.value()})
