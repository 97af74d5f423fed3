"""The request: every row of the mapping, what is refused, and what holds for any valid body."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.errors import BadRequest
from llmgate.protocols.translate.asked import Asked
from llmgate.protocols.translate.request import Options, request, translate

TOOL = {"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
HEADER = "x-anthropic-billing-header: cc_version=2.1.37; cch="


def body(*messages: Any, **more: Any) -> bytes:
    """A request; a text is a user's message."""
    history = [{"role": "user", "content": message} if isinstance(message, str) else message for message in messages]
    return json.dumps({"model": "m", "max_tokens": 64, "messages": history or [said("user", "hi")], **more}).encode()


def said(role: str, *content: Any) -> dict[str, Any]:
    return {"role": role, "content": content[0] if len(content) == 1 and isinstance(content[0], str) else list(content)}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def image(**source: str) -> dict[str, Any]:
    return {"type": "image", "source": source or {"type": "base64", "media_type": "image/webp", "data": "AAAA"}}


def use(identity: str, name: str = "f", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": identity, "name": name, "input": given}


def result(identity: str, *content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": identity, **({"content": content[0]} if content else {}), **more}


def sent(data: bytes, **options: Any) -> dict[str, Any]:
    found = json.loads(request(data, Options(**options)))
    assert isinstance(found, dict)
    return found


def messages(*history: Any, **more: Any) -> list[dict[str, Any]]:
    options = {key: more.pop(key) for key in ("reasoning_history", "server_tools") if key in more}
    found = sent(body(*history, **more), **options)["messages"]
    assert isinstance(found, list)
    return found


def roles(*history: Any, **more: Any) -> list[str]:
    return [message["role"] for message in messages(*history, **more)]


def refusal(data: bytes, **options: Any) -> str:
    with pytest.raises(BadRequest) as error:
        request(data, Options(**options))
    assert str(error.value).startswith("llmgate: ")
    assert str(error.value).endswith(" (BAD_REQUEST)")
    return str(error.value)


def keys_of(found: Any) -> set[str]:
    """Every key at any depth."""
    if isinstance(found, dict):
        return set(found).union(*map(keys_of, found.values()))
    return set().union(*map(keys_of, found)) if isinstance(found, list) else set()


# the envelope


def test_the_plainest_request() -> None:
    assert sent(body("hi")) == {"model": "m", "messages": [said("user", "hi")], "max_tokens": 64}


def test_numbers_pass_as_they_are() -> None:
    more = {"temperature": 0.7, "top_p": 1, "top_k": 40, "stream": False}
    assert sent(body("hi", **more)).items() >= more.items()
    assert b'"top_p":1,' in request(body("hi", **more))


def test_a_stream_asks_for_its_usage() -> None:
    assert sent(body("hi", stream=True)).items() >= {"stream": True, "stream_options": {"include_usage": True}}.items()
    assert "stream_options" not in sent(body("hi", stream=False))


@pytest.mark.parametrize(("given", "stop"), [(["END"], ["END"]), (["a", "b"], ["a", "b"]), ([], None), (None, None)])
def test_stop_sequences_are_a_list(given: list[str] | None, stop: list[str] | None) -> None:
    assert sent(body("hi", stop_sequences=given)).get("stop") == stop


def test_another_model_is_asked_for() -> None:
    assert sent(body("hi"), model="other")["model"] == "other"


def test_what_is_unknown_is_accepted_and_not_sent() -> None:
    more = {
        "metadata": {"user_id": "u"},
        "context_management": {},
        "service_tier": "auto",
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "betas": ["x"],
        "anything": [1],
    }
    assert sent(body("hi", **more)) == sent(body("hi"))


def test_nulls_count_as_absent() -> None:
    names = ("system", "temperature", "top_p", "top_k", "stream", "stop_sequences", "tools", "tool_choice")
    assert sent(body("hi", **dict.fromkeys(names))) == sent(body("hi"))


def test_cache_control_stays_behind() -> None:
    cache = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    data = body(
        said("user", text("hi", **cache), {**image(), **cache}),
        said("assistant", {**use("t1"), **cache}),
        said("user", {**result("t1", [text("r", **cache)]), **cache}),
        system=[text("A", **cache), text("B")],
        tools=[{**TOOL, **cache}],
        **cache,
    )
    assert keys_of(sent(data)).isdisjoint({"cache_control", "ttl", "input_schema"})


def test_cache_control_is_kept_where_it_is_the_clients_own_data() -> None:
    schema = {"type": "object", "properties": {"cache_control": {"type": "string"}}}
    found = sent(
        body(
            "hi", said("assistant", use("t1", cache_control={"ttl": 1})), tools=[{"name": "f", "input_schema": schema}]
        )
    )
    assert found["tools"][0]["function"]["parameters"] == schema
    assert found["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"cache_control":{"ttl":1}}'


# system


@pytest.mark.parametrize("system", ["A\n\nB", [text("A"), text("B")], [text("A"), text(""), text("B")]])
def test_the_system_prompt_leads(system: Any) -> None:
    assert messages("hi", system=system) == [said("system", "A\n\nB"), said("user", "hi")]


@pytest.mark.parametrize("system", [None, "", [], [text("")], [text(HEADER)], HEADER, HEADER + "\n"])
def test_no_system_prompt(system: Any) -> None:
    assert roles("hi", system=system) == ["user"]


def test_system_messages_of_the_history_join_the_leading_one() -> None:
    history = (said("system", "B"), "hi", said("assistant", "ok"), said("system", text("C"), text("D")), "more")
    found = messages(*history, system="A")
    assert found[0] == said("system", "A\n\nB\n\nC\n\nD")
    assert [message["role"] for message in found] == ["system", "user", "assistant", "user"]


def test_a_system_message_between_two_of_the_user_leaves_one_turn() -> None:
    assert roles("a", said("system", "S"), "b") == ["system", "user"]


@pytest.mark.parametrize(
    "with_header",
    [
        lambda header: [text(header), text("You are brief.")],
        lambda header: header + "\nYou are brief.",
        lambda header: header + "\n\nYou are brief.",
        lambda header: [text("You are brief."), text(header)],
    ],
    ids=["a block", "the first line", "before a blank line", "the last block"],
)
def test_the_billing_header_is_dropped(with_header: Any) -> None:
    first, second = (request(body("hi", system=with_header(HEADER + value))) for value in ("fa690;", "0aaa9;"))
    assert first == second
    assert json.loads(first)["messages"][0] == said("system", "You are brief.")


def test_the_billing_header_is_dropped_from_the_history_too() -> None:
    assert roles(said("system", HEADER + "1;"), "hi") == ["user"]


def test_a_mention_of_the_billing_header_stays() -> None:
    system = "Never show x-anthropic-billing-header: to anybody."
    assert messages("hi", system=system)[0]["content"] == system


# what a user says


def test_a_single_text_is_a_plain_string() -> None:
    assert messages(said("user", text("hi"))) == [said("user", "hi")]


def test_several_texts_stay_apart() -> None:
    assert messages(said("user", text("a"), text("b"))) == [said("user", text("a"), text("b"))]


@pytest.mark.parametrize("content", ["", [], [text("")], None])
def test_nothing_said(content: Any) -> None:
    assert messages({"role": "user", "content": content}) == [said("user", "")]


def test_images_keep_their_place() -> None:
    url = image(type="url", url="http://127.0.0.1/x.png")
    assert messages(said("user", text("before"), image(), url, text("after"))) == [
        said(
            "user",
            text("before"),
            {"type": "image_url", "image_url": {"url": "data:image/webp;base64,AAAA"}},
            {"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}},
            text("after"),
        )
    ]


def test_an_image_alone() -> None:
    assert [part["type"] for part in messages(said("user", image()))[0]["content"]] == ["image_url"]


@pytest.mark.parametrize(
    ("document", "shown"),
    [
        ({"source": {"type": "text", "media_type": "text/plain", "data": "D"}}, "D"),
        ({"source": {"type": "text", "data": "D"}, "title": "T", "context": "C", "citations": {}}, "T\n\nC\n\nD"),
        ({"source": {"type": "content", "content": "D"}, "title": None}, "D"),
        ({"source": {"type": "content", "content": [text("D"), text("E")]}}, "D\nE"),
    ],
)
def test_a_text_document_becomes_text(document: dict[str, Any], shown: str) -> None:
    assert messages(said("user", {"type": "document", **document})) == [said("user", shown)]


def test_a_search_result_becomes_text() -> None:
    found = {"type": "search_result", "source": "http://x", "title": "T", "content": [text("a"), text("b")]}
    assert messages(said("user", found)) == [said("user", "T\n\nhttp://x\n\na\nb")]
    assert messages(said("user", {**found, "source": 5})) == [said("user", "T\n\na\nb")]


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (image(type="carrier_pigeon"), "neither base64 nor a URL"),
        (image(type="file", file_id="x"), "neither base64 nor a URL"),
        (image(type="base64", media_type="", data="x"), "neither base64 nor a URL"),
        (image(type="base64", media_type="image/png"), "neither base64 nor a URL"),
        (image(type="url", url=""), "neither base64 nor a URL"),
        ({"type": "image"}, "neither base64 nor a URL"),
        ({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "x"}}, "not text"),
        ({"type": "document", "source": {"type": "url", "url": "http://x"}}, "not text"),
        ({"type": "document", "source": {"type": "content", "content": [image()]}}, "not text"),
        ({"type": "document"}, "not text"),
        ({"type": "container_upload", "file_id": "x"}, "'container_upload'"),
        (use("t1"), "'tool_use'"),
        ({"type": "thinking", "thinking": "x"}, "'thinking'"),
    ],
)
def test_what_cannot_be_said_is_refused(block: dict[str, Any], reason: str) -> None:
    assert reason in refusal(body(said("user", text("x"), block)))


# tools in the history


def test_results_come_first_and_next_to_their_calls() -> None:
    found = messages("go", said("assistant", use("t1", a=1)), said("user", text("and hurry"), result("t1", "42")))
    assert found == [
        said("user", "go"),
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "42"},
        said("user", "and hurry"),
    ]


def test_results_in_two_messages_of_the_user() -> None:
    history = (
        "go",
        said("assistant", use("a"), use("b")),
        said("user", result("a"), text("x")),
        said("user", result("b")),
    )
    assert roles(*history) == ["user", "assistant", "tool", "tool", "user"]


def test_two_answers_in_a_row_are_one_turn() -> None:
    history = (
        "go",
        said("assistant", text("x"), use("a")),
        said("assistant", text("y"), use("b")),
        said("user", result("a"), result("b")),
    )
    found = messages(*history)
    assert [message["role"] for message in found] == ["user", "assistant", "tool", "tool"]
    assert found[1]["content"] == "xy"
    assert [call["id"] for call in found[1]["tool_calls"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("block", "content"),
    [
        (result("t1", "42"), "42"),
        (result("t1"), ""),
        (result("t1", None), ""),
        (result("t1", []), ""),
        (result("t1", [text("a")]), "a"),
        (result("t1", [text("a"), text("b")]), "a\nb"),
        (result("t1", "no", is_error=True), "Error: no"),
        (result("t1", is_error=True), "Error"),
        (result("t1", "yes", is_error=False), "yes"),
        (result("t1", "yes", is_error=None), "yes"),
        (result("t1", [{"type": "document", "source": {"type": "text", "data": "D"}}]), "D"),
        (result("t1", [{"type": "tool_reference", "tool_name": "g"}]), "g"),
        (result("t1", [{"type": "search_result", "source": "s", "title": "t", "content": [text("c")]}]), "t\n\ns\n\nc"),
    ],
)
def test_a_result_is_a_text(block: dict[str, Any], content: str) -> None:
    found = messages("go", said("assistant", use("t1")), said("user", block))
    assert found[2:] == [{"role": "tool", "tool_call_id": "t1", "content": content}]


def test_images_of_results_follow_them() -> None:
    history = said(
        "user", text("look"), result("a", [text("x"), image()]), image(type="url", url="u"), result("b", [image()])
    )
    found = messages("go", said("assistant", use("a"), use("b")), history)
    assert [message["role"] for message in found] == ["user", "assistant", "tool", "tool", "user"]
    assert [message["content"] for message in found[2:4]] == ["x", ""]
    assert [part["type"] for part in found[4]["content"]] == ["image_url", "image_url", "text", "image_url"]
    assert found[4]["content"][3]["image_url"]["url"] == "u"


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ("{}", "{}"),
        ("null", "{}"),
        ('{"b" : [1, 2.0, 12345678901234567890123], "a":"é \\u00e9 \\ud83d\\ude00"}', None),
        ('{ "cache_control": {"type": "ephemeral"} }', '{"cache_control":{"type":"ephemeral"}}'),
    ],
)
def test_arguments_are_compact_json(given: str, arguments: str | None) -> None:
    data = body("go", said("assistant", {**use("t1"), "input": "GIVEN"})).replace(b'"GIVEN"', given.encode())
    found = sent(data)["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert found == arguments or (arguments is None and json.loads(found) == json.loads(given))
    assert ": " not in found


def test_a_call_without_input() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "f"}
    assert messages("go", said("assistant", call))[1]["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize(
    "block", [{**use("t1"), "input": [1]}, {**use("t1"), "input": "{}"}, use(""), use("t1", ""), {"type": "tool_use"}]
)
def test_a_malformed_call_is_refused(block: dict[str, Any]) -> None:
    assert "tool_use" in refusal(body("go", said("assistant", block)))


def test_a_result_of_no_call_is_refused() -> None:
    assert "tool_use_id" in refusal(body("go", said("user", {"type": "tool_result", "content": "x"})))


# what the model said


def test_texts_of_an_answer_are_joined() -> None:
    assert messages("q", said("assistant", text("a"), text("b"))) == [said("user", "q"), said("assistant", "ab")]


def test_text_beside_calls() -> None:
    message = messages("q", said("assistant", text("a"), use("t1")))[1]
    assert (message["content"], len(message["tool_calls"])) == ("a", 1)


_THOUGHTS = said(
    "assistant",
    {"type": "thinking", "thinking": "SEC", "signature": "s"},
    {"type": "redacted_thinking", "data": "xyz"},
    {"type": "thinking", "thinking": "RET", "signature": "s"},
    text("a"),
)


def test_thinking_is_dropped() -> None:
    assert messages("q", _THOUGHTS, "q2") == [said("user", "q"), said("assistant", "a"), said("user", "q2")]


def test_thinking_goes_back_where_it_is_wanted() -> None:
    found = messages("q", _THOUGHTS, "q2", reasoning_history="reasoning_content")
    assert found[1] == {**said("assistant", "a"), "reasoning_content": "SECRET"}
    assert "xyz" not in json.dumps(found)


def test_an_answer_of_thinking_alone() -> None:
    thought = said("assistant", {"type": "thinking", "thinking": "x"})
    assert messages("q", thought, "q2")[1] == said("assistant", "")
    wanted = messages("q", thought, "q2", reasoning_history="reasoning_content")[1]
    assert wanted == {**said("assistant", ""), "reasoning_content": "x"}


_SERVER_BLOCKS = [
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result", "url": "u"}]},
    {"type": "mcp_tool_use", "id": "s2", "name": "x", "server_name": "y", "input": {}},
    {"type": "mcp_tool_result", "tool_use_id": "s2", "content": {"type": "x"}, "is_error": False},
]


@pytest.mark.parametrize("block", _SERVER_BLOCKS, ids=lambda block: block["type"])
def test_calls_of_server_tools_in_the_history(block: dict[str, Any]) -> None:
    data = body("q", said("assistant", text("a"), block), "q2")
    assert repr(block["type"]) in refusal(data)
    assert sent(data, server_tools="drop")["messages"][1] == said("assistant", "a")


@pytest.mark.parametrize("block", [image(), result("t1", "x"), {"type": "x"}], ids=lambda block: block["type"])
def test_what_no_answer_holds_is_refused(block: dict[str, Any]) -> None:
    assert repr(block["type"]) in refusal(body("q", said("assistant", block)), server_tools="drop")


# tools


def test_tools_are_functions() -> None:
    tools = [
        {**TOOL, "type": "custom", "strict": True, "eager_input_streaming": True},
        {"name": "g", "input_schema": {}},
    ]
    assert sent(body("hi", tools=tools))["tools"] == [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": TOOL["input_schema"]}},
        {"type": "function", "function": {"name": "g", "parameters": {}}},
    ]


def test_no_tools() -> None:
    assert sent(body("hi", tools=[], tool_choice={"type": "auto"})) == sent(body("hi"))


@pytest.mark.parametrize(
    ("choice", "fields"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        ({"type": "tool", "name": "f"}, {"tool_choice": {"type": "function", "function": {"name": "f"}}}),
        (
            {"type": "any", "disable_parallel_tool_use": True},
            {"tool_choice": "required", "parallel_tool_calls": False},
        ),
        ({"type": "auto", "disable_parallel_tool_use": False}, {"tool_choice": "auto"}),
        (None, {}),
    ],
)
def test_the_choice_of_a_tool(choice: dict[str, Any] | None, fields: dict[str, Any]) -> None:
    found = sent(body("hi", tools=[TOOL], tool_choice=choice))
    assert {key: found[key] for key in ("tool_choice", "parallel_tool_calls") if key in found} == fields


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ({"type": "tool", "name": "g"}, "not among the tools"),
        ({"type": "tool"}, "not among the tools"),
        ({"type": "some"}, "'some'"),
        ({}, "lacks type"),
        ("auto", "tool_choice is not of the type"),
    ],
)
def test_a_choice_that_cannot_be_made(choice: Any, reason: str) -> None:
    assert reason in refusal(body("hi", tools=[TOOL], tool_choice=choice))


@pytest.mark.parametrize("kind", ["web_search_20250305", "bash_20250124", "computer_20250124"])
def test_server_tools(kind: str) -> None:
    data = body("hi", tools=[{"type": kind, "name": "x", "max_uses": 5}, TOOL], tool_choice={"type": "auto"})
    assert repr(kind) in refusal(data)
    assert [tool["function"]["name"] for tool in sent(data, server_tools="drop")["tools"]] == ["f"]


def test_server_tools_alone() -> None:
    data = body("hi", tools=[{"type": "web_search_20250305", "name": "x"}], tool_choice={"type": "any"})
    assert sent(data, server_tools="drop") == sent(body("hi"))


def test_a_typed_tool_with_a_schema_is_a_function() -> None:
    assert len(sent(body("hi", tools=[{**TOOL, "type": "special_20250101"}]))["tools"]) == 1


@pytest.mark.parametrize("server_tools", ["reject", "drop"])
@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        ({"name": "f"}, "'f' has no input_schema"),
        ({"name": "f", "type": "custom", "input_schema": None}, "'f' has no input_schema"),
        ({"name": "f", "input_schema": "x"}, "'f' has no input_schema"),
        ({"input_schema": {}}, "no name"),
    ],
)
def test_a_malformed_tool_is_refused(tool: dict[str, Any], reason: str, server_tools: str) -> None:
    assert reason in refusal(body("hi", tools=[tool]), server_tools=server_tools)


# what cannot be read


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b'{"model":"\xff","messages":[]}', "not valid JSON"),
        (b'{"model":"m","messages":[{"role":"user","content":"\xff"}]}', "not valid JSON"),
        (b'{"model":"m","messages":[{"role":"user","content":"\\ud83d"}]}', "not valid JSON"),
        (b"[]", "the body is not of the type"),
        (b"5", "the body is not of the type"),
        (b"{}", "lacks model"),
        (b'{"model":"m"}', "lacks messages"),
        (b'{"model":"","messages":[{"role":"user","content":"hi"}]}', "model name is empty"),
        (b'{"model":5,"messages":[]}', "model is not of the type"),
        (b'{"model":"m","messages":[]}', "no messages"),
        (b'{"model":"m","messages":[{"role":"system","content":"S"}]}', "no messages"),
        (b'{"model":"m","messages":"hi"}', "messages is not of the type"),
        (b'{"model":"m","messages":[{}]}', "lacks role"),
        (b'{"model":"m","messages":[{"role":5}]}', "messages.role is not of the type"),
        (b'{"model":"m","messages":[{"role":"owner","content":""}]}', "no role 'owner'"),
        (b'{"model":"m","messages":[{"role":"user","content":5}]}', "the content is not of the type"),
        (b'{"model":"m","messages":[{"role":"user","content":[5]}]}', "the content is not of the type"),
        (b'{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":5}]}]}', "text is not of the type"),
        (b'{"model":"m","messages":[{"role":"user","content":[{}]}]}', "lacks type"),
        (b'{"model":"m","messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "messages"),
        (
            b'{"model":"m","messages":[{"role":"user","content":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
            "too deeply",
        ),
        (body("hi", temperature="hot"), "temperature is not of the type"),
        (body("hi", max_tokens=1.5), "max_tokens is not of the type"),
        (body("hi", stream=1), "stream is not of the type"),
        (body("hi", stop_sequences="END"), "stop_sequences is not of the type"),
        (body("hi", stop_sequences=[5]), "stop_sequences is not of the type"),
        (body("hi", system=5), "the content is not of the type"),
        (body("hi", system=[image()]), "a system prompt of type 'image'"),
        (body("hi", tools="f"), "tools is not of the type"),
    ],
)
def test_what_cannot_be_read_is_refused(data: bytes, reason: str) -> None:
    assert reason in refusal(data)


def test_a_deep_schema_is_refused() -> None:
    deep = b'{"a":' * 100_000 + b"{}" + b"}" * 100_000
    assert "too deeply" in refusal(body("hi", tools=[{**TOOL, "input_schema": "DEEP"}]).replace(b'"DEEP"', deep))


def test_a_long_foreign_word_is_cut() -> None:
    assert len(refusal(body(said("user", {"type": "x" * 5000})))) < 250


# what the answer's translation is told


def test_what_was_asked() -> None:
    told = translate(body("hi", stop_sequences=["a", "b"]), Options(model="other"))
    assert json.loads(told.body)["model"] == "other"
    assert told.asked == Asked(model="m", stop_sequences=("a", "b"), input_estimate=-(-len(told.body) // 4))


def test_images_are_not_counted_as_text() -> None:
    small, large = (
        translate(body(said("user", image(type="base64", media_type="image/png", data="A" * size))))
        for size in (1, 100_000)
    )
    assert small.asked.input_estimate == large.asked.input_estimate


# what holds for any body

_TEXT = st.builds(text, st.text(max_size=5))
_RESULT_CONTENT = st.one_of(st.text(max_size=5), st.none(), st.lists(_TEXT | st.builds(image), max_size=3))
_USER_BLOCK = _TEXT | st.builds(image)
_SYSTEM = st.text(max_size=5) | st.lists(_TEXT, max_size=3)


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Valid ones: every call is answered in the user's next turn, which may come in several messages."""
    history: list[dict[str, Any]] = []
    asked: list[str] = []
    for turn in range(draw(st.integers(1, 4))):
        blocks = [result(identity, draw(_RESULT_CONTENT), is_error=draw(st.booleans())) for identity in asked]
        blocks = draw(st.permutations(blocks + draw(st.lists(_USER_BLOCK, max_size=3))))
        parted = draw(st.integers(0, len(blocks)))
        for part in (blocks[:parted], blocks[parted:]):
            history.append(said("user", *part) if part else said("user", ""))
            if draw(st.booleans()):
                history.append(said("system", draw(st.text(max_size=3))))
        asked = [f"t{turn}_{number}" for number in range(draw(st.integers(0, 2)))]
        thinking = {"type": "thinking", "thinking": "SECRET", "signature": "s"}
        answer = [*draw(st.lists(_TEXT | st.just(thinking), max_size=2)), *(use(identity, x=1) for identity in asked)]
        history.append({"role": "assistant", "content": answer or draw(st.text(max_size=3))})
    return history if not asked else [*history, said("user", *(result(identity, "r") for identity in asked))]


@given(histories(), _SYSTEM, st.sampled_from(["drop", "reasoning_content"]))
def test_turns_alternate_and_results_stand_next_to_their_calls(
    history: list[dict[str, Any]], system: Any, reasoning: str
) -> None:
    found = messages(*history, system=system, reasoning_history=reasoning)
    assert [message["role"] for message in found].count("system") <= 1
    if found[0]["role"] == "system":
        found = found[1:]
    waiting: list[str] = []
    last = ""
    for message in found:
        role = message["role"]
        if role == "tool":
            waiting.remove(message["tool_call_id"])
            assert last in {"assistant", "tool"}
        else:
            assert not waiting
            assert role != last
            assert role in {"user", "assistant"}
        waiting += [call["id"] for call in message.get("tool_calls", ())]
        assert "SECRET" not in json.dumps(message.get("content"))
        last = role
    assert not waiting


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
_KINDS = ("text", "image", "document", "search_result", "tool_use", "tool_result", "thinking", "server_tool_use", "x")
_HOSTILE_BLOCK = st.fixed_dictionaries(
    {"type": st.sampled_from(_KINDS) | _ANY},
    optional={
        key: _ANY
        | st.sampled_from(["x", [text("x")], {"type": "text", "data": "x"}, {"type": "content", "content": [5]}])
        for key in ("text", "source", "content", "id", "name", "input", "tool_use_id", "thinking", "title", "is_error")
    },
)
_HOSTILE_MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system"]) | _ANY},
    optional={"content": st.lists(_HOSTILE_BLOCK, max_size=3) | _ANY},
)
_HOSTILE = st.fixed_dictionaries(
    {"model": st.just("m"), "messages": st.lists(_HOSTILE_MESSAGE, max_size=3) | _ANY},
    optional={
        **dict.fromkeys(("system", "stop_sequences", "stream", "temperature", "tool_choice", "tools"), _ANY),
        "tools": st.lists(st.just(TOOL) | _ANY, max_size=2),
    },
)


@given(_HOSTILE, st.sampled_from(["reject", "drop"]))
def test_a_hostile_body_is_translated_or_refused(found: dict[str, Any], server_tools: str) -> None:
    with suppress(BadRequest):
        assert sent(json.dumps(found).encode(), server_tools=server_tools)["messages"]


@given(st.binary(max_size=100))
def test_bytes_of_any_kind_are_refused(data: bytes) -> None:
    refusal(data)
