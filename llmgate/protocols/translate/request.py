"""Turns the body of POST /v1/messages into one of POST /v1/chat/completions.

    model, max_tokens, temperature, top_p, top_k, stream   the same; a stream asks for its usage
    stop_sequences                                         stop, always a list
    system, messages                                       messages: see `history`
    tools, tool_choice                                     see `tools`
    any other key                                          accepted, not sent

`cache_control` falls away with the rest of the envelope; inside a tool's input or schema it is the client's own data.
"""

import re
from typing import Any

import msgspec

from llmgate.errors import BadRequest
from llmgate.protocols.decoding import NULL
from llmgate.protocols.translate.asked import Asked
from llmgate.protocols.translate.complaint import complaint
from llmgate.protocols.translate.history import Message, ReasoningHistory, messages, system_texts
from llmgate.protocols.translate.tools import ServerTools, Tool, ToolChoice, choice_fields, functions
from llmgate.protocols.translate.usage import estimate

_PASSED = ("max_tokens", "temperature", "top_p", "top_k", "stream")
_DATA_URI = re.compile(rb"data:[\w/.+-]*;base64,[^\"]*")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between upstreams."""

    model: str = ""
    """The name to ask for; "": the client's."""
    reasoning_history: ReasoningHistory = "drop"
    server_tools: ServerTools = "reject"


class Translated(msgspec.Struct, frozen=True):
    """A body for the upstream, and what its answer's translation must know."""

    body: bytes
    asked: Asked


class _Request(msgspec.Struct, kw_only=True):
    model: str
    messages: list[Message]
    system: msgspec.Raw = NULL
    max_tokens: int | None = None
    temperature: int | float | None = None
    top_p: int | float | None = None
    top_k: int | None = None
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None


_REQUEST = msgspec.json.Decoder(_Request)
_DEFAULT = Options()


def request(body: bytes, options: Options = _DEFAULT) -> bytes:
    """The body for the upstream; BadRequest, and nothing else, for what cannot be read or expressed."""
    return translate(body, options).body


def translate(body: bytes, options: Options = _DEFAULT) -> Translated:
    """The same, with what the answer's translation must know."""
    try:
        if not body.isascii():
            str(body, "utf-8")  # msgspec does not look into what it keeps as it came
        return _translate(_REQUEST.decode(body), options)
    except msgspec.ValidationError as error:
        raise _bad(complaint(str(error), "the body")) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _bad("the body is not valid JSON") from None
    except RecursionError:
        raise _bad("the body is nested too deeply") from None


def _translate(asked: _Request, options: Options) -> Translated:
    if not asked.model:
        raise _bad("the model name is empty")
    fields: dict[str, Any] = {"model": options.model or asked.model, "messages": _messages(asked, options)}
    fields |= {key: value for key in _PASSED if (value := getattr(asked, key)) is not None}
    if asked.stream:
        fields["stream_options"] = {"include_usage": True}
    if asked.stop_sequences:
        fields["stop"] = asked.stop_sequences
    tools = functions(asked.tools or [], options.server_tools)
    if tools:
        fields["tools"] = tools
    fields |= choice_fields(asked.tool_choice, tools)
    body = msgspec.json.encode(fields)
    return Translated(
        body,
        Asked(
            model=asked.model,
            stop_sequences=tuple(asked.stop_sequences or ()),
            input_estimate=estimate(len(_DATA_URI.sub(b"", body))),
        ),
    )


def _messages(asked: _Request, options: Options) -> list[dict[str, Any]]:
    """One leading system message, then the turns."""
    system = system_texts(asked.system)
    more, turns = messages(asked.messages, reasoning=options.reasoning_history, server_tools=options.server_tools)
    if not turns:
        raise _bad("the body holds no messages")
    text = "\n\n".join(system + more)
    leading = [{"role": "system", "content": text}] if text else []
    return [*leading, *turns]


def _bad(reason: str) -> BadRequest:
    return BadRequest(f"llmgate: {reason} (BAD_REQUEST)")
