"""What the screen says when there is nothing to show: no daemon, no upstream, no request yet."""

from math import ceil

from llmgate.tui.cells import Line, Span, width_of, wrap
from llmgate.tui.columns import Frame
from llmgate.tui.model import View

ROOMY = 76
MARGIN = 6
CONTINUED = " " * 8


def disconnected(view: View, frame: Frame, width: int) -> list[Line]:
    """The client's error with the lines that help, and when the next attempt is."""
    first, *others = view.link.error.split("\n")
    kept = "  What was last seen stays below." if view.status is not None else ""
    rest = [frame.clean(text) for text in others]
    spare = width - max(map(width_of, rest), default=0)
    margin = min(MARGIN, spare) if spare > 0 else MARGIN
    error = [*_lines([frame.clean(first)], width, "bold", margin), *_lines(rest, width, "", margin)]
    return [[], *error, [], *_lines([_when(view) + kept], width, "", margin), []]


def disconnected_briefly(view: View, frame: Frame, width: int, room: int) -> list[Line]:
    """The same in so many lines: what is wrong, when the next attempt is, and of what helps all that fits whole."""
    first, *rest = (frame.clean(text) for text in view.link.error.split("\n") if text)
    lines = [*_lines([first], width, "bold"), *_lines([_when(view)], width)][:room]
    for entry in _entries(rest):
        more = _lines(entry, width)
        if len(lines) + len(more) <= room:
            lines += more
    return lines


def _entries(texts: list[str]) -> list[list[str]]:
    """Lines that belong together: one that is further in goes on with the one above it."""
    entries: list[list[str]] = []
    for text in texts:
        if entries and text.startswith(CONTINUED):
            entries[-1].append(text)
        else:
            entries.append([text])
    return entries


def _when(view: View) -> str:
    wait = max(0, ceil(view.link.retry_at - view.at))
    return f"Trying again {f'in {wait} s' if wait else 'now'} (attempt {view.link.attempt + 1})."


def no_upstream(width: int) -> list[Line]:
    texts = [
        "",
        "No upstream yet: there is no server to send requests to.",
        "",
        "  for a first look      llmgate serve --upstream NAME=URL",
        "  lines to paste        llmgate probe http://127.0.0.1:8081",
        "  to keep it            [upstreams.NAME] in the settings file:",
        '                          url = "http://127.0.0.1:8081"',
        '                          max_concurrent = "auto"',
    ]
    return _lines(texts, width)


def no_traffic(view: View, frame: Frame, width: int) -> list[Line]:
    """What is wrong with upstreams, and the base URLs that clients need; the first address stands for all."""
    status = view.status
    base = frame.clean(base_origin(status.listen) + next(iter(status.path_prefix), "")) if status is not None else ""
    texts = [
        "",
        "No request has come since the daemon started. Base URLs for clients:",
        "",
        f"  Anthropic, Ollama     {base}",
        f"  OpenAI                {base}/v1",
        "",
        "The lines for one client: llmgate connect CLIENT",
        "To see requests wait without a server of your own: llmgate demo",
    ]
    return [*_remarks(view, frame, width), *_lines(texts, width)]


def _remarks(view: View, frame: Frame, width: int) -> list[Line]:
    """An upstream that is down says why even while nobody wants anything of it."""
    lines: list[Line] = []
    for upstream in (lane.upstream for lane in view.lanes if lane.upstream.remarks):
        style = "bad" if upstream.state == "down" else "amber"
        lines += _lines([frame.clean(f"{upstream.name}: {upstream.remarks}")], width, style)
    return [[], *lines] if lines else []


def base_origin(listen: list[str]) -> str:
    """The first address that a client on this machine can use, as the beginning of a URL."""
    for address in listen:
        if address.startswith(("http://", "https://")):
            return address.rstrip("/")
        if not address.startswith(("unix:", "fd:")):
            host, _, port = address.rpartition(":")
            return f"http://{_reachable(host)}:{port}"
    return "http://localhost"


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "": "127.0.0.1"}.get(host, host)  # noqa: S104


def _lines(texts: list[str], width: int, style: str = "", margin: int = MARGIN) -> list[Line]:
    """Indented where there is room for it, and wrapped, since a path or a command is of no use without its end."""
    indent = " " * (margin if width >= ROOMY else 1)
    return [[Span(indent + part, style)] for text in texts for part in wrapped(text, width - len(indent))]


def wrapped(text: str, width: int) -> list[str]:
    """What is indented goes on below itself, a little further in."""
    lead = len(text) - len(text.lstrip())
    first = wrap(text, width)[0]
    hang = " " * (lead + 2 if lead else 0)
    rest = text[len(first) :].lstrip()
    return [first, *(hang + part for part in wrap(rest, width - len(hang)))] if rest else [first]
