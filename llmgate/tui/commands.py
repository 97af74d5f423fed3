"""The line behind `:`: the verbs of the command line, with the selected row where no name is given."""

from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from llmgate.tui import targets
from llmgate.tui.actions import Action, Verb
from llmgate.tui.model import View
from llmgate.tui.state import PAGES, Page, State

UPSTREAM_VERBS: tuple[Verb, ...] = ("pause", "resume", "drain")
REQUEST_VERBS: tuple[Verb, ...] = ("cancel", "move")
WORDS = (*UPSTREAM_VERBS, "set", *REQUEST_VERBS, "inspect", "ps", "status", *PAGES[1:], "help", "quit")
PAGE_OF: dict[str, Page] = {page: page for page in PAGES} | {"top": "overview", "status": "overview", "ps": "waiting"}
ALIASES = {"q": "quit", "q!": "quit", "exit": "quit", "?": "help", "h": "help"}


@dataclass(frozen=True, slots=True)
class Command:
    """What a line asks for; exactly one of these is set."""

    actions: tuple[Action, ...] = ()
    page: Page | None = None
    inspect: str = ""
    word: Literal["", "help", "quit"] = ""
    error: str = ""


def parse(line: str, view: View, state: State) -> Command:
    """The command in a line that a person typed."""
    words = line.split()
    if words[:1] == ["llmgate"]:
        words = words[1:]
    if not words:
        return Command(error="Nothing was typed after the colon")
    verb, names = ALIASES.get(words[0], words[0]), words[1:]
    plain = [name for name in names if not name.startswith("-")]
    for known in UPSTREAM_VERBS:
        if verb == known:
            return _on_upstreams(known, plain, view, state)
    for known in REQUEST_VERBS:
        if verb == known:
            return _on_requests(known, plain, view, state)
    if verb == "set":
        return _set(plain, view, state)
    if verb == "inspect":
        return _inspect(plain, view, state)
    if verb in PAGE_OF:
        return Command(page=PAGE_OF[verb])
    if verb == "help":
        return Command(word="help")
    if verb == "quit":
        return Command(word="quit")
    return Command(error=f"No command {verb}; there are: {', '.join(WORDS)}")


def _on_upstreams(verb: Verb, names: list[str], view: View, state: State) -> Command:
    known = {lane.upstream.name for lane in view.lanes}
    unknown = [name for name in names if name not in known]
    if unknown:
        return _no_upstream(unknown[0], view)
    names = names or [lane.upstream.name for lane in targets.upstreams(view, state)]
    if not names:
        return Command(error=f"Which upstream? As in :{verb} NAME")
    return Command(tuple(Action(verb, name) for name in names))


def _no_upstream(name: str, view: View) -> Command:
    names = ", ".join(lane.upstream.name for lane in view.lanes)
    return Command(error=f"No upstream {name}; there are: {names}")


def _on_requests(verb: Verb, ids: list[str], view: View, state: State) -> Command:
    found = targets.live(view, set(ids)) if ids else targets.requests(view, state)
    missing = [name for name in ids if name not in {request.id for request in found}]
    if missing:
        return Command(error=f"No request {missing[0]} waits or runs")
    if not found:
        return Command(error=f"Which request? As in :{verb} ID")
    wanted = [request.id for request in found]
    return Command(tuple(Action(verb, one) for one in (reversed(wanted) if verb == "move" else wanted)))


def _set(words: list[str], view: View, state: State) -> Command:
    names = [word for word in words if "=" not in word]
    name = names[0] if names else targets.upstream_name(view, state)
    if view.lane(name) is None:
        return _no_upstream(name, view) if name else Command(error="Which upstream? As in :set NAME max_concurrent=2")
    values = dict(word.split("=", 1) for word in words if "=" in word)
    number = values.pop("max_concurrent", "")
    if values or not (number.isascii() and number.isdigit()):
        return Command(error="It takes max_concurrent=N with a whole number, as in :set NAME max_concurrent=2")
    return Command((Action("set", name, int(number)),))


def _inspect(ids: list[str], view: View, state: State) -> Command:
    wanted = ids[0] if ids else targets.selected_request_id(view, state)
    if view.request(wanted) is None:
        return Command(error=f"No request {wanted} is known" if wanted else "Which request? As in :inspect ID")
    return Command(inspect=wanted)


def complete(text: str, view: View) -> str:
    """The line with its last word made longer as far as it is clear: a verb, an upstream, a request."""
    head, blank, word = text.rpartition(" ")
    names = (
        [lane.upstream.name for lane in view.lanes] + [request.id for request in view.requests()] if blank else WORDS
    )
    found = [name for name in names if name.startswith(word)]
    if not found or not word:
        return text
    common = "".join(signs[0] for signs in takewhile(lambda signs: len(set(signs)) == 1, zip(*found, strict=False)))
    return head + blank + common + (" " if len(found) == 1 else "")
