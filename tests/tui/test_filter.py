"""Filters: words, fields, inverses, and what is no regular expression."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.tui.filter import FIELDS, Texts, parse


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
    assert parse(text).request(request_) is shown


@pytest.mark.parametrize("text", ["llama", "LLAMA", "model=llama", "model=Lla.a", "^meta"])
def test_capitals_in_names_do_not_matter(sample: Any, text: str) -> None:
    named = sample.request("q", "GPU", model="Meta-LLaMA")
    assert parse(text).request(named)
    assert not parse(f"!{text}").request(named)
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
    assert parse("[[d]sh").request(sample.request("q", "a", client="dsh"))


def test_texts_are_made_anew_when_a_request_changes_and_do_not_grow_without_bound(
    sample: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llmgate.tui.filter.MOST_TEXTS", 3)
    texts = Texts()
    first = sample.request("q-0", "a", client="one")
    assert "one" in texts.of(first)
    assert "two" in texts.of(sample.request("q-0", "a", client="two"))
    for number in range(9):
        assert f"q-{number}" in texts.of(sample.request(f"q-{number}", "a"))
    assert len(texts._made) <= 3


def test_what_is_no_regular_expression_is_taken_as_it_stands(sample: Any) -> None:
    wanted = parse("dsh client=a(b")
    assert wanted.bad == "a(b"
    assert wanted.request(sample.request("q", "a", client="dsh a(b"))
    assert not wanted.request(sample.request("q", "a", client="dsh ab"))


@given(st.text(st.sampled_from("ab!=()[]*+?\\^$ |{}1,") | st.characters(), max_size=20))
def test_whatever_is_typed_a_word_and_its_inverse_part_the_rows(text: str) -> None:
    from llmgate.adminapi import RequestView

    row = RequestView(id="ab", upstream="b", state="waiting", order=1, model="(", api="", path="", stream=True)
    word = "".join(text.split()).lstrip("!")
    for field in ("", *FIELDS):
        one = f"{field}={word}" if field else word
        if parse(one).terms:
            assert parse(one).request(row) is not parse(f"!{one}").request(row)
