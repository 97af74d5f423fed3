"""The messages of an Anthropic request, as OpenAI's.

- Messages that follow each other in one role are one turn, as Anthropic has it; many chat templates take no other.
- A user's turn is first its tool results, one `tool` message each, so that they stand next to the calls; then one
  `user` message: the images of the results, then everything else in its order.
- An assistant's turn is one message: its texts joined, its calls, and its thinking where the upstream wants that back.
- Thinking is never shown to the model as text.
"""

from typing import Any, Literal

import msgspec

from llmgate.errors import BadRequest
from llmgate.protocols.decoding import NULL
from llmgate.protocols.translate.content import Block, Image, Part, Text, part_of, read_content, refused, shown
from llmgate.protocols.translate.tools import ServerTools

ReasoningHistory = Literal["drop", "reasoning_content"]
"""What becomes of earlier thinking."""


class Message(msgspec.Struct):
    """As Anthropic has it."""

    role: str
    content: msgspec.Raw = NULL


class UserTurn:
    """What a user said, tool results included."""

    def __init__(self) -> None:
        self._results: list[dict[str, Any]] = []
        self._images: list[Part] = []
        self._parts: list[Part] = []

    def add(self, block: Block) -> None:
        """Raises BadRequest for what cannot be expressed."""
        if block.type == "tool_result":
            self._add_result(block)
        else:
            self._parts.append(part_of(block))

    def render(self) -> list[dict[str, Any]]:
        """The messages."""
        parts = [part for part in self._parts if part != Text("")]
        parts = self._images + parts
        if not parts and self._results:
            return self._results
        return [*self._results, {"role": "user", "content": _flat(parts)}]

    def _add_result(self, block: Block) -> None:
        if not block.tool_use_id:
            raise BadRequest("llmgate: a tool_result has no tool_use_id (BAD_REQUEST)")
        parts = [part_of(inner) for inner in read_content(block.content)]
        text = "\n".join(part.text for part in parts if isinstance(part, Text))
        if block.is_error:
            text = f"Error: {text}" if text else "Error"
        self._results.append({"role": "tool", "tool_call_id": block.tool_use_id, "content": text})
        self._images += [part for part in parts if isinstance(part, Image)]


class AssistantTurn:
    """What the model said."""

    def __init__(self, reasoning: ReasoningHistory, server_tools: ServerTools) -> None:
        self._keeps_reasoning = reasoning == "reasoning_content"
        self._drops_server_tools = server_tools == "drop"
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[dict[str, Any]] = []

    def add(self, block: Block) -> None:
        """Raises BadRequest for what cannot be expressed."""
        match block.type:
            case "text":
                self._texts.append(block.text)
            case "tool_use":
                self._calls.append(_call(block))
            case "thinking":
                self._thoughts.append(block.thinking)
            case "redacted_thinking":
                pass  # only Anthropic can read it
            case _ if not (self._drops_server_tools and _is_of_server_tool(block)):
                raise refused(f"an answer's content of type {shown(block.type)}")

    def render(self) -> list[dict[str, Any]]:
        """The message."""
        text = "".join(self._texts)
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if self._calls:
            message |= {"content": text or None, "tool_calls": self._calls}
        thoughts = "".join(self._thoughts)
        if thoughts and self._keeps_reasoning:
            message["reasoning_content"] = thoughts
        return [message]


def messages(
    history: list[Message], *, reasoning: ReasoningHistory, server_tools: ServerTools
) -> tuple[list[str], list[dict[str, Any]]]:
    """The texts of system messages that stand in the history, and all others. Raises BadRequest."""
    system: list[str] = []
    turns: list[UserTurn | AssistantTurn] = []
    for message in history:
        if message.role == "system":
            system += system_texts(message.content)
            continue
        kind = _turn_of(message.role)
        if not turns or not isinstance(turns[-1], kind):
            turns.append(UserTurn() if kind is UserTurn else AssistantTurn(reasoning, server_tools))
        for block in read_content(message.content):
            turns[-1].add(block)
    return system, [message for turn in turns for message in turn.render()]


def system_texts(content: msgspec.Raw) -> list[str]:
    """The texts of a system prompt, without the line that Claude Code puts before it.

    That line changes with every request, so that no server could find the prompt in its cache.
    """
    blocks = read_content(content)
    for block in blocks:
        if block.type != "text":
            raise refused(f"a system prompt of type {shown(block.type)}")
    return [text for block in blocks if (text := _without_billing(block.text))]


def _without_billing(text: str) -> str:
    if not text.startswith("x-anthropic-billing-header:"):
        return text
    return text.partition("\n")[2].lstrip("\n")


def _turn_of(role: str) -> type[UserTurn | AssistantTurn]:
    match role:
        case "user":
            return UserTurn
        case "assistant":
            return AssistantTurn
    raise BadRequest(f"llmgate: there is no role {shown(role)} (BAD_REQUEST)")


def _call(block: Block) -> dict[str, Any]:
    if not block.id or not block.name:
        raise BadRequest("llmgate: a tool_use has no id or no name (BAD_REQUEST)")
    given = b"{}" if block.input == NULL else bytes(block.input)
    if not given.startswith(b"{"):
        raise BadRequest("llmgate: the input of a tool_use is not an object (BAD_REQUEST)")
    arguments = msgspec.json.format(given, indent=-1).decode()
    return {"id": block.id, "type": "function", "function": {"name": block.name, "arguments": arguments}}


def _is_of_server_tool(block: Block) -> bool:
    return block.type in ("server_tool_use", "mcp_tool_use") or (
        block.type.endswith("_tool_result") and block.type != "tool_result"
    )


def _flat(parts: list[Part]) -> str | list[Part]:
    """One text alone is a plain string, which every server takes."""
    match parts:
        case []:
            return ""
        case [Text(text)]:
            return text
    return parts
