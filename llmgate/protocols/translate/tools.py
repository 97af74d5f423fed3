"""Tools and the choice among them, as OpenAI's function tools."""

from typing import Any, Literal

import msgspec

from llmgate.errors import BadRequest
from llmgate.protocols.decoding import NULL
from llmgate.protocols.translate.content import refused, shown

ServerTools = Literal["reject", "drop"]
"""What becomes of tools that Anthropic's own servers would run."""


class Tool(msgspec.Struct, kw_only=True):
    """As Anthropic has it."""

    name: str = ""
    type: str | None = None
    description: str | None = None
    input_schema: msgspec.Raw = NULL


class ToolChoice(msgspec.Struct, kw_only=True):
    """As Anthropic has it."""

    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Function(msgspec.Struct, frozen=True, omit_defaults=True):
    """The schema is the client's own data and passes as it came."""

    name: str
    description: str | None = None
    parameters: msgspec.Raw = NULL


class FunctionTool(msgspec.Struct, frozen=True, tag_field="type", tag="function"):
    """As OpenAI has it."""

    function: Function


def functions(tools: list[Tool], server_tools: ServerTools) -> list[FunctionTool]:
    """Raises BadRequest for a tool that is no function."""
    return [_function(tool) for tool in tools if server_tools == "reject" or not _is_server_tool(tool)]


def choice_fields(choice: ToolChoice | None, tools: list[FunctionTool]) -> dict[str, Any]:
    """`tool_choice` and `parallel_tool_calls`, where they are to be sent. Without tools there is nothing to choose."""
    if choice is None or not tools:
        return {}
    fields: dict[str, Any] = {"tool_choice": _choice(choice, {tool.function.name for tool in tools})}
    if choice.disable_parallel_tool_use:
        fields["parallel_tool_calls"] = False
    return fields


def _is_server_tool(tool: Tool) -> bool:
    return tool.type not in (None, "custom") and not _has_schema(tool)


def _has_schema(tool: Tool) -> bool:
    return bytes(tool.input_schema).startswith(b"{")


def _function(tool: Tool) -> FunctionTool:
    if _is_server_tool(tool):
        raise refused(f"the tool {shown(tool.name)} of type {shown(tool.type or '')}, which has no schema,")
    if not tool.name:
        raise BadRequest("llmgate: a tool has no name (BAD_REQUEST)")
    if not _has_schema(tool):
        raise BadRequest(f"llmgate: the tool {shown(tool.name)} has no input_schema (BAD_REQUEST)")
    return FunctionTool(Function(tool.name, tool.description, tool.input_schema))


def _choice(choice: ToolChoice, names: set[str]) -> Any:
    match choice:
        case ToolChoice(type="auto" | "none"):
            return choice.type
        case ToolChoice(type="any"):
            return "required"
        case ToolChoice(type="tool", name=str(name)) if name in names:
            return {"type": "function", "function": {"name": name}}
        case ToolChoice(type="tool"):
            raise BadRequest("llmgate: tool_choice names a tool that is not among the tools (BAD_REQUEST)")
    raise BadRequest(f"llmgate: there is no tool_choice of type {shown(choice.type)} (BAD_REQUEST)")
