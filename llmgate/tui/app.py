"""`llmgate top`: the Textual app over the daemon's feed, and its one picture without a terminal (`--once`)."""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.worker import Worker

from llmgate.adminclient import AsyncAdminClient
from llmgate.errors import AdminError, DaemonNotRunning
from llmgate.tui.actions import Acting, Action, perform
from llmgate.tui.cells import plain
from llmgate.tui.examine import examine
from llmgate.tui.follow import Feed, Follower
from llmgate.tui.furniture import Look
from llmgate.tui.model import Model, View
from llmgate.tui.picture import picture
from llmgate.tui.screens.board import Board
from llmgate.tui.state import State
from llmgate.tui.step import Ask, Copy, Do, Effect, Examine, Quit, Retry

SNAPSHOT_SECONDS = 5.0
Work = Callable[[], Coroutine[None, None, None]]
NOT_RUNNING = 3


class TopApp(App[None]):
    """The app: hands on the feed, the keys and what they want done. `clock` is monotonic seconds, `doctor` the command
    that looks for what is wrong."""

    CSS_PATH = "llmgate.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "quit", priority=True)]

    def __init__(
        self,
        feed: Feed,
        acting: Acting,
        *,
        look: Look | None = None,
        state: State | None = None,
        clock: Callable[[], float] = time.monotonic,
        doctor: Sequence[str] = (),
    ) -> None:
        super().__init__(ansi_color=True)
        self._doctor = doctor
        self._acting = acting
        self._one_at_a_time = asyncio.Lock()
        self._model = Model()
        self.board = Board(self._model, clock, look or Look(), state or State(), self._perform)
        self._follower = Follower(feed, self._model, clock, self.board.changed, self._connected)

    def get_default_screen(self) -> Screen[None]:
        return self.board

    def on_mount(self) -> None:
        self._begin(self._follower.run)

    def _begin(self, work: Work, alone: str = "") -> Worker[None]:
        """Runs it beside the rest; of those that are `alone` under one name the last only.

        Textual gets a function and not a coroutine: one that is cancelled before it began would be warned of.
        """
        return self.run_worker(work, group=alone or "default", exclusive=bool(alone))

    def _connected(self) -> None:
        self._begin(self._fetch_ended, alone="ended")

    async def _fetch_ended(self) -> None:
        """Those that ended before this viewer came: the feed does not tell them."""
        try:
            found = await self._acting.ended()
        except AdminError:
            return
        self._model.remember(found.requests)
        self.board.changed()

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Do(actions):
                self._begin(partial(self._act, actions))
            case Ask(request_id):
                self._begin(partial(self._ask, request_id), alone="ask")
            case Copy(text):
                self.copy_to_clipboard(text)
            case Examine():
                self._begin(self._examine, alone="doctor")
            case Retry():
                self._follower.retry()
            case Quit():
                self.exit()

    async def _act(self, actions: tuple[Action, ...]) -> None:
        async with self._one_at_a_time:  # two presses of + must reach the daemon in their order
            text, is_bad = await perform(self._acting, actions)
        names = frozenset(action.target for action in actions if action.verb == "set")
        self.board.done(names, text, is_bad)

    async def _examine(self) -> None:
        self.board.report(await examine(self._doctor))

    async def _ask(self, request_id: str) -> None:
        """What the daemon knows beyond the feed; without it the screen shows what the feed told."""
        try:
            detail = await self._acting.request(request_id)
        except AdminError:
            return
        self.board.told(detail)


def run(
    socket: Path,
    *,
    ascii: bool = False,  # noqa: A002 (the option's own name)
    doctor: Sequence[str] = (),
    once: bool = False,
    no_color: bool = False,
    quiet: bool = False,
    read_only: bool = False,
    settings: Path | None = None,
    theme: str = "default",
    zone: tzinfo | None = None,
) -> int:
    """The exit status: 0; 1 when it failed; 3 when `once` found no daemon (without it the screen waits for one)."""
    plain_signs = ascii or "utf" not in (sys.stdout.encoding or "").lower()
    no_color = no_color or bool(os.environ.get("NO_COLOR"))
    state = State(ascii=plain_signs, theme="mono" if no_color else theme, no_color=no_color, read_only=read_only)
    if once:
        return print_once(socket, state, zone, quiet=quiet, settings=settings)
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        sys.stderr.write("llmgate: top needs a terminal; llmgate top --once prints one picture without\n")
        return 1
    client = AsyncAdminClient(socket, command="top", settings=settings)
    app = TopApp(client, client, look=Look(zone=zone), state=state, doctor=doctor)
    app.run()
    return app.return_code or 0


def print_once(
    socket: Path, state: State, zone: tzinfo | None, *, quiet: bool = False, settings: Path | None = None
) -> int:
    """Writes the overview as plain text, as large as the terminal, without the keys.

    `quiet`: that no daemon answers is told by the exit status only; `settings`: the file to start one with.
    """
    try:
        view = asyncio.run(first_view(AsyncAdminClient(socket, command="top", settings=settings)))
    except AdminError as error:
        absent = isinstance(error, DaemonNotRunning)
        if not (absent and quiet):
            sys.stderr.write(f"{error}\n")
        return NOT_RUNNING if absent else 1
    columns, rows = shutil.get_terminal_size((80, 24))
    rows -= sys.stdout.isatty()  # the last one is for the prompt: without it the first would scroll away
    lines = picture(view, Look(columns, rows, zone, keys=False), state)
    sys.stdout.write("\n".join(plain(line) for line in lines).rstrip("\n") + "\n")
    return 0


async def first_view(feed: Feed) -> View:
    """What the feed's snapshot shows."""
    model = Model()
    try:
        async with asyncio.timeout(SNAPSHOT_SECONDS), feed.watch() as items:
            async for item in items:
                at = time.monotonic()
                model.apply(item, at)
                view = model.view(at)
                if view.status is not None:
                    return view
    except TimeoutError:
        raise AdminError(
            "The daemon sent no picture of its state in time: it is stopped or too busy; llmgate doctor looks at it"
        ) from None
    raise AdminError("The daemon closed the connection")
