"""The table of keys against what the keys do."""

from llmgate.tui.deeds import DEEDS
from llmgate.tui.keys import KEYS, names_of
from llmgate.tui.press import HANDLERS, PAGE_STEPS, STEPS


def test_every_key_of_the_table_does_something_and_no_other_does() -> None:
    handled = {*HANDLERS, *STEPS, *PAGE_STEPS, *DEEDS, "ctrl+c"} - {"wheelup", "wheeldown"}
    assert names_of(acting=True) | names_of(acting=False) == handled


def test_a_key_stands_once() -> None:
    names = [name for key in KEYS for name in key.names]
    assert len(names) == len(set(names))


def test_exactly_those_that_act_are_told_to_act() -> None:
    assert names_of(acting=True) == set(DEEDS)
