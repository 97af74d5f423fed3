"""What the screen says when there is nothing to show: no daemon, no upstream, no request yet."""

from math import ceil

from llmgate.adminapi import Status
from llmgate.tui.cells import Line, Span, wrap
from llmgate.tui.columns import Frame
from llmgate.tui.model import View

ROOMY = 76


def disconnected(view: View, frame: Frame, width: int) -> list[Line]:
    """The client's error with the lines that help, and when the next attempt is."""
    first, *others = view.link.error.split("\n")
    kept = "  What was last seen stays below." if view.status is not None else ""
    wait = max(0, ceil(view.link.retry_at - view.at))
    when = f"Trying again in {wait} s" if wait else "Trying again now"
    error = [*_lines([frame.clean(first)], width, "bold"), *_lines([frame.clean(text) for text in others], width)]
    return [[], *error, [], *_lines([f"{when} (attempt {view.link.attempt + 1}).{kept}"], width), []]


def no_upstream(width: int) -> list[Line]:
    texts = [
        "",
        "No upstream yet: there is no server to send requests to.",
        "",
        "  for a first look      llmgate serve --upstream NAME=URL",
        "  to keep it            [upstreams.NAME] in the settings file:",
        '                          url = "http://127.0.0.1:8081"',
        '                          max_concurrent = "auto"',
    ]
    return _lines(texts, width)


def no_traffic(status: Status, frame: Frame, width: int) -> list[Line]:
    """The base URLs that clients need; the first address stands for all."""
    base = frame.clean(base_origin(status.listen) + next(iter(status.path_prefix), ""))
    texts = [
        "",
        "No request has come since the daemon started. Base URLs for clients:",
        "",
        f"  Anthropic             {base}",
        f"  OpenAI                {base}/v1",
        "",
        "To see requests wait without a server of your own: llmgate demo",
    ]
    return _lines(texts, width)


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


def _lines(texts: list[str], width: int, style: str = "") -> list[Line]:
    """Indented where there is room for it, and wrapped, since a path or a command is of no use without its end."""
    indent = " " * (6 if width >= ROOMY else 1)
    return [[Span(indent + part, style)] for text in texts for part in wrap(text, width - len(indent))]
