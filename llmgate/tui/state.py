"""What the person has chosen to look at: frozen, made anew by each key (press.py), and nothing that the daemon tells.

Invariant: a selection is of an id and never of a row. The row where it stood is kept with it only so that, when the id
is gone, the selection stays at that height of the list; `settle` (listing.py) does that at each picture.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from llmgate.adminapi import RequestDetail
from llmgate.tui.actions import Action
from llmgate.tui.model import View

Page = Literal["overview", "waiting", "running", "recent", "events"]
Pane = Literal["upstreams", "waiting", "running", "events"]
PAGES: tuple[Page, ...] = ("overview", "waiting", "running", "recent", "events")
PANES: tuple[Pane, ...] = ("upstreams", "waiting", "running", "events")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which row of a list is selected, and at which index it was when it was last shown."""

    id: str = ""
    index: int = 0


@dataclass(frozen=True, slots=True)
class Sort:
    """By which column, by its title; "" = as the daemon has it."""

    title: str = ""
    reverse: bool = False

    def __str__(self) -> str:
        return "by " + (self.title or "place") + (", reversed" if self.reverse else "")


@dataclass(frozen=True, slots=True)
class Typing:
    """A line that is being typed: a filter (`/`), which holds while it is typed, or a command (`:`)."""

    kind: Literal["filter", "command"]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Asking:
    """A question that `y` answers with yes, any other key with no."""

    question: str
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Why:
    """What it was asked of why it waits, or stands still: each picture says it anew (why.py)."""

    kind: Literal["request", "upstream"]
    id: str


@dataclass(frozen=True, slots=True)
class Message:
    """What became of something, until the next key."""

    text: str
    is_bad: bool = False


@dataclass(frozen=True, slots=True)
class State:
    page: Page = "overview"
    pane: Pane = "upstreams"
    """Which part of the overview has the selection."""
    chosen: Mapping[str, Chosen] = field(default_factory=dict)
    """By the name of the list (`list_name`)."""
    sorts: Mapping[str, Sort] = field(default_factory=dict)
    """By what a list holds: "upstreams", "waiting" ..."""
    marked: frozenset[str] = frozenset()
    """Requests, by id."""
    marked_upstreams: frozenset[str] = frozenset()
    filter: str = ""
    detail: str = ""
    """The id of the request that is open."""
    told: RequestDetail | None = None
    """What the daemon told of a request that was opened."""
    help: int | None = None
    """How far the help is scrolled; None = it is not shown."""
    why: Why | None = None
    report: str | None = None
    """What `llmgate doctor` said, over the whole screen."""
    report_scrolled: int = 0
    log: bool = False
    frozen: View | None = None
    """The picture that was frozen."""
    prompt: Typing | Asking | None = None
    message: Message | None = None
    slots: Mapping[str, int] = field(default_factory=dict)
    """What `max_concurrent` of an upstream was last asked to become, until the feed tells that it is so."""
    theme: str = "default"
    ascii: bool = False
    no_color: bool = False
    read_only: bool = False
    """From the command line: nothing may be changed."""

    @property
    def holds(self) -> Pane | Literal["recent"]:
        """What the list that has the selection holds."""
        return self.pane if self.page == "overview" else self.page

    @property
    def list_name(self) -> str:
        """The list that has the selection."""
        return f"overview.{self.pane}" if self.page == "overview" and self.pane != "upstreams" else self.holds

    def shown(self, view: View) -> View:
        """The view to draw: the frozen one, while there is one."""
        return self.frozen or view
