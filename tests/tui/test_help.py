"""The help of each screen."""

from datetime import UTC
from typing import Any

import pytest

from llmgate.tui.cells import plain, width_of_line
from llmgate.tui.furniture import Look
from llmgate.tui.help import CELL, help_texts
from llmgate.tui.keys import KEYS
from llmgate.tui.model import View
from llmgate.tui.picture import picture
from llmgate.tui.state import PAGES, State


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (60, 15), (10, 2), (1, 1)])
@pytest.mark.parametrize("scrolled", [0, 7, 200])
def test_it_fills_the_screen(view: View, size: tuple[int, int], scrolled: int) -> None:
    lines = picture(view, Look(*size, UTC), State(help=scrolled))
    assert len(lines) == size[1]
    assert {width_of_line(line) for line in lines} == {size[0]}


@pytest.mark.parametrize("page", PAGES)
def test_every_key_of_a_page_is_there_and_no_line_is_too_long(page: Any) -> None:
    for two_columns in (False, True):
        texts = help_texts(State(page=page), two_columns=two_columns)
        assert max(map(len, texts)) <= 79
        if two_columns:
            assert all(text[CELL - 1 : CELL] in ("", " ") for text in texts[1 : texts.index("words and columns")])
        assert all(any(f"{key.shown} " in text and key.does in text for text in texts) for key in KEYS)


def test_the_detail_has_no_keys_of_lists() -> None:
    said = "\n".join(help_texts(State(detail="q-1"), two_columns=False))
    assert "cancel the request" in said
    assert "filter" not in said.replace("filter, marks off", "")


def test_all_keys_stand_on_the_usual_terminal_and_the_rest_is_scrolled_to(view: View) -> None:
    def lines(scrolled: int) -> list[str]:
        return [plain(line) for line in picture(view, Look(80, 24, UTC), State(help=scrolled))]

    first = "\n".join(lines(0))
    assert all(key.does in first for key in KEYS)
    assert "more lines below" in lines(0)[-2]
    assert "Esc drops the filter." in "\n".join(lines(200))
    assert "more lines below" not in lines(200)[-2]
