"""A real llama-server's whole answers, and the same put together from its streams: they must be equal.

Asked directly, without a gate. Where they are not equal, and so no stream is asked for, is tested too: when a newer
server makes them equal, the rule may go.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from hands import free_port
from llamaserver import MODEL, LlamaServer, assemble_model, is_supported

from llmgate.protocols.gather.gatherings import gathering_of
from llmgate.protocols.gather.request import as_stream

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_supported(), reason="the llama-server package is for Linux on x86_64"),
]

CHAT, MESSAGES, COMPLETIONS, RESPONSES = (
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/completions",
    "/v1/responses",
)
ANSWER_SECONDS = 60.0
SAME = {"model": MODEL, "temperature": 0, "seed": 7, "cache_prompt": False}

# The model's own template knows neither tools nor reasoning.
TEMPLATE = """\
{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<tool_call>
{"name": "NAME", "arguments": {}}
</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.reasoning_content %}<think>
{{ message.reasoning_content }}
</think>

{% endif %}{{ message.content or "" }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

SAY = [{"role": "user", "content": "Say hello in three words."}]
SIGNS = [{"role": "user", "content": "Write five emoji: 😀 🎉 🚀 ❤️ 日本語"}]
THINKING = r'root ::= "<think>\nI think\n</think>\n\nHello there"'
RARE = 'root ::= "𓀀𓂀 𒀀 end"'
"""Characters that take several tokens each."""
NOTHING = 'root ::= ""'

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
}
FUNCTION = {"name": "weather", "description": "Tells the weather.", "parameters": SCHEMA}
TRIPS = [("Rome", 3), ("Oslo", 2), ("Bonn", 5)]
"""What was asked before: so small a model calls a tool only where it has seen calls."""


def asked(city: str, days: int) -> dict[str, Any]:
    return {"role": "user", "content": f"Weather in {city} for {days} days?"}


def chat_tools(**options: Any) -> dict[str, Any]:
    messages = []
    for city, days in TRIPS:
        call = {"name": "weather", "arguments": json.dumps({"city": city, "days": days})}
        calls = [{"id": city, "type": "function", "function": call}]
        messages += [asked(city, days), {"role": "assistant", "content": "", "tool_calls": calls}]
    tools = [{"type": "function", "function": FUNCTION}]
    return {"messages": [*messages, asked("Paris", 4)], "tools": tools, "tool_choice": "required", **options}


def message_tools(**options: Any) -> dict[str, Any]:
    messages = []
    for city, days in TRIPS:
        use = {"type": "tool_use", "id": city, "name": "weather", "input": {"city": city, "days": days}}
        result = {"type": "tool_result", "tool_use_id": city, "content": "sunny"}
        messages += [asked(city, days), {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    tools = [{"name": "weather", "description": "Tells the weather.", "input_schema": SCHEMA}]
    return {"messages": [*messages, asked("Paris", 4)], "tools": tools, "tool_choice": {"type": "any"}, **options}


def response_tools(**options: Any) -> dict[str, Any]:
    given: list[dict[str, Any]] = []
    for city, days in TRIPS:
        arguments = json.dumps({"city": city, "days": days})
        given += [
            asked(city, days),
            {"type": "function_call", "call_id": city, "name": "weather", "arguments": arguments},
            {"type": "function_call_output", "call_id": city, "output": "sunny"},
        ]
    tools = [{"type": "function", **FUNCTION}]
    return {"input": [*given, asked("Paris", 4)], "tools": tools, "tool_choice": "required", **options}


def thought(key: str) -> dict[str, Any]:
    """Asked so that it thinks, since a grammar is not heeded on every path."""
    answer = "<think>\nThey greet me.\n</think>\n\nHello there"
    turns = [
        {"role": role, "content": text} for _ in range(3) for role, text in (("user", "Hi!"), ("assistant", answer))
    ]
    return {key: [*turns, {"role": "user", "content": "Hi!"}]}


EQUAL: dict[str, tuple[str, dict[str, Any]]] = {
    "chat, cut": (CHAT, {"messages": SAY, "max_tokens": 12}),
    "chat, one token": (CHAT, {"messages": SAY, "max_tokens": 1}),
    "chat, nothing": (CHAT, {"messages": SAY, "max_tokens": 9, "grammar": NOTHING}),
    "chat, stop": (CHAT, {"messages": SAY, "max_tokens": 30, "stop": ["words"]}),
    "chat, stop within a token": (CHAT, {"messages": SAY, "max_tokens": 30, "stop": ["o"]}),
    "chat, signs": (CHAT, {"messages": SIGNS, "max_tokens": 20}),
    "chat, rare characters": (CHAT, {"messages": SAY, "max_tokens": 40, "grammar": RARE}),
    "chat, cut within a character": (CHAT, {"messages": SAY, "max_tokens": 6, "grammar": RARE}),
    "chat, reasoning": (CHAT, {"messages": SAY, "max_tokens": 40, "grammar": THINKING}),
    "chat, cut within the reasoning": (CHAT, {"messages": SAY, "max_tokens": 8, "grammar": THINKING}),
    "chat, reasoning as text": (
        CHAT,
        {"messages": SAY, "max_tokens": 40, "grammar": THINKING, "reasoning_format": "none"},
    ),
    "chat, many tools": (CHAT, chat_tools(max_tokens=70)),
    "chat, cut within a tool": (CHAT, chat_tools(max_tokens=24)),
    "chat, a tool that may be": (CHAT, chat_tools(max_tokens=40, tool_choice="auto")),
    "chat, schema": (
        CHAT,
        {
            "messages": SAY,
            "max_tokens": 30,
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
        },
    ),
    "chat, llama-server's own fields": (
        CHAT,
        {
            "messages": SAY,
            "max_tokens": 4,
            "timings_per_token": True,
            "return_progress": True,
            "return_tokens": True,
            "response_fields": ["content"],
            "id_slot": 0,
            "samplers": ["top_k"],
        },
    ),
    "chat, OpenAI's own fields": (
        CHAT,
        {
            "messages": SAY,
            "max_tokens": 4,
            "n": 1,
            "user": "a",
            "metadata": {"a": "b"},
            "store": False,
            "service_tier": "auto",
            "logprobs": False,
            "modalities": ["text"],
        },
    ),
    "completion, cut": (COMPLETIONS, {"prompt": "Once upon a time", "max_tokens": 12}),
    "completion, nothing": (COMPLETIONS, {"prompt": "Once upon a time", "max_tokens": 9, "grammar": NOTHING}),
    "completion, stop": (COMPLETIONS, {"prompt": "Once upon a time", "max_tokens": 30, "stop": ["was a"]}),
    "completion, tokens": (COMPLETIONS, {"prompt": [2, 10784], "max_tokens": 6}),
    "completion, a list of one": (COMPLETIONS, {"prompt": ["Once upon a time"], "max_tokens": 6}),
    "completion, log probabilities": (COMPLETIONS, {"prompt": "Once upon a time", "max_tokens": 6, "logprobs": 2}),
    "completion, probabilities": (
        COMPLETIONS,
        {"prompt": "Once upon a time", "max_tokens": 6, "n_probs": 2, "post_sampling_probs": True},
    ),
    "completion, log probabilities of rare characters": (
        COMPLETIONS,
        {"prompt": "Say", "max_tokens": 40, "grammar": RARE, "logprobs": 1},
    ),
    "message, cut": (MESSAGES, {"messages": SAY, "max_tokens": 12}),
    "message, stop": (MESSAGES, {"messages": SAY, "max_tokens": 30, "stop_sequences": ["words"]}),
    "message, reasoning": (MESSAGES, {**thought("messages"), "max_tokens": 40, "stop_sequences": ["<|im_end|>"]}),
    "message, a tool": (MESSAGES, message_tools(max_tokens=40)),
    "message, cut within a tool": (MESSAGES, message_tools(max_tokens=24)),
    "response, cut": (RESPONSES, {"input": "Say hello in three words.", "max_output_tokens": 12}),
    "response, nothing": (RESPONSES, {"input": SAY, "max_output_tokens": 9, "grammar": NOTHING}),
    "response, reasoning": (RESPONSES, {"input": SAY, "max_output_tokens": 40, "grammar": THINKING}),
    "response, a tool": (RESPONSES, response_tools(max_output_tokens=40)),
    "response, cut within a tool": (RESPONSES, response_tools(max_output_tokens=24)),
}

LEFT_ALONE: dict[str, tuple[str, dict[str, Any]]] = {
    "log probabilities of reasoning": (
        CHAT,
        {"messages": SAY, "max_tokens": 40, "grammar": THINKING, "logprobs": True},
    ),
    "log probabilities of the end": (
        CHAT,
        {"messages": SAY, "max_tokens": 9, "grammar": 'root ::= "hi"', "n_probs": 1},
    ),
    "log probabilities with tools": (CHAT, chat_tools(max_tokens=8, logprobs=True)),
    "log probabilities with a stop": (
        COMPLETIONS,
        {"prompt": "Once upon a time", "max_tokens": 30, "stop": ["was a"], "logprobs": 2},
    ),
    "verbose": (CHAT, {"messages": SAY, "max_tokens": 4, "verbose": True}),
}
"""Here the server's own answer has more, or other things, in it than can be told from its stream."""


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    folder = tmp_path_factory.mktemp("gather")
    model = assemble_model(folder / "model.gguf")
    template = folder / "template.jinja"
    template.write_text(TEMPLATE)
    options = ("--jinja", "--chat-template-file", str(template), "--no-cache-prompt")
    with LlamaServer(folder, model, free_port(), parallel=1, options=options) as server:
        yield server
    model.unlink()


def ask(llama: LlamaServer, path: str, body: bytes) -> bytes:
    request = urllib.request.Request(llama.url + path, body, {"content-type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:  # noqa: S310
        content: bytes = answer.read()
    return content


def gathered(path: str, stream: bytes) -> Any:
    gathering = gathering_of(path)
    assert gathering is not None
    gathering.feed(stream)
    return normal(json.loads(gathering.end()))


OWN = {"id", "call_id", "created", "created_at", "completed_at"}
"""What differs from answer to answer; of the `timings` only the names are the same."""


def normal(value: Any) -> Any:
    if isinstance(value, list):
        return [normal(item) for item in value]
    if isinstance(value, dict):
        return {key: normal_field(key, item) for key, item in value.items()}
    return value


def normal_field(key: str, value: Any) -> Any:
    if key == "timings":
        return sorted(value)
    return type(value) if key in OWN else normal(value)


@pytest.mark.parametrize("name", EQUAL)
def test_equal(llama: LlamaServer, name: str) -> None:
    path, asked = EQUAL[name]
    body = json.dumps(SAME | asked).encode()
    streaming = as_stream(path, body)
    assert streaming is not None
    assert gathered(path, ask(llama, path, streaming)) == normal(json.loads(ask(llama, path, body)))


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_left_alone(llama: LlamaServer, name: str) -> None:
    path, asked = LEFT_ALONE[name]
    body = SAME | asked
    whole = normal(json.loads(ask(llama, path, json.dumps(body).encode())))
    assert as_stream(path, json.dumps(body).encode()) is None
    with_usage = {"stream": True, "stream_options": {"include_usage": True}}
    try:
        found = gathered(path, ask(llama, path, json.dumps(body | with_usage).encode()))
    except urllib.error.HTTPError as error:
        found = error.status
    assert found != whole


def test_the_cases_show_what_they_are_for(llama: LlamaServer) -> None:
    """The small model could do something else one day."""

    def answer(name: str) -> Any:
        path, asked = EQUAL[name]
        return json.loads(ask(llama, path, json.dumps(SAME | asked).encode()))

    tool = {"city": "Paris", "days": 4}
    calls = answer("chat, many tools")["choices"][0]["message"]["tool_calls"]
    assert len(calls) > 1
    assert json.loads(calls[0]["function"]["arguments"]) == tool
    assert answer("chat, reasoning")["choices"][0]["message"]["reasoning_content"]
    assert answer("message, a tool")["content"][0]["input"] == tool
    assert [block["type"] for block in answer("message, reasoning")["content"]] == ["thinking", "text"]
    assert [item["type"] for item in answer("response, reasoning")["output"]] == ["reasoning", "message"]
    assert json.loads(answer("response, a tool")["output"][0]["arguments"]) == tool
