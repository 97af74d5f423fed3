"""The line behind `:`: the verbs of the command line, with the selected row where no name is given."""

from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice, takewhile
from typing import Literal

from llmgate.adminclient.limits import LIMITS, parse_limit
from llmgate.config.units import BadValue
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
    "doctor": ":doctor   why it waits, why there is no connection",
    "cancel": ":cancel [ID ...]",
    "move": ":move [ID ...]   to the front of its queue",
    "inspect": ":inspect [ID]",
}
NEAR = 0.7
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
    near = get_close_matches(verb, WORDS, 1, NEAR)
    meant = f": is it {near[0]}?" if near else "."
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
    if view.request(wanted) is None:
        return Command(error=f"No request {wanted} is known" if wanted else "Which request? As in :inspect ID")
    return Command(inspect=wanted)


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
