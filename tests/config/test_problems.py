"""Paths and problems in words."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.config.problems import Path, Problem, dotted


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("server", "listen"), "server.listen"),
        (("server", "listen", 1), "server.listen[1]"),
        (("upstreams", "qwen2.5", "url"), 'upstreams."qwen2.5".url'),
        (("upstreams", "", "a\nb"), 'upstreams."".a\\nb'.replace(".a\\nb", '."a\\nb"')),
    ],
)
def test_a_path_reads_like_a_toml_key(path: Path, text: str) -> None:
    assert dotted(path) == text


@given(st.lists(st.text(st.characters(codec="ascii"), max_size=4), min_size=1, max_size=3))
def test_a_path_is_one_line_of_printable_text(keys: list[str]) -> None:
    assert dotted(tuple(keys)).isascii()
    assert dotted(tuple(keys)).isprintable()


@given(st.lists(st.text("ab-_. ", min_size=1, max_size=4), min_size=1, max_size=3))
def test_a_path_is_the_key_it_stands_for(keys: list[str]) -> None:
    found = tomllib.loads(f"{dotted(tuple(keys))} = 1")
    for key in keys:
        found = found[key]
    assert found == 1


def test_problems_are_sentences_about_their_key() -> None:
    assert str(Problem(("log", "level"), "must be good")) == "log.level must be good"
    assert (
        str(Problem(("log", "lvl"), "; did you mean level?", unknown=True))
        == "unknown key log.lvl; did you mean level?"
    )
