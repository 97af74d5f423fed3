"""`llmgate top`: the Textual app over the daemon's feed, and its one picture without a terminal (`--once`)."""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Callable
from datetime import tzinfo
from pathlib import Path
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from llmgate.adminclient import AdminClient
from llmgate.errors import AdminError, DaemonNotRunning
from llmgate.tui.cells import plain
from llmgate.tui.follow import Feed, Follower
from llmgate.tui.model import Model, View
from llmgate.tui.picture import picture
from llmgate.tui.screens.help import HelpScreen
from llmgate.tui.screens.overview import OverviewScreen
from llmgate.tui.sections import Look
from llmgate.tui.widgets.canvas import COLOURS, MONOCHROME

SNAPSHOT_SECONDS = 5.0
NOT_RUNNING = 3


class TopApp(App[None]):
    """The app. `clock` is monotonic seconds; `zone` None is the viewer's own time zone."""

    CSS_PATH = "llmgate.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit"),
        Binding("ctrl+c", "quit", priority=True),
        Binding("question_mark,h,f1", "help"),
        Binding("r", "retry"),
    ]

    def __init__(
        self,
        feed: Feed,
        *,
        look: Look | None = None,
        no_color: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(ansi_color=True)
        self._palette = MONOCHROME if no_color else COLOURS
        model = Model()
        self._overview = OverviewScreen(model, clock, look or Look(), self._palette)
        self._follower = Follower(feed, model, clock, self._overview.changed)

    def get_default_screen(self) -> Screen[None]:
        return self._overview

    def on_mount(self) -> None:
        self.run_worker(self._follower.run())

    def action_help(self) -> None:
        self.push_screen(HelpScreen(self._overview.look, self._palette))

    def action_retry(self) -> None:
        self._follower.retry()


def run(
    socket: Path,
    *,
    ascii: bool = False,  # noqa: A002 (the option's own name)
    once: bool = False,
    no_color: bool = False,
    quiet: bool = False,
    zone: tzinfo | None = None,
) -> int:
    """The exit status: 0; 1 when it failed; 3 when `once` found no daemon (without it the screen waits for one)."""
    plain_signs = ascii or "utf" not in (sys.stdout.encoding or "").lower()
    look = Look(ascii=plain_signs, zone=zone)
    if once:
        return print_once(socket, look, quiet=quiet)
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        sys.stderr.write("llmgate top needs a terminal; llmgate top --once prints one picture without\n")
        return 1
    app = TopApp(AdminClient(socket, command="top"), look=look, no_color=no_color or bool(os.environ.get("NO_COLOR")))
    app.run()
    return app.return_code or 0


def print_once(socket: Path, look: Look, *, quiet: bool = False) -> int:
    """Writes the overview as plain text, as large as the terminal, without the keys.

    `quiet`: that no daemon answers is told by the exit status only.
    """
    try:
        view = asyncio.run(first_view(AdminClient(socket, command="top")))
    except AdminError as error:
        absent = isinstance(error, DaemonNotRunning)
        if not (absent and quiet):
            sys.stderr.write(f"{error}\n")
        return NOT_RUNNING if absent else 1
    columns, rows = shutil.get_terminal_size((80, 24))
    lines = picture(view, Look(columns, rows, look.ascii, zone=look.zone, keys=False))
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
        raise AdminError("The daemon sent no picture of its state in time") from None
    raise AdminError("The daemon closed the connection")
