"""The line behind `:`: the verbs of the command line, with the selected row where no name is given."""

from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Literal

from llmgate.adminclient.limits import LIMITS, parse_limit
from llmgate.config.units import BadValue
from llmgate.names import ambiguous, nearest, whole_ids
from llmgate.tui import targets
from llmgate.tui.actions import Action, Verb
from llmgate.tui.model import View
from llmgate.tui.state import PAGES, Page, State

UPSTREAM_VERBS: tuple[Verb, ...] = ("pause", "resume", "drain")
REQUEST_VERBS: tuple[Verb, ...] = ("cancel", "move")
OTHERS = ("inspect", "ps", "status", "doctor")
WORDS = (*UPSTREAM_VERBS, "set", "reload", *REQUEST_VERBS, *OTHERS, *PAGES[1:], "help", "quit")
PAGE_OF: dict[str, Page] = {page: page for page in PAGES} | {"top": "overview", "status": "overview", "ps": "waiting"}
USAGE: dict[str, str] = {
    **{str(verb): f":{verb} [UPSTREAM ...]" for verb in UPSTREAM_VERBS},
    "set": ":set UPSTREAM max_concurrent=2 max_queued=none queue_timeout=5m [--persist]",
    "reload": ":reload   reads the settings again",
    "doctor": ":doctor   looks at the socket, the settings and each upstream",
    "cancel": ":cancel [ID ...]",
    "move": ":move [ID ...] [--front]   to the front of its queue",
    "inspect": ":inspect [ID]",
}
OPTIONS = {"set": ("--persist",), "move": ("--front",)}
"""What may stand behind a verb; to the front is where a move goes in any case."""
NO_OPTION = {("drain", "--wait"): "drain does not wait here: its upstream is drained once its state says so"}
MOST_NAMES = 200
"""Of those that fit, looked at for a hint."""
WITHOUT_MORE: tuple[Literal["doctor", "help", "quit"], ...] = ("doctor", "help", "quit")
ALIASES = {"q": "quit", "q!": "quit", "exit": "quit", "?": "help", "h": "help"}


@dataclass(frozen=True, slots=True)
class Command:
    """What a line asks for; exactly one of these is set."""

    actions: tuple[Action, ...] = ()
    page: Page | None = None
    inspect: str = ""
    word: Literal["", "doctor", "help", "quit"] = ""
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
    stray = [name for name in names if name.startswith("-") and name not in OPTIONS.get(verb, ())]
    if stray and verb in WORDS:
        return Command(error=NO_OPTION.get((verb, stray[0]), f"{verb} has no option {stray[0]} here"))
    for known in UPSTREAM_VERBS:
        if verb == known:
            return _on_upstreams(known, plain, view, state)
    for known in REQUEST_VERBS:
        if verb == known:
            return _on_requests(known, plain, view, state)
    if verb == "set":
        return _set(plain, view, state, persist="--persist" in names)
    if verb == "reload":
        return Command((Action("reload", "settings"),))
    if verb == "inspect":
        return _inspect(plain, view, state)
    if verb in PAGE_OF:
        return Command(page=PAGE_OF[verb])
    return _without_more(verb)


def _without_more(verb: str) -> Command:
    """What takes no names; or what is no command at all."""
    for word in WITHOUT_MORE:
        if verb == word:
            return Command(word=word)
    near = nearest(verb, WORDS)
    meant = f": is it {near}?" if near else "."
    return Command(error=f"No command {verb}{meant} There are: {', '.join(WORDS)}")


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
    renamed = view.status.renamed if view.status is not None else {}
    if name in renamed:
        return Command(error=f"No upstream {name} any more: a reload calls it {renamed[name]}")
    names = ", ".join(lane.upstream.name for lane in view.lanes)
    return Command(error=f"No upstream {name}; there are: {names}")


def _on_requests(verb: Verb, ids: list[str], view: View, state: State) -> Command:
    known = [request.id for request in view.requests() if request.state != "done"]
    meant = {text: whole_ids(text, known) for text in ids}
    for text, those in meant.items():
        if len(those) != 1:
            return Command(error=ambiguous(text, those) if those else f"No request {text} waits or runs")
    wanted_ids = {those[0] for those in meant.values()}
    found = targets.live(view, wanted_ids) if ids else targets.requests(view, state)
    if not found:
        return Command(error=f"Which request? As in :{verb} ID")
    wanted = [request.id for request in found]
    return Command(tuple(Action(verb, one) for one in (reversed(wanted) if verb == "move" else wanted)))


def _set(words: list[str], view: View, state: State, *, persist: bool) -> Command:
    names = [word for word in words if "=" not in word]
    name = names[0] if names else targets.upstream_name(view, state)
    if view.lane(name) is None:
        return _no_upstream(name, view) if name else Command(error="Which upstream? As in :set NAME max_concurrent=2")
    try:
        limits = dict(parse_limit(word) for word in words if "=" in word)
    except BadValue as error:
        return Command(error=str(error))
    if not limits:
        return Command(error=f"Which limit? As in {USAGE['set']}")
    file = view.status.config if persist and view.status is not None else ""
    if persist and not file:
        return Command(error="The daemon runs without a settings file: leave out --persist")
    return Command((Action("set", name, tuple(limits.items()), file),))


def _inspect(ids: list[str], view: View, state: State) -> Command:
    wanted = ids[0] if ids else targets.selected_request_id(view, state)
    if not wanted:
        return Command(error="Which request? As in :inspect ID")
    found = whole_ids(wanted, [request.id for request in view.requests()])
    if len(found) != 1:
        return Command(error=ambiguous(wanted, found) if found else f"No request {wanted} is known")
    return Command(inspect=found[0])


def complete(text: str, view: View) -> str:
    """The line with its last word made longer as far as it is clear: a verb, an upstream, a limit, a request."""
    head, blank, word = text.rpartition(" ")
    found = [name for name in _names(text, view) if name.startswith(word)]
    if not found:
        return text
    common = "".join(signs[0] for signs in takewhile(lambda signs: len(set(signs)) == 1, zip(*found, strict=False)))
    is_whole = len(found) == 1 and not common.endswith("=")
    return head + blank + common + (" " if is_whole else "")


def _names(text: str, view: View) -> list[str]:
    """What the last word of the line may be."""
    words = text.split(" ")
    if len(words) == 1:
        return list(WORDS)
    if words[0] in UPSTREAM_VERBS or (words[0] == "set" and len(words) == 2):
        return [lane.upstream.name for lane in view.lanes]
    if words[0] == "set":
        return [*(f"{name}=" for name in LIMITS), "--persist"]
    if words[0] in (*REQUEST_VERBS, "inspect"):
        known = (request for request in view.requests() if words[0] == "inspect" or request.state != "done")
        return [request.id for request in known]
    return []


def hint(text: str, view: View) -> str:
    """What may be typed there: the words that fit, else how the command goes."""
    words = text.split(" ")
    fits = [name for name in islice(_names(text, view), MOST_NAMES) if name.startswith(words[-1])]
    usage = USAGE.get(words[0], "")
    if len(words) == 1:
        return usage or " ".join(fits) or "No such command"
    if words[0] == "set" and len(words) > 2:
        return usage
    return usage + (f"   {' '.join(fits)}" if fits and fits != [words[-1]] else "")
