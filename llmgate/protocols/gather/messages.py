"""Puts an Anthropic message together: POST /v1/messages.

The message is that of message_start, with the fields of message_delta; its usage that of both, where the newer number
counts. Blocks stand in the order in which they began. A field beside `delta` and `usage` in message_delta, such as
`context_management`, is one of the message. A message that was stopped without a stop_reason is none: nobody knows
which one the server would have answered.
"""

from typing import Any

from llmgate.errors import UpstreamFailed
from llmgate.protocols.gather.block import Block
from llmgate.protocols.gather.gathering import LIMIT, NO_END, UNREADABLE, StreamGathering, token_count
from llmgate.protocols.gather.values import Fields, encoded

_READ = frozenset({"message_start", "content_block_start", "content_block_delta", "message_delta", "message_stop"})
_NO_START = "llmgate: the upstream answered without a message (UPSTREAM_ERROR)"
_WHOLE = frozenset({"end_turn", "tool_use", "stop_sequence"})
"""Reasons with which all was said; after any other there may be half a call."""
_CACHED = ("cache_creation_input_tokens", "cache_read_input_tokens")


class MessagesGathering(StreamGathering):
    """See Gathering. An event is known by its name; where that is none of Anthropic's, by the `type` in its data."""

    __slots__ = ("_at", "_begun", "_blocks", "_fields", "_usage")

    def __init__(self, limit: int = LIMIT) -> None:
        super().__init__(limit)
        self._begun = False
        """message_start has come."""
        self._fields = Fields(self._budget)
        self._usage = Fields(self._budget)
        self._blocks: list[Block] = []
        self._at: dict[int, Block] = {}
        """The newest block at each index."""

    def _read(self, name: bytes, document: dict[str, Any]) -> None:
        kind = name.decode("utf-8", "replace")
        match kind if kind in _READ else document.get("type"), document:
            case "message_start", {"message": dict(message)}:
                self._begun = True
                self._take_fields(message)
                self._take_usage(message.get("usage"))
            case "content_block_start", {"index": int(index), "content_block": dict(start)}:
                block = self._at[index] = Block(self._budget, start)
                self._blocks.append(block)
            case "content_block_delta", {"index": int(index), "delta": dict(delta)} if index in self._at:
                self.output_tokens += self._counting
                self._at[index].add(delta)
            case "message_delta", {"delta": dict(delta)}:
                self._take_fields({key: value for key, value in document.items() if key not in ("type", "delta")})
                self._take_fields(delta)
                self._take_usage(document.get("usage"), newest=True)
            case "message_stop", _:
                self.complete = True
            case str(known), _ if known in _READ:
                raise UpstreamFailed(UNREADABLE)

    def _take_fields(self, fields: dict[str, Any]) -> None:
        for key, value in fields.items():
            if key not in ("content", "usage"):
                self._fields.add(key, value)

    def _take_usage(self, usage: Any, *, newest: bool = False) -> None:
        """`newest`: its output is that of the whole message."""
        if not isinstance(usage, dict):
            return
        for key, value in usage.items():
            self._usage.add(key, value)
        told = token_count(usage.get("input_tokens"), None)
        if told is not None:
            self.input_tokens = told + sum(token_count(usage.get(key), 0) for key in _CACHED)
        if newest:
            self._count_output(usage.get("output_tokens"))

    def _assemble(self) -> bytes:
        if not self._begun:
            raise UpstreamFailed(_NO_START)
        reason = self._fields.text("stop_reason")
        if not reason:
            raise UpstreamFailed(NO_END)
        message = self._fields.value()
        message["content"] = [block.value(whole=reason in _WHOLE) for block in self._blocks]
        message["usage"] = self._usage.value()
        return encoded(message)
