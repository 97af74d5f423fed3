"""One content block of an Anthropic message, put together from its start and its deltas.

A delta's fields are joined to those of the block, whatever its type: `text`, `thinking`, `signature` and what may come.
Two have fields of their own: `input_json_delta`, whose `partial_json` is the text of the `input`, and
`citations_delta`, whose `citation` is one of the `citations`. An input that is no JSON, since the answer was cut short,
is an empty object, as it is in llama-server's own answers.
"""

from typing import Any

import msgspec

from llmgate.protocols.budget import Budget
from llmgate.protocols.decoding import is_json
from llmgate.protocols.gather.merged import Merged
from llmgate.protocols.gather.values import Text

_COST = 1024
"""Bytes that a block costs beyond what is in it."""


class Block:
    """Feed it the deltas by `add`."""

    __slots__ = ("_block", "_input", "_is_call")

    def __init__(self, budget: Budget, start: dict[str, Any]) -> None:
        """`start` is the `content_block` of its start; UpstreamFailed beyond the limit."""
        budget.take(_COST)
        self._block = Merged(budget)
        self._block.add(start)
        self._input = Text(budget)
        self._is_call = str(start.get("type")).endswith("tool_use")

    def add(self, delta: dict[str, Any]) -> None:
        """Raises UpstreamFailed beyond the limit."""
        fields = {key: value for key, value in delta.items() if key != "type"}
        partial, citation = fields.pop("partial_json", None), fields.pop("citation", None)
        if isinstance(partial, str):
            self._input.add(partial)
        if citation is not None:
            self._block.add({"citations": [citation]})
        self._block.add(fields)

    def value(self) -> dict[str, Any]:
        """As in a whole message."""
        block = self._block.value()
        if self._is_call:
            block.setdefault("input", {})
        text = self._input.value().encode()
        if text.strip():
            block["input"] = msgspec.Raw(text) if is_json(text) else {}
        return block
