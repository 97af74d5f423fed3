"""What styles mean in each theme."""

import pytest

from llmgate.tui.themes import DEFAULT, MONO, NAMES, THEMES, style


def test_without_colour_there_is_none() -> None:
    assert all(one.color is None and one.bgcolor is None for one in MONO.values())
    assert set(MONO) <= set(DEFAULT)


@pytest.mark.parametrize("theme", NAMES)
def test_every_theme_sets_the_selected_row_apart_and_makes_trouble_loud(theme: str) -> None:
    chosen, bad = style(theme, "chosen"), style(theme, "bad")
    assert chosen.reverse or chosen.bgcolor is not None
    assert bad.bold or bad.reverse


def test_words_add_up_and_unknown_ones_mean_nothing() -> None:
    both = style("default", "full chosen")
    assert both.reverse
    assert both.color == DEFAULT["full"].color
    assert style("default", "aura") == style("default", "")
    assert next(iter(THEMES)) == NAMES[0] == "default"
