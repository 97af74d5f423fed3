"""One content block of an Anthropic message, put together from its start and its deltas.

A delta's fields are joined to those of the block, whatever its type: `text`, `thinking`, `signature` and what may come.
Two have fields of their own: `input_json_delta`, whose `partial_json` is the text of the `input`, and
`citations_delta`, whose `citation` is one of the `citations`. An input that is no JSON, since the answer was cut short,
is an empty object, as it is in llama-server's own answers; where the answer is told to be whole, that is an error.
"""

from typing import Any

import msgspec

from llmgate.errors import UpstreamFailed
from llmgate.protocols.budget import Budget
from llmgate.protocols.decoding import is_json
from llmgate.protocols.gather.merged import Merged
from llmgate.protocols.gather.values import Text

_HALF_AN_INPUT = "llmgate: the upstream sent a tool call whose input is no JSON (UPSTREAM_ERROR)"
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

    def value(self, *, whole: bool) -> dict[str, Any]:
        """As in a whole message; UpstreamFailed where it should be `whole` and is not."""
        block = self._block.value()
        if self._is_call:
            block.setdefault("input", {})
        text = self._input.value().encode()
        if text.strip():
            known = is_json(text)
            if whole and not known:
                raise UpstreamFailed(_HALF_AN_INPUT)
            block["input"] = msgspec.Raw(text) if known else {}
        return block
