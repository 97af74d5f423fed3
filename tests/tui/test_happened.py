"""Events as rows and as log lines (rows in all their shapes: test_sections.py)."""

from datetime import UTC
from typing import Any

from llmgate.tui.cells import plain
from llmgate.tui.columns import Frame
from llmgate.tui.furniture import Look
from llmgate.tui.happened import event_row, log_line
from llmgate.tui.model import View

LOOK = Look(80, 24, UTC)


def test_who_had_it_done_is_told(sample: Any, view: View) -> None:
    told = sample.event(5, "mode_changed", "ha-llm", "paused (was draining)", by="uid 1000 (alice)")
    frame = Frame(view)
    assert (
        plain(event_row(told, frame, LOOK)) == " 14:02:28 paused         ha-llm     was draining  by uid 1000 (alice)"
    )
    assert plain(log_line(told, frame, LOOK)) == " 14:02:28 llmgate: ha-llm paused (was draining) by uid 1000 (alice)"


def test_who_had_it_done_stands_before_who_asked(sample: Any, view: View) -> None:
    text = "cancelled after 9ms by uid 0 (root)"
    told = sample.event(5, "dismissed", "ha-llm", text, by="uid 0 (root)", client="dsh", request_id="q-" + "7" * 18)
    row = plain(event_row(told, Frame(view), LOOK))
    assert row == " 14:02:28 cancelled      ha-llm     after 9ms  by uid 0 (root)  dsh"
    wide = [plain(event_row(told, Frame(view), Look(width, 24, UTC))) for width in (139, 140)]
    assert ["q-777777777…" in wide[0], "q-" + "7" * 18 in wide[1]] == [True, True]


def test_who_had_it_done_is_told_once(sample: Any, view: View) -> None:
    text = "paused (was draining) by uid 0 (root)"
    told = sample.event(5, "mode_changed", "ha-llm", text, by="uid 0 (root)")
    assert (
        plain(event_row(told, Frame(view), LOOK)) == " 14:02:28 paused         ha-llm     was draining  by uid 0 (root)"
    )
    assert plain(log_line(told, Frame(view), LOOK)) == f" 14:02:28 llmgate: ha-llm {text}"


def test_a_log_line_is_as_in_the_log(sample: Any, view: View) -> None:
    told = sample.event(5, "queued", "ha-llm", "queued (depth 1)", session="a61e6e40-99", purpose="compaction")
    line = plain(log_line(told, Frame(view), LOOK))
    assert line == " 14:02:28 llmgate: ha-llm session=a61e6e40 purpose=compaction queued (depth 1)"


def test_a_hostile_log_line_stays_in_its_line(sample: Any, view: View) -> None:
    told = sample.event(5, "queued", "ha-llm", "x\x1b[2J\n" + "y" * 200, at="teatime", outcome="upstream_error")
    line = log_line(told, Frame(view), Look(40, 24, UTC))
    assert len(plain(line)) == 40
    assert "\x1b" not in plain(line)
    assert line[1].style == "bad"


def test_the_chosen_row_has_its_pointer(sample: Any, view: View) -> None:
    told = sample.event(5, "queued", "ha-llm", "queued (depth 1)")
    assert plain(event_row(told, Frame(view, chosen="5"), LOOK)).startswith("▸14:02:28")
