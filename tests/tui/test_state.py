"""Which list has the selection."""

from llmgate.tui.model import View
from llmgate.tui.state import PAGES, PANES, State


def test_each_page_and_each_part_of_the_overview_has_a_list_of_its_own() -> None:
    names = [State(page=page).list_name for page in PAGES[1:]]
    names += [State(page="overview", pane=pane).list_name for pane in PANES]
    assert len(set(names)) == len(names)
    assert State().list_name == "upstreams"
    assert State(page="recent", pane="events").holds == "recent"


def test_the_frozen_view_is_shown_while_there_is_one(view: View) -> None:
    later = View(view.link, 9.0)
    assert State().shown(later) is later
    assert State(frozen=view).shown(later) is view
