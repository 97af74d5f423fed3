"""Puts an answer of Ollama's together: POST /api/chat and /api/generate.

As Ollama itself does it (server/routes.go): the last part, in which the texts and log probabilities of all parts are
joined; in /api/chat so are the tool calls, of which each is sent whole. `thinking`, `tool_calls` and `logprobs` are
left out where there are none.
"""

from typing import Any

from llmgate.errors import UpstreamFailed
from llmgate.protocols.gather.gathering import LIMIT, UNREADABLE, StreamGathering, token_count
from llmgate.protocols.gather.lines import LineCutter
from llmgate.protocols.gather.values import Items, Text, encoded


class OllamaGathering(StreamGathering):
    """See Gathering. One of the two routes adds where the texts are."""

    __slots__ = ("_last", "_logprobs", "_text", "_thinking")

    text = ""
    """The field of the text, which is always there."""

    def __init__(self, limit: int = LIMIT) -> None:
        super().__init__(limit)
        self._cutter = LineCutter(self._budget)
        self._text = Text(self._budget)
        self._thinking = Text(self._budget)
        self._logprobs = Items(self._budget)
        self._last: dict[str, Any] = {}

    def _read(self, name: bytes, document: dict[str, Any]) -> None:  # noqa: ARG002  lines have no names
        self._take_said(document)
        if isinstance(logprobs := document.get("logprobs"), list):
            self._logprobs.add(logprobs)
        if document.get("done") is True:
            self.complete = True
            self._last = document
            self.input_tokens = token_count(document.get("prompt_eval_count"), self.input_tokens)
            self._count_output(document.get("eval_count"))
        else:
            self.output_tokens += self._counting

    def _take_said(self, document: dict[str, Any]) -> None:
        """Takes what the model says in one part."""
        raise NotImplementedError

    def _take_texts(self, said: dict[str, Any]) -> None:
        for key, text in ((self.text, self._text), ("thinking", self._thinking)):
            piece = said.get(key)
            if isinstance(piece, str):
                text.add(piece)
            elif piece is not None:
                raise UpstreamFailed(UNREADABLE)

    def _with_texts(self, said: dict[str, Any]) -> dict[str, Any]:
        """A part with the texts of all."""
        thinking = {"thinking": self._thinking.value()} if self._thinking else {}
        return {**said, self.text: self._text.value(), **thinking}

    def _with_logprobs(self, document: dict[str, Any]) -> dict[str, Any]:
        logprobs = self._logprobs.value()
        return {**document, "logprobs": logprobs} if logprobs else document


class OllamaChatGathering(OllamaGathering):
    """See Gathering."""

    __slots__ = ("_calls",)

    text = "content"

    def __init__(self, limit: int = LIMIT) -> None:
        super().__init__(limit)
        self._calls = Items(self._budget)

    def _take_said(self, document: dict[str, Any]) -> None:
        message = document.get("message")
        if not isinstance(message, dict):
            return
        self._take_texts(message)
        if isinstance(calls := message.get("tool_calls"), list):
            self._calls.add(calls)

    def _assemble(self) -> bytes:
        last = self._last.get("message")
        message = self._with_texts({"role": "assistant", **(last if isinstance(last, dict) else {})})
        if calls := self._calls.value():
            message["tool_calls"] = calls
        return encoded(self._with_logprobs({**self._last, "message": message}))


class OllamaGenerateGathering(OllamaGathering):
    """See Gathering."""

    __slots__ = ()

    text = "response"

    def _take_said(self, document: dict[str, Any]) -> None:
        self._take_texts(document)

    def _assemble(self) -> bytes:
        return encoded(self._with_logprobs(self._with_texts(self._last)))
