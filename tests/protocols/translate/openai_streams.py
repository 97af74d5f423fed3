"""Streams of OpenAI chat completions as servers send them, and the Anthropic message that each must become.

An item of a stream is a chunk (an object), or bytes that are sent as they stand.
"""

import json
from dataclasses import dataclass, field
from typing import Any

DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
SEEN_USAGE = {"input_tokens": 7, "output_tokens": 3}

Item = dict[str, Any] | bytes


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **choice: Any) -> dict[str, Any]:
    """A chunk with one choice."""
    choices = [{"index": 0, "delta": delta or {}, "finish_reason": finish, **choice}]
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}


def told(**usage: Any) -> dict[str, Any]:
    """The last chunk, without choices."""
    return {**chunk(), "choices": [], "usage": usage or USAGE}


def tool(index: int | None = 0, name: str | None = None, arguments: Any = None, **more: Any) -> dict[str, Any]:
    """One entry of a delta's tool_calls; what is None is left out."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**({} if index is None else {"index": index}), **more, **({"function": function} if function else {})}


def call(*entries: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    """A chunk with pieces of tool calls."""
    return chunk({"tool_calls": list(entries)}, finish)


def say(text: str, finish: str | None = None) -> dict[str, Any]:
    return chunk({"content": text}, finish)


def think(text: str) -> dict[str, Any]:
    return chunk({"reasoning_content": text})


def end(finish: str = "stop", **usage: Any) -> list[Item]:
    """The regular end."""
    return [chunk({}, finish), told(**usage), DONE]


def sse(*items: Item) -> bytes:
    return b"".join(
        item if isinstance(item, bytes) else b"data: " + json.dumps(item).encode() + b"\n\n" for item in items
    )


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def thinking(thought: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": thought}


def use(identity: str, name: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": identity, "name": name, "input": given}


@dataclass(frozen=True)
class Case:
    items: list[Item]
    content: list[dict[str, Any]]
    stop: str | None = "end_turn"
    """None: it ends with an error."""
    usage: dict[str, int] | None = field(default_factory=lambda: SEEN_USAGE)
    """None: it does not matter."""
    stop_sequence: str | None = None
    error: tuple[str, str] | None = None
    """Its type, and a part of its message."""
    asked: tuple[str, ...] = ()
    """The stop sequences of the request."""

    @property
    def stream(self) -> bytes:
        return sse(*self.items)


def broken(items: list[Item], content: list[dict[str, Any]], kind: str = "api_error", message: str = "") -> Case:
    return Case(items, content, stop=None, usage=None, error=(kind, message))


ROLE = chunk({"role": "assistant", "content": ""})
F, G = use("call_a", "f", a=1), use("call_b", "g", b=2)
CUT = "ended its stream before"
NO_JSON = "no JSON object"
ESTIMATED = {"input_tokens": 11}

_WHOLE_F = tool(0, "f", '{"a":1}', id="call_a", type="function")
_WHOLE_G = tool(1, "g", '{"b":2}', id="call_b", type="function")

CASES: dict[str, Case] = {
    # the plain ones
    "text": Case([ROLE, say("Hello"), say(" world"), *end()], [text("Hello world")]),
    "empty list of calls beside text": Case(
        [
            chunk({"role": "assistant", "content": "", "tool_calls": []}),
            chunk({"content": "Hello", "tool_calls": []}),
            chunk({"content": " world", "tool_calls": []}),
            chunk({"tool_calls": []}, "stop"),
            told(),
            DONE,
        ],
        [text("Hello world")],
    ),
    "one tool call": Case(
        [
            ROLE,
            call(tool(0, "f", "", id="call_a", type="function")),
            call(tool(0, None, '{"a":')),
            call(tool(0, None, "1}")),
            *end("tool_calls"),
        ],
        [F],
        "tool_use",
    ),
    "a whole call, its finish and the usage in one chunk": Case(
        [
            {**chunk({"role": "assistant", "content": None, "tool_calls": [_WHOLE_F]}, "tool_calls"), "usage": USAGE},
            DONE,
        ],
        [F],
        "tool_use",
    ),
    "pieces of two calls alternate": Case(
        [
            ROLE,
            call(tool(0, "f", "", id="call_a"), tool(1, "g", "", id="call_b")),
            call(tool(0, None, '{"a":')),
            call(tool(1, None, '{"b":')),
            call(tool(0, None, "1}")),
            call(tool(1, None, "2}")),
            *end("tool_calls"),
        ],
        [F, G],
        "tool_use",
    ),
    "text, a call, finish stop": Case(
        [ROLE, say("Let me look."), call(_WHOLE_F), *end()], [text("Let me look."), F], "tool_use"
    ),
    "reasoning, then text": Case([ROLE, think("hm"), think("m"), say("ok"), *end()], [thinking("hmm"), text("ok")]),
    "reasoning, tool, reasoning, tool": Case(
        [
            ROLE,
            think("r1"),
            call(tool(0, "f", "{}", id="call_a")),
            think("r2"),
            call(tool(1, "g", "{}", id="call_b")),
            *end("tool_calls"),
        ],
        [thinking("r1"), use("call_a", "f"), thinking("r2"), use("call_b", "g")],
        "tool_use",
    ),
    "reasoning, text, two tools": Case(
        [ROLE, think("r"), say("t"), call(_WHOLE_F), call(_WHOLE_G), *end("tool_calls")],
        [thinking("r"), text("t"), F, G],
        "tool_use",
    ),
    "[DONE] without a finish reason": Case([ROLE, call(_WHOLE_F), DONE], [F], "tool_use", None),
    "[DONE] without a finish reason, text": Case([ROLE, say("Hi"), DONE], [text("Hi")], "end_turn", None),
    "content in the chunk of the finish": Case([ROLE, say("Hel"), say("lo", "stop"), told(), DONE], [text("Hello")]),
    "a call without arguments": Case(
        [ROLE, call(tool(0, "f", "", id="call_a")), *end("tool_calls")], [use("call_a", "f")], "tool_use"
    ),
    "an error in the middle": broken(
        [ROLE, say("Hel"), {"error": {"message": "slot lost", "type": "server_error", "code": 500}}, DONE],
        [text("Hel")],
        "api_error",
        "slot lost",
    ),
    "length": Case([ROLE, say("Hello"), *end("length")], [text("Hello")], "max_tokens"),
    "end of the connection": broken([ROLE, say("Hel")], [text("Hel")], "api_error", CUT),
    "end of the connection before any content": broken([ROLE], [], "api_error", CUT),
    "nothing at all": broken([], [], "api_error", CUT),
    "the field reasoning": Case([ROLE, chunk({"reasoning": "hm"}), say("ok"), *end()], [thinking("hm"), text("ok")]),
    "an error at first": broken(
        [{"error": {"message": "model is loading", "type": "unavailable_error", "code": 503}}],
        [],
        "overloaded_error",
        "model is loading",
    ),
    "empty": Case(
        [ROLE, *end(prompt_tokens=7, completion_tokens=0)], [], usage={"input_tokens": 7, "output_tokens": 0}
    ),
    "a call without an id": Case(
        [ROLE, call(tool(0, "f", '{"a":1}', type="function")), *end("tool_calls")],
        [use("toolu_1_1", "f", a=1)],
        "tool_use",
    ),
    "comments of llama-server": Case(
        [b":\n\n", ROLE, b": keep-alive\n\n", say("Hello"), b":x\r\n", *end()], [text("Hello")]
    ),
    # the end
    "a finish reason, but no [DONE]": Case([ROLE, say("Hi", "stop"), told()], [text("Hi")]),
    "a finish reason, neither usage nor [DONE]": Case([ROLE, say("Hi", "stop")], [text("Hi")], usage=None),
    "the last blank line is missing": Case([ROLE, say("Hi", "stop"), told(), b"data: [DONE]"], [text("Hi")]),
    "the last chunk's blank line is missing": Case(
        [ROLE, b"data: " + json.dumps(say("Hi", "stop")).encode() + b"\n"], [text("Hi")], usage=None
    ),
    "cut within the finish": broken([ROLE, say("Hi"), sse(chunk({}, "stop"))[:-9]], [text("Hi")], "api_error", CUT),
    "cut within the usage": Case([ROLE, say("Hi", "stop"), sse(told())[:-9]], [text("Hi")], usage=None),
    "anything after [DONE]": Case([ROLE, say("Hi"), *end(), say("more"), b"data: x\n\n"], [text("Hi")]),
    "text after the finish": Case([say("a", "stop"), say("b"), told(), DONE], [text("ab")]),
    "finish tool_calls without a call": Case([say("Hi"), *end("tool_calls")], [text("Hi")]),
    "finish function_call": Case(
        [
            chunk({"function_call": {"name": "f", "arguments": '{"a":'}}),
            chunk({"function_call": {"arguments": "1}"}}),
            *end("function_call"),
        ],
        [use("toolu_1_1", "f", a=1)],
        "tool_use",
    ),
    "content_filter": Case([say("Hi"), *end("content_filter")], [text("Hi")], "refusal"),
    "a refusal of the model": Case([chunk({"refusal": "I will not"}), *end()], [text("I will not")], "refusal"),
    "length with a whole call": Case([call(_WHOLE_F), *end("length")], [F], "max_tokens"),
    "length within a call": Case(
        [call(_WHOLE_G), call(tool(0, "f", '{"a":', id="call_a")), *end("length")],
        [G, {**F, "input": '{"a":'}],
        "max_tokens",
    ),
    "length before a call's arguments": Case(
        [say("x"), call(tool(0, "f", "", id="call_a")), *end("length")], [text("x")], "max_tokens"
    ),
    "length, a call without arguments before the last": Case(
        [call(tool(0, "f", "", id="call_a")), call(_WHOLE_G), *end("length")], [use("call_a", "f"), G], "max_tokens"
    ),
    "a reason nobody knows": Case([say("Hi"), *end("eos_token")], [text("Hi")]),
    "an empty reason": Case([say("Hi", ""), *end()], [text("Hi")]),
    "the upstream gave up": broken(
        [say("Hi"), *end("insufficient_system_resource")], [text("Hi")], "api_error", "broke"
    ),
    "abort of vLLM": broken([say("Hi", "abort"), DONE], [text("Hi")], "api_error", "broke"),
    "a stop string, vLLM": Case(
        [say("Hi"), chunk({}, "stop", stop_reason="END"), told(), DONE],
        [text("Hi")],
        "stop_sequence",
        stop_sequence="END",
        asked=("X", "END"),
    ),
    "a stop string, SGLang": Case(
        [say("Hi"), chunk({}, "stop", matched_stop="END"), told(), DONE],
        [text("Hi")],
        "stop_sequence",
        stop_sequence="END",
        asked=("END",),
    ),
    "a stop token is no stop string": Case(
        [say("Hi"), chunk({}, "stop", stop_reason=151645, matched_stop=[1]), told(), DONE], [text("Hi")], asked=("END",)
    ),
    "a stop string that nobody asked for": Case(
        [say("Hi"), chunk({}, "stop", stop_reason="stop"), told(), DONE], [text("Hi")], asked=("END",)
    ),
    "a stop string behind a call": Case(
        [call(_WHOLE_F), chunk({}, "stop", stop_reason="END"), told(), DONE], [F], "tool_use", asked=("END",)
    ),
    "the reason stop_sequence, one asked": Case(
        [say("Hi"), *end("stop_sequence")], [text("Hi")], "stop_sequence", stop_sequence="END", asked=("END",)
    ),
    "the reason stop_sequence, two asked": Case(
        [say("Hi"), *end("stop_sequence")], [text("Hi")], "stop_sequence", asked=("END", "X")
    ),
    # usage
    "cached tokens": Case(
        [say("Hi"), *end(prompt_tokens=25, completion_tokens=6, prompt_tokens_details={"cached_tokens": 20})],
        [text("Hi")],
        usage={"input_tokens": 5, "output_tokens": 6, "cache_read_input_tokens": 20},
    ),
    "cached tokens, DeepSeek": Case(
        [say("Hi"), *end(prompt_tokens=25, completion_tokens=6, prompt_cache_hit_tokens=20)],
        [text("Hi")],
        usage={"input_tokens": 5, "output_tokens": 6, "cache_read_input_tokens": 20},
    ),
    "more cached than asked": Case(
        [say("Hi"), *end(prompt_tokens=7, completion_tokens=3, prompt_tokens_details={"cached_tokens": 20})],
        [text("Hi")],
        usage={"input_tokens": 0, "output_tokens": 3, "cache_read_input_tokens": 7},
    ),
    "no cached tokens": Case(
        [say("Hi"), *end(prompt_tokens=7, completion_tokens=3, prompt_tokens_details={"cached_tokens": 0})],
        [text("Hi")],
    ),
    "usage null until the last chunk": Case(
        [{**say("Hi"), "usage": None}, {**chunk({}, "stop"), "usage": None}, told(), DONE], [text("Hi")]
    ),
    "usage grows from chunk to chunk": Case(
        [{**say("H"), "usage": {"prompt_tokens": 7, "completion_tokens": 1}}, say("i"), *end()], [text("Hi")]
    ),
    "usage with the finish, no chunk of its own": Case(
        [say("Hi"), {**chunk({}, "stop"), "usage": USAGE}, DONE], [text("Hi")]
    ),
    "usage in the choice, Moonshot": Case([say("Hi"), chunk({}, "stop", usage=USAGE), DONE], [text("Hi")]),
    "usage before the finish": Case([say("Hi"), told(), chunk({}, "stop"), DONE], [text("Hi")]),
    "no usage": Case(
        [say("Hi"), say("!"), chunk({}, "stop"), DONE], [text("Hi!")], usage={"input_tokens": 11, "output_tokens": 2}
    ),
    "no usage, a long piece": Case(
        [say("x" * 41), chunk({}, "stop"), DONE], [text("x" * 41)], usage={"input_tokens": 11, "output_tokens": 11}
    ),
    "usage that is none": Case(
        [say("Hi"), *end(prompt_tokens="7", completion_tokens=-3, prompt_tokens_details=5)],
        [text("Hi")],
        usage={"input_tokens": 11, "output_tokens": 1},
    ),
    "usage is a list": Case([say("Hi"), {**chunk({}, "stop"), "usage": []}, DONE], [text("Hi")], usage=None),
    # tool calls
    "two whole calls in one chunk": Case([call(_WHOLE_F, _WHOLE_G), *end("tool_calls")], [F, G], "tool_use"),
    "a new id at a used index": Case(
        [call(_WHOLE_F), call({**_WHOLE_G, "index": 0}), *end("tool_calls")], [F, G], "tool_use"
    ),
    "a new id at a used index, in pieces": Case(
        [
            call(tool(0, "f", "", id="call_a")),
            call(tool(0, None, '{"a":1}')),
            call(tool(0, "g", "", id="call_b")),
            call(tool(0, None, '{"b":')),
            call(tool(0, None, "2}")),
            *end("tool_calls"),
        ],
        [F, G],
        "tool_use",
    ),
    "a new id at a used index, without arguments": Case(
        [call(tool(0, "f", "", id="call_a")), call(tool(0, "g", "", id="call_b")), *end("tool_calls")],
        [use("call_a", "f"), use("call_b", "g")],
        "tool_use",
    ),
    "a new id at a used index, the name later": Case(
        [call(_WHOLE_F), call(tool(0, id="call_b")), call(tool(0, "g", '{"b":2}')), *end("tool_calls")],
        [F, G],
        "tool_use",
    ),
    "a new id in every piece, old vLLM": Case(
        [
            call(tool(0, "f", "", id="call_a")),
            call(tool(0, None, '{"a"', id="call_a")),
            call(tool(0, None, ":", id="call_x")),
            call(tool(0, None, "1}", id="call_y")),
            *end("tool_calls"),
        ],
        [F],
        "tool_use",
    ),
    "a new id in every piece, the name alone first, vLLM": Case(
        [
            call(tool(0, "f", id="call_1")),
            call(tool(0, None, '{"a":', id="call_2")),
            call(tool(0, None, "1}", id="call_3")),
            chunk({}, "tool_calls"),
            DONE,
        ],
        [use("call_1", "f", a=1)],
        "tool_use",
        None,
    ),
    "a blank amid the name": Case(
        [call(tool(0, "get_", " ")), call(tool(0, "it", "{}")), *end("tool_calls")],
        [use("toolu_1_1", "get_it")],
        "tool_use",
    ),
    "no ids, one index, one name": Case(
        [call(tool(0, "f", '{"a":1}')), call(tool(0, "f", '{"a":2}')), *end("tool_calls")],
        [use("toolu_1_1", "f", a=1), use("toolu_1_2", "f", a=2)],
        "tool_use",
    ),
    "[DONE] alone": Case([DONE], [], usage={"input_tokens": 11, "output_tokens": 0}),
    "[DONE] behind the usage": Case([told(), DONE], []),
    "the context is too small, without numbers": broken(
        [{"error": {"message": "no room", "type": "invalid_request_error", "code": "context_length_exceeded"}}],
        [],
        "invalid_request_error",
        "prompt is too long: no room",
    ),
    "id and name in every piece": Case(
        [
            call(tool(0, "f", "", id="call_a")),
            call(tool(0, "f", '{"a":', id="call_a")),
            call(tool(0, "f", "1}", id="call_a")),
            call(tool(0, "f", "", id="call_a")),
            *end("tool_calls"),
        ],
        [F],
        "tool_use",
    ),
    "the name in every piece, no id": Case(
        [
            call(tool(0, "f", "")),
            call(tool(0, "f", '{"a":')),
            call(tool(0, "f", "1}")),
            call(tool(0, "f", " ")),
            *end("tool_calls"),
        ],
        [use("toolu_1_1", "f", a=1)],
        "tool_use",
    ),
    "an id of nothing later on, Qwen": Case(
        [
            call(tool(0, "f", "", id="call_a")),
            call(tool(0, None, '{"a":1}', id="", type="function")),
            *end("tool_calls"),
        ],
        [F],
        "tool_use",
    ),
    "no ids, one index": Case(
        [
            call(tool(0, "f", '{"a":1}')),
            call(tool(0, "g", '{"b":2}')),
            call(tool(0, "g", '{"b":3}')),
            *end("tool_calls"),
        ],
        [use("toolu_1_1", "f", a=1), use("toolu_1_2", "g", b=2), use("toolu_1_3", "g", b=3)],
        "tool_use",
    ),
    "no index": Case(
        [
            call(tool(None, "f", '{"a":1}', id="call_a"), tool(None, "g", '{"b":', id="call_b")),
            call(tool(None, None, "2}")),
            *end("tool_calls"),
        ],
        [F, G],
        "tool_use",
    ),
    "no index, the pieces known by their id": Case(
        [
            call(tool(None, "f", '{"a":', id="call_a"), tool(None, "g", '{"b":', id="call_b")),
            call(tool(None, None, "1}", id="call_a"), tool(None, None, "2}", id="call_b")),
            *end("tool_calls"),
        ],
        [F, G],
        "tool_use",
    ),
    "neither index nor id": Case(
        [call(tool(None, "f", ""), tool(None, "g", ""), tool(None, "f", '{"a":1}')), *end("tool_calls")],
        [use("toolu_1_1", "f"), use("toolu_1_2", "g"), use("toolu_1_3", "f", a=1)],
        "tool_use",
    ),
    "one id for two calls": Case(
        [call(tool(0, "f", '{"a":1}', id="call_a"), tool(1, "g", '{"b":2}', id="call_a")), *end("tool_calls")],
        [F, use("toolu_1_2", "g", b=2)],
        "tool_use",
    ),
    "a number for an id": Case(
        [call(tool(0, "f", '{"a":1}', id=5)), *end("tool_calls")], [use("5", "f", a=1)], "tool_use"
    ),
    "the id after the name": Case(
        [
            call(tool(0, "f", "")),
            call(tool(0, None, "", id="call_a")),
            call(tool(0, None, '{"a":1}')),
            *end("tool_calls"),
        ],
        [F],
        "tool_use",
    ),
    "the id after the name, with the name again": Case(
        [call(tool(0, "f", "")), call(tool(0, "f", '{"a":1}', id="call_a")), *end("tool_calls")], [F], "tool_use"
    ),
    "an id for the second call only": Case(
        [call(tool(0, "f", '{"a":1}')), call(tool(0, "g", '{"b":2}', id="call_b")), *end("tool_calls")],
        [use("toolu_1_1", "f", a=1), G],
        "tool_use",
    ),
    "the name in parts": Case(
        [
            call(tool(0, "get_", "", id="call_a")),
            call(tool(0, "wea", "")),
            call(tool(0, "ther", '{"a":1}')),
            *end("tool_calls"),
        ],
        [use("call_a", "get_weather", a=1)],
        "tool_use",
    ),
    "the name grows": Case(
        [call(tool(0, "get", "", id="call_a")), call(tool(0, "get_it", "")), *end("tool_calls")],
        [use("call_a", "get_it")],
        "tool_use",
    ),
    "the name after the arguments": Case(
        [
            call(tool(0, None, '{"a":', id="call_a")),
            call(tool(0, "f", "")),
            call(tool(0, None, "1}")),
            *end("tool_calls"),
        ],
        [F],
        "tool_use",
    ),
    "the name after the arguments' end, another call behind it": Case(
        [
            call(tool(0, None, '{"a":1}', id="call_a")),
            call(_WHOLE_G),
            call(tool(0, "f", "")),
            *end("tool_calls"),
        ],
        [F, G],
        "tool_use",
    ),
    "no name at all": broken(
        [call(tool(0, None, '{"a":1}', id="call_a")), *end("tool_calls")], [], "api_error", "name"
    ),
    "a call of which nothing is told": Case([say("Hi"), call(tool(0, "", ""), tool(1)), *end()], [text("Hi")]),
    "a call of which only the id is told": Case([say("Hi"), call(tool(0, "", "", id="x")), *end()], [text("Hi")]),
    "entries that are no calls": Case(
        [chunk({"content": "Hi", "tool_calls": [None, 5, {"index": 0, "function": 5}]}), *end()], [text("Hi")]
    ),
    "tool_calls null": Case(
        [chunk({"content": "Hi", "tool_calls": None, "function_call": None}), *end()], [text("Hi")]
    ),
    "arguments null": Case(
        [call({"index": 0, "id": "call_a", "function": {"name": "f", "arguments": None}}), *end("tool_calls")],
        [use("call_a", "f")],
        "tool_use",
    ),
    "arguments that are the word null": Case(
        [call(tool(0, "f", "nu", id="call_a")), call(tool(0, None, "ll ")), *end("tool_calls")],
        [use("call_a", "f")],
        "tool_use",
    ),
    "arguments as an object": Case([call(tool(0, "f", {"a": 1}, id="call_a")), *end("tool_calls")], [F], "tool_use"),
    "arguments inside a string": Case(
        [call(tool(0, "f", '"{\\"a\\"', id="call_a")), call(tool(0, None, ': 1}"')), *end("tool_calls")],
        [F],
        "tool_use",
    ),
    "an empty object before the arguments": Case(
        [
            call(tool(0, "f", "{}", id="call_a")),
            call(tool(0, None, '{"a"')),
            call(tool(0, None, ":1}")),
            *end("tool_calls"),
        ],
        [F],
        "tool_use",
    ),
    "blanks around the arguments": Case(
        [call(tool(0, "f", " \n", id="call_a")), call(tool(0, None, ' {"a": 1} ')), call(tool(0, None, "\n")), *end()],
        [F],
        "tool_use",
    ),
    "brackets inside strings": Case(
        [
            call(tool(0, "f", '{"a":"}]\\', id="call_a")),
            call(tool(0, None, '"{\\\\"}')),
            call(_WHOLE_G),
            *end("tool_calls"),
        ],
        [use("call_a", "f", a='}]"{\\'), G],
        "tool_use",
    ),
    "arguments of another kind": broken([call(tool(0, "f", "[1]", id="call_a")), *end()], [], "api_error", NO_JSON),
    "a string that holds no object": broken(
        [call(tool(0, "f", '"[1]"', id="call_a")), *end()], [], "api_error", NO_JSON
    ),
    "arguments that are no JSON": broken(
        [call(tool(0, "f", "{a:1}", id="call_a")), *end()], [{**F, "input": {}}], "api_error", NO_JSON
    ),
    "arguments that do not end": broken(
        [call(tool(0, "f", '{"a":', id="call_a")), *end("tool_calls")], [{**F, "input": {}}], "api_error", NO_JSON
    ),
    "arguments that do not end, [DONE] without finish": broken(
        [call(tool(0, "f", '{"a":', id="call_a")), DONE], [{**F, "input": {}}], "api_error", NO_JSON
    ),
    "arguments that go on after their end": broken(
        [call(_WHOLE_F), call(tool(0, None, "}")), *end()], [{**F, "input": {}}], "api_error", NO_JSON
    ),
    "two empty objects and an object": broken(
        [call(tool(0, "f", "{}{}{}", id="call_a")), *end()], [], "api_error", NO_JSON
    ),
    "the end of the connection within a call": broken(
        [call(tool(0, "f", '{"a":', id="call_a"))], [{**F, "input": {}}], "api_error", CUT
    ),
    "text amid a call waits": Case(
        [call(tool(0, "f", '{"a":', id="call_a")), say("x"), call(tool(0, None, "1}")), say("y"), *end()],
        [F, text("xy")],
        "tool_use",
    ),
    "text and a call in one chunk": Case(
        [chunk({"content": "x", "reasoning_content": "r", "tool_calls": [_WHOLE_F]}), *end()],
        [thinking("r"), text("x"), F],
        "tool_use",
    ),
    "a call, text, thinking, text": Case(
        [call(_WHOLE_F), say("x"), think("r"), say("y"), *end()], [F, text("x"), thinking("r"), text("y")], "tool_use"
    ),
    "a surrogate pair cut in the arguments": Case(
        [
            call(tool(0, "f", '{"a":"\ud83d', id="call_a")),
            call(tool(0, None, '\ude00\ud83d"}')),
            *end("tool_calls"),
        ],
        [use("call_a", "f", a="\U0001f600\ufffd")],
        "tool_use",
    ),
    "half a surrogate pair ends the arguments": broken(
        [call(tool(0, "f", "{}\ud83d", id="call_a")), *end("tool_calls")], [], "api_error", NO_JSON
    ),
    "NaN in the arguments": broken(
        [call(tool(0, "f", '{"a":NaN}', id="call_a")), *end()], [{**F, "input": {}}], "api_error", NO_JSON
    ),
    "a single escaped surrogate in the arguments": Case(
        [call(tool(0, "f", '{"a":"\\ud83d"}', id="call_a")), *end()], [use("call_a", "f", a="\ud83d")], "tool_use"
    ),
    # text
    "the same reasoning under two names, vLLM": Case(
        [chunk({"reasoning": "hm", "reasoning_content": "hm"}), say("ok"), *end()], [thinking("hm"), text("ok")]
    ),
    "reasoning only": Case([think("hm"), *end()], [thinking("hm")]),
    "empty deltas everywhere": Case(
        [
            chunk({"role": "assistant", "content": "", "reasoning_content": ""}),
            chunk({"content": None, "reasoning_content": None, "reasoning": ""}),
            say("Hi"),
            say(""),
            think(""),
            chunk({"refusal": None}),
            *end(),
        ],
        [text("Hi")],
    ),
    "content as parts, Mistral": Case(
        [
            chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "r"}, 5, {}]}]}),
            chunk({"content": [{"type": "thinking", "thinking": "s"}, {"type": "thinking", "thinking": ""}]}),
            chunk({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": ""}, 5, {"type": "x"}]}),
            *end(),
        ],
        [thinking("rs"), text("a")],
    ),
    "content that is no text": Case([chunk({"content": 5}), say("a"), *end()], [text("a")]),
    "unicode": Case([say("é"), say("\U0001f600"), say("\x00\u2028"), *end()], [text("é\U0001f600\x00\u2028")]),
    "a surrogate pair cut in two": Case([say("a\ud83d"), say("\ude00b"), *end()], [text("a\U0001f600b")]),
    "half a surrogate pair": Case([say("a\ud83d"), *end()], [text("a\ufffd")]),
    "half a surrogate pair alone": Case([say("\ud83d"), think("x"), *end()], [text("\ufffd"), thinking("x")]),
    "the second half alone": Case([say("a\ude00"), *end()], [text("a\ufffd")]),
    "a character cut between its bytes": Case(
        [b'data: {"choices":[{"delta":{"content":"a\xc3"}}]}\n\n', *end()], [text("a\ufffd")]
    ),
    "NaN beside the text": Case(
        [b'data: {"choices":[{"delta":{"content":"a"},"logprobs":NaN}]}\n\n', *end()], [text("a")]
    ),
    # chunks
    "no index in the choice": Case([{"choices": [{"delta": {"content": "a"}}]}, *end()], [text("a")]),
    "other choices": Case(
        [
            {"choices": [{"index": 1, "delta": {"content": "no"}}, None, {"index": 0, "delta": {"content": "a"}}]},
            *end(),
        ],
        [text("a")],
    ),
    "chunks without anything": Case(
        [
            {},
            {"choices": None},
            {"choices": "x"},
            {"choices": [{"index": 0}]},
            {"choices": [{"delta": None}]},
            say("a"),
            *end(),
        ],
        [text("a")],
    ),
    "error null in every chunk": Case([{**say("a"), "error": None}, {**say("b"), "error": {}}, *end()], [text("ab")]),
    # errors
    "an error that is a text, Ollama": broken(
        [say("a"), {"error": "out of memory"}], [text("a")], "api_error", "memory"
    ),
    "an error without any word": broken([say("a"), {"error": {}}], [text("a")], "api_error", "no reason"),
    "an error of vLLM": broken(
        [{"object": "error", "message": "too many", "type": "BadRequestError", "code": 400}],
        [],
        "invalid_request_error",
        "too many",
    ),
    "an error of Anthropic's shape": broken(
        [{"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}],
        [],
        "rate_limit_error",
        "slow down",
    ),
    "the type tells the status": broken(
        [{"error": {"message": "slow down", "type": "rate_limit_error", "code": None}}], [], "rate_limit_error", "slow"
    ),
    "the code is a text": broken(
        [{"error": {"message": "no key", "code": "401"}}], [], "authentication_error", "no key"
    ),
    "the context is too small": broken(
        [
            {
                "error": {
                    "code": 400,
                    "message": "no",
                    "type": "exceed_context_size_error",
                    "n_prompt_tokens": 5,
                    "n_ctx": 2,
                }
            }
        ],
        [],
        "invalid_request_error",
        "prompt is too long: 5 tokens > 2 maximum",
    ),
    "an event named error": broken(
        [say("a"), b"event: error\ndata: it broke\n\n", say("b"), DONE], [text("a")], "api_error", "it broke"
    ),
    "an event named error without data": broken([say("a"), b"event: error\n\n"], [text("a")], "api_error", "no reason"),
    "an error beside choices": broken(
        [{**say("a", "error"), "error": {"message": "gone", "code": 502}}], [], "api_error", "gone"
    ),
    "a chunk that is no JSON": broken(
        [say("a"), b"data: {oops\n\n", say("b"), DONE], [text("a")], "api_error", NO_JSON
    ),
    "a chunk that is no object": broken([say("a"), b"data: [1]\n\n", DONE], [text("a")], "api_error", NO_JSON),
    "a chunk that is nested too deeply": broken(
        [say("a"), b"data: " + b'{"a":' * 100_000 + b"\n\n"], [text("a")], "api_error", NO_JSON
    ),
    # the grammar of event streams
    "CRLF": Case([sse(say("a"), *end()).replace(b"\n", b"\r\n")], [text("a")]),
    "CR": Case([sse(say("a"), *end()).replace(b"\n", b"\r")], [text("a")]),
    "a byte order mark": Case([b"\xef\xbb\xbf", say("a"), *end()], [text("a")]),
    "no space behind data:": Case([sse(say("a"), *end()).replace(b"data: ", b"data:")], [text("a")]),
    "data in several lines": Case(
        [b'data: {"choices":\ndata: [{"delta":\ndata:  {"content":"a"}}]}\n\n', *end()], [text("a")]
    ),
    "id, retry and event lines": Case([b"id: 1\nretry: 5\nevent: message\n", say("a"), *end()], [text("a")]),
    "comments amid an event": Case([b": x\n", say("a"), b": y\n: z\n\n", *end()], [text("a")]),
    "data without anything": Case(
        [b"data\n\ndata:\n\ndata: \n\nevent: ping\ndata: \n\n", say("a"), *end()], [text("a")]
    ),
    "no blank lines": Case([sse(say("a"), *end()).replace(b"\n\n", b"\n")], [text("a")]),
    "no blank lines, and cut": broken(
        [sse(say("a"), say("b")).replace(b"\n\n", b"\n"), b'data: {"cho'], [text("ab")], "api_error", CUT
    ),
    "no blank lines, and no JSON": broken(
        [sse(say("a")).replace(b"\n\n", b"\n"), b"data: x\n\n"], [text("a")], "api_error", NO_JSON
    ),
}
