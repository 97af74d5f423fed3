"""`llmgate events`: what happens, line by line as it happens."""

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from llmgate.cli.context import Context, context_of, print_json, print_lines
from llmgate.cli.numbers import whole
from llmgate.names import unknown_upstream

if TYPE_CHECKING:
    from llmgate.adminapi import EventView, FeedItem
    from llmgate.adminclient import AdminClient

LATEST = 10
ALL_KEPT = (1 << 31) - 1


def _since(text: str) -> datetime:
    """The moment that a duration before now, or an RFC 3339 time, means."""
    from llmgate.config.units import BadValue, parse_duration

    try:
        return datetime.now(UTC) - timedelta(seconds=parse_duration(text))
    except BadValue:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter("must be a duration such as 10m, or a time such as 2026-11-30T14:02:31Z") from None
    return moment if moment.tzinfo else moment.astimezone()


def events(
    ctx: typer.Context,
    since: Annotated[
        datetime | None,
        typer.Option(help="Begin with those since then: 10m, or a time.", parser=_since, metavar="WHEN"),
    ] = None,
    lines: Annotated[
        int | None, typer.Option("--lines", "-n", help="Begin with the newest so many.", parser=whole(0), metavar="N")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Go on with what happens.")] = True,
    upstream: Annotated[str | None, typer.Option(help="Only those of this upstream.", metavar="NAME")] = None,
    every: Annotated[
        bool, typer.Option("--all", "-a", help="Also those without a word of their own, such as a regular end.")
    ] = False,
) -> None:
    """Follow what happens, until ctrl-c. With --json a line of JSON each.

    \b
    Examples:
      llmgate events --since 10m
      llmgate events --json --all | jq 'select(.outcome == "queue_full")'
    """
    import asyncio

    context = context_of(ctx)
    latest = LATEST if lines is None and since is None else lines
    chosen = Chosen(upstream, since, latest, every=every or context.json)
    asyncio.run(_follow(context.client("events"), chosen, context, follow=follow))


class Chosen:
    """Which events are shown. `lines`: of those that were before, the newest so many; None = as many as there are."""

    def __init__(self, upstream: str | None, since: datetime | None, lines: int | None, *, every: bool) -> None:
        self._upstream = upstream
        self._since = since
        self._lines = lines
        self._every = every

    @property
    def wanted(self) -> int:
        """How many events of the past have to be asked for, to find those that are shown."""
        is_all = self._every and self._upstream is None and self._since is None
        return self._lines if is_all and self._lines is not None else ALL_KEPT

    def shows(self, event: "EventView") -> bool:
        return (self._every or bool(event.text)) and self._upstream in (None, event.upstream)

    def check(self, item: "FeedItem") -> None:
        """AdminRefusal where the snapshot has never heard of the upstream; one that a reload took away may be known."""
        known = [view.name for view in item.status.upstreams] if item.status is not None else []
        if self._upstream not in (None, *known, *(event.upstream for event in item.events)):
            renamed = item.status.renamed if item.status is not None else {}
            raise unknown_upstream(str(self._upstream), known, renamed)

    def earlier(self, item: "FeedItem") -> Iterator["EventView"]:
        """Of a snapshot."""
        fits = (event for event in item.events if self.shows(event) and self._is_late(event))
        return iter(deque(fits, self._lines))

    def _is_late(self, event: "EventView") -> bool:
        return self._since is None or datetime.fromisoformat(event.at) >= self._since


async def _follow(client: "AdminClient", chosen: Chosen, context: Context, *, follow: bool) -> None:
    async with client.watch(events=chosen.wanted) as items:
        async for item in items:
            if item.type == "snapshot":
                chosen.check(item)
                for event in chosen.earlier(item):
                    _show(event, context)
                if not follow:
                    return
            elif item.event is not None and chosen.shows(item.event):
                _show(item.event, context)


def _show(event: "EventView", context: Context) -> None:
    from llmgate.adminapi import as_plain

    if context.json:
        print_json(as_plain(event))
    else:
        print_lines([line(event)])


def line(event: "EventView") -> str:
    """`14:02:28 ha-llm dispatched after 5730ms (opencode ses_dd49 title) req_7f3a`, in the viewer's own time."""
    from llmgate.tui.cells import clean, shorten

    moment = datetime.fromisoformat(event.at).astimezone()
    who = " ".join(filter(None, [event.client, shorten(event.session, 14), event.purpose]))
    text = event.text or event.word or event.kind.replace("_", " ")
    parts = [f"{moment:%H:%M:%S}", event.upstream, text, f"({who})" if who else "", event.request_id]
    return clean(" ".join(filter(None, parts)))
