"""Filters: words, fields, inverses, and what is no regular expression."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.adminapi import RequestView
from llmgate.tui.filter import FIELDS, Remembered, Verdicts, parse


@pytest.fixture
def request_(sample: Any) -> Any:
    return sample.request(
        "q-7f3a21", "ha-llm", client="dsh", session="a3f9", purpose="compaction", key="laptop", outcome=None
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", True),
        ("dsh", True),
        ("DSH", True),
        ("^dsh$", True),
        ("q-7f.a", True),
        ("claude", False),
        ("!claude", True),
        ("!dsh", False),
        ("client=dsh", True),
        ("client=^ds$", False),
        ("session=dsh", False),
        ("!client=dsh", False),
        ("key=laptop outcome=x", False),
        ("dsh compaction", True),
        ("dsh !compaction", False),
        ("upstream=ha", True),
        ("aura=dsh", False),
        ("client=", True),
        ("!", True),
    ],
)
def test_requests(request_: Any, text: str, shown: bool) -> None:
    assert parse(text).requests([request_]) == [shown]


@pytest.mark.parametrize("text", ["llama", "LLAMA", "model=llama", "model=Lla.a", "^meta"])
def test_capitals_in_names_do_not_matter(sample: Any, text: str) -> None:
    named = sample.request("q", "GPU", model="Meta-LLaMA")
    assert parse(text).requests([named]) == [True]
    assert parse(f"!{text}").requests([named]) == [False]
    assert parse("upstream=gpu").upstream(sample.upstream("GPU"))


def test_events(sample: Any) -> None:
    event = sample.event(5, "queued", "ha-llm", "queued (depth 3)", request_id="q-1", client="web", by="uid 0 (root)")
    for text in ("depth", "id=q-1", "kind=queued", "by=root", "!client=dsh", "upstream=ha-llm"):
        assert parse(text).event(event), text
    assert not parse("id=q-2").event(event)
    assert not parse("model=x").event(event)


def test_upstreams_stay_in_sight_unless_they_are_asked_for(sample: Any) -> None:
    one = sample.upstream("ha-llm")
    assert parse("client=dsh nothing").upstream(one)
    assert parse("upstream=ha").upstream(one)
    assert not parse("upstream=reasoning").upstream(one)
    assert not parse("!upstream=ha").upstream(one)


def test_what_python_warns_of_is_taken_without_a_word(sample: Any) -> None:
    assert parse("[[d]sh").requests([sample.request("q", "a", client="dsh")]) == [True]


def test_what_is_remembered_is_made_once_for_each_view_and_does_not_grow_without_bound(
    sample: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llmgate.tui.filter.MOST_REMEMBERED", 3)
    made: list[str] = []

    def make(requests: Sequence[RequestView]) -> list[str]:
        made.extend(request.id for request in requests)
        return [request.client for request in requests]

    remembered = Remembered(make)
    rows = [sample.request(f"q-{number}", "a", client=f"client-{number}") for number in range(2)]
    assert remembered.of(rows) == remembered.of(rows) == ["client-0", "client-1"]
    assert made == ["q-0", "q-1"]
    rows[0] = sample.request("q-0", "a", client="two")
    assert remembered.of(rows) == ["two", "client-1"]
    for number in range(9):
        assert remembered.of([sample.request(f"q-{number}", "a", client="x")]) == ["x"]
    assert len(remembered._made) <= 3


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "!a", "client=a", ""]), st.lists(st.sampled_from("abc")))))
def test_a_verdict_that_is_remembered_is_that_of_the_filter(asked: list[tuple[str, list[str]]]) -> None:
    verdicts, known = Verdicts(), {}
    for text, clients in asked:
        rows = [known.setdefault(client, named(client)) for client in clients]
        assert verdicts.of(parse(text), rows) == parse(text).requests(rows)


def named(client: str) -> RequestView:
    return RequestView(
        id="q", upstream="u", state="waiting", order=1, model="", api="", path="", stream=True, client=client
    )


def test_what_is_no_regular_expression_is_taken_as_it_stands(sample: Any) -> None:
    wanted = parse("dsh client=a(b")
    assert wanted.bad == "a(b"
    asked = [sample.request("q", "a", client="dsh a(b"), sample.request("q", "a", client="dsh ab")]
    assert wanted.requests(asked) == [True, False]


@given(st.text(st.sampled_from("ab!=()[]*+?\\^$ |{}1,") | st.characters(), max_size=20))
def test_whatever_is_typed_a_word_and_its_inverse_part_the_rows(text: str) -> None:
    row = RequestView(id="ab", upstream="b", state="waiting", order=1, model="(", api="", path="", stream=True)
    word = "".join(text.split()).lstrip("!")
    for field in ("", *FIELDS):
        one = f"{field}={word}" if field else word
        if parse(one).terms:
            assert parse(one).requests([row]) != parse(f"!{one}").requests([row])
