"""What the screen says when there is nothing to show: no daemon, no upstream, no request yet."""

from math import ceil

from llmgate.tui.cells import Line, Span, width_of, wrap
from llmgate.tui.columns import Frame
from llmgate.tui.model import View

ROOMY = 76
MARGIN = 6


def disconnected(view: View, frame: Frame, width: int) -> list[Line]:
    """The client's error with the lines that help, and when the next attempt is."""
    first, *others = view.link.error.split("\n")
    kept = "  What was last seen stays below." if view.status is not None else ""
    wait = max(0, ceil(view.link.retry_at - view.at))
    when = f"Trying again in {wait} s" if wait else "Trying again now"
    rest = [frame.clean(text) for text in others]
    spare = width - max(map(width_of, rest), default=0)
    margin = min(MARGIN, spare) if spare > 0 else MARGIN
    error = [*_lines([frame.clean(first)], width, "bold", margin), *_lines(rest, width, "", margin)]
    return [[], *error, [], *_lines([f"{when} (attempt {view.link.attempt + 1}).{kept}"], width, "", margin), []]


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
    return [[Span(indent + part, style)] for text in texts for part in wrap(text, width - len(indent))]
