"""The request: every row of the mapping, what is refused, and what holds for any valid body."""

import json
from typing import Any

import pytest

from llmgate.protocols.translate.asked import Asked
from llmgate.protocols.translate.request import Options, request, translate
from tests.protocols.translate.said import (
    HEADER,
    TOOL,
    body,
    image,
    keys_of,
    messages,
    refusal,
    result,
    roles,
    said,
    sent,
    text,
    use,
)

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
