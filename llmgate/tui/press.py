"""Keys: a pure function from the state and a key to the next state and what is to be done outside (step.py).

A key is the character itself where it has one, else Textual's name for it ("enter", "pageup"). What is closest to the
person takes it: the question or line at the bottom, then the help, then what is below.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from llmgate.tui import deeds, targets, typing
from llmgate.tui.keys import names_of
from llmgate.tui.listing import NOBODY, listing, next_sort
from llmgate.tui.model import View
from llmgate.tui.sheet import FARTHEST
from llmgate.tui.state import PAGES, PANES, Asking, Chosen, Sort, State, Typing
from llmgate.tui.step import Ask, Quit, Retry, Step, says
from llmgate.tui.themes import NAMES

ACTING = names_of(acting=True)
STEPS: Mapping[str, int] = {
    "up": -1, "k": -1, "down": 1, "j": 1, "wheelup": -3, "wheeldown": 3,
    "home": -(10**9), "g": -(10**9), "end": 10**9, "G": 10**9,
}  # fmt: skip
PAGE_STEPS: Mapping[str, int] = {"pageup": -1, "ctrl+b": -1, "pagedown": 1, "ctrl+f": 1}
BESIDE_A_LIST = 8
"""Rows of a screen that are not of its list, so that a page overlaps with the one before."""


def press(state: State, key: str, view: View, height: int) -> Step:
    """What one key does on a screen of so many rows."""
    state = replace(state, message=None)
    if key == "ctrl+c":
        return Step(state, (Quit(),))
    if isinstance(state.prompt, Asking):
        return typing.answer(state, key, state.prompt, view)
    if isinstance(state.prompt, Typing):
        return typing.press(state, key, state.prompt, view)
    if state.why is not None:
        state, closes = replace(state, why=None), key in ("escape", "w", "enter")
        if closes:
            return Step(state)
    if state.report is not None:
        return _report(state, key, height)
    if state.help is not None:
        return _help(state, state.help, key, height)
    if key in ACTING:
        return deeds.act(state, view, key)
    if step := _step(key, height):
        return _move(state, view, step)
    handle = HANDLERS.get(key)
    return Step(state) if handle is None else handle(state, view)


def _step(key: str, height: int) -> int:
    return STEPS.get(key, 0) or PAGE_STEPS.get(key, 0) * max(1, height - BESIDE_A_LIST)


def _help(state: State, scrolled: int, key: str, height: int) -> Step:
    if key in ("escape", "?", "h", "f1"):
        return Step(replace(state, help=None))
    if key == "q":
        return Step(state, (Quit(),))
    return Step(replace(state, help=_scroll(scrolled, key, height)))


def _report(state: State, key: str, height: int) -> Step:
    if key in ("escape", "enter", "w"):
        return Step(replace(state, report=None))
    if key == "q":
        return Step(state, (Quit(),))
    return Step(replace(state, report_scrolled=_scroll(state.report_scrolled, key, height)))


def _scroll(scrolled: int, key: str, height: int) -> int:
    return max(0, min(scrolled + _step(key, height), FARTHEST))


def _move(state: State, view: View, step: int) -> Step:
    if state.detail:
        return Step(state)
    rows = listing(state.shown(view), state)
    place = rows.place(state.chosen.get(state.list_name, NOBODY))
    return Step(replace(state, chosen={**state.chosen, state.list_name: rows.at(place + step)}))


def click(state: State, row: tuple[str, str], view: View, *, again: bool = False) -> Step:
    """A click on a row, given by its pane and id, selects it; on one that is selected it opens it.

    `again`: soon after another one at the same place, which may have been the one that opened it: it only opens.
    """
    if state.prompt is not None or state.help is not None or state.report is not None:
        return Step(state)
    pane, row_id = row
    name = state.list_name
    is_chosen = state.holds == pane and state.chosen.get(name, NOBODY).id == row_id
    state = replace(state, message=None, why=None)
    if is_chosen or again:
        return _open(state, view) if is_chosen else Step(state)
    if state.page == "overview":
        state = _on_pane(state, pane, row_id, view)
    rows = listing(state.shown(view), state)
    index = rows.find(row_id)
    return Step(replace(state, chosen={**state.chosen, state.list_name: rows.at(index)}) if index >= 0 else state)


def _on_pane(state: State, pane: str, row_id: str, view: View) -> State:
    """On a tall screen requests of other upstreams stand there, too: theirs is selected with them."""
    chosen, request = dict(state.chosen), state.shown(view).request(row_id)
    if request is not None and pane in ("waiting", "running"):
        chosen["upstreams"] = Chosen(request.upstream)
    return replace(state, chosen=chosen, pane=next(known for known in PANES if known == pane))


def _page(index: int) -> Callable[[State, View], Step]:
    def handle(state: State, _view: View) -> Step:
        again = state.page == "overview" == PAGES[index] and not state.detail
        return Step(replace(state, page=PAGES[index], detail="", pane="upstreams" if again else state.pane))

    return handle


def _pane(step: int) -> Callable[[State, View], Step]:
    def handle(state: State, _view: View) -> Step:
        if state.page != "overview" or state.detail:
            return Step(state)
        return Step(replace(state, pane=PANES[(PANES.index(state.pane) + step) % len(PANES)]))

    return handle


def _open(state: State, view: View) -> Step:
    if state.detail:
        return Step(state)
    if state.holds == "upstreams":
        return Step(replace(state, pane="waiting"))
    wanted = targets.selected_request_id(state.shown(view), state)
    if not wanted:
        return says(state, "Nothing to open: this event is of no single request" if state.holds == "events" else "")
    return Step(replace(state, detail=wanted, told=None), (Ask(wanted),))


def _back(state: State, _view: View) -> Step:
    """Undoes the last thing that stands in the way."""
    if state.detail:
        return Step(replace(state, detail="", told=None))
    if state.log:
        return Step(replace(state, log=False))
    if state.filter:
        return Step(replace(state, filter=""))
    if state.marked or state.marked_upstreams:
        return Step(replace(state, marked=frozenset(), marked_upstreams=frozenset()))
    return Step(replace(state, page="overview", pane="upstreams" if state.page == "overview" else state.pane))


def _mark(state: State, view: View) -> Step:
    chosen = state.chosen.get(state.list_name, NOBODY).id
    if state.detail or not chosen:
        return Step(state)
    if state.holds == "upstreams":
        marked = replace(state, marked_upstreams=state.marked_upstreams ^ {chosen})
    elif state.holds in ("waiting", "running"):
        marked = replace(state, marked=state.marked ^ {chosen})
    else:
        return says(state, "Only upstreams, and requests that wait or run, can be marked")
    return _move(marked, view, 1)


def _sort(state: State, _view: View) -> Step:
    if state.holds == "events":
        return says(state, "Events stand as they came; / filters them")
    return Step(replace(state, sorts={**state.sorts, state.holds: next_sort(state)}))


def _reverse(state: State, _view: View) -> Step:
    if state.holds == "events":
        return says(state, "Events stand as they came; / filters them")
    sort = state.sorts.get(state.holds, Sort())
    return Step(replace(state, sorts={**state.sorts, state.holds: replace(sort, reverse=not sort.reverse)}))


def _freeze(state: State, view: View) -> Step:
    return Step(replace(state, frozen=view if state.frozen is None else None))


def _theme(state: State, _view: View) -> Step:
    if state.no_color:
        return says(state, "No colours: NO_COLOR is set, or --no-color was given")
    theme = NAMES[(NAMES.index(state.theme) + 1) % len(NAMES)]
    return says(replace(state, theme=theme), f"Theme {theme}", is_bad=False)


def _retry(state: State, view: View) -> Step:
    return Step(state, (Retry(),)) if view.link.state == "lost" else says(state, "Connected", is_bad=False)


def _type_filter(state: State, _view: View) -> Step:
    return Step(state) if state.detail else Step(replace(state, prompt=Typing("filter", state.filter)))


HANDLERS: dict[str, Callable[[State, View], Step]] = {
    "tab": _pane(1),
    "shift+tab": _pane(-1),
    "enter": _open,
    "escape": _back,
    "/": _type_filter,
    ":": lambda state, _view: Step(replace(state, prompt=Typing("command"))),
    "s": _sort,
    "S": _reverse,
    " ": _mark,
    "P": _freeze,
    "y": deeds.copy_id,
    "Y": deeds.copy_curl,
    "w": deeds.why,
    "l": lambda state, _view: Step(replace(state, log=not state.log)),
    "r": _retry,
    "t": _theme,
    "a": lambda state, _view: Step(replace(state, ascii=not state.ascii)),
    "?": lambda state, _view: Step(replace(state, help=0)),
    "h": lambda state, _view: Step(replace(state, help=0)),
    "f1": lambda state, _view: Step(replace(state, help=0)),
    "q": lambda state, _view: Step(state, (Quit(),)),
    **{str(index + 1): _page(index) for index in range(len(PAGES))},
}


def done(state: State, names: frozenset[str], text: str, is_bad: bool) -> State:
    """After actions: what became of them. Where one failed, the slots of these upstreams are what the daemon tells."""
    slots = {name: wanted for name, wanted in state.slots.items() if not (is_bad and name in names)}
    return replace(says(state, text, is_bad).state, slots=slots)
