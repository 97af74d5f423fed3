"""The last two lines: what became of something, and the keys that do something now, or what is being typed."""

from llmgate.tui import commands, targets
from llmgate.tui.cells import Line, Span, cut, width_of, width_of_line, wrap
from llmgate.tui.columns import Frame
from llmgate.tui.filter import parse
from llmgate.tui.furniture import Look, rule
from llmgate.tui.model import View
from llmgate.tui.state import Asking, State, Typing

LAST = (("?", "help"), ("q", "quit"))
MOST_LINES = 4
"""Of a message: a daemon's sentence may be as long as it likes."""


def footer_lines(live: View, frame: Frame, look: Look) -> list[Line]:
    return [*message_lines(live, frame, look), bottom_line(live, frame, look)]


def message_lines(live: View, frame: Frame, look: Look) -> list[Line]:
    """What became of something, on as many lines as it takes, or what may be typed; else a plain rule."""
    prompt, message = frame.state.prompt, frame.state.message
    if isinstance(prompt, Typing) and prompt.kind == "command":
        text = frame.clean(commands.hint(prompt.text, live))
        return [[Span(cut(f" {text}", look.width, frame.glyphs.more), "dim")]]
    if message is None or not message.text:
        return [rule(frame, look.width)]
    style = "bad" if message.is_bad else "bold"
    texts = wrap(frame.clean(message.text), look.width - 2)
    if len(texts) > MOST_LINES:
        texts = [*texts[: MOST_LINES - 1], cut(" ".join(texts[MOST_LINES - 1 :]), look.width - 2, frame.glyphs.more)]
    return [[Span(f" {text}", style)] for text in texts]


def bottom_line(live: View, frame: Frame, look: Look) -> Line:
    prompt = frame.state.prompt
    if isinstance(prompt, Asking):
        return [Span(f" {frame.clean(prompt.question)}", "prompt"), Span("  y yes, any other key no")]
    if isinstance(prompt, Typing):
        return _typed_line(prompt, frame, look)
    return keys_line(_keys(live, frame), look.width)


def _typed_line(prompt: Typing, frame: Frame, look: Look) -> Line:
    """Its end stays in sight; beside a filter stands what of it is no regular expression, if there is room."""
    sign = "/" if prompt.kind == "filter" else ":"
    typed = frame.clean(prompt.text)
    bad = frame.clean(parse(prompt.text).bad) if prompt.kind == "filter" else ""
    remark = f"  {bad} is no regular expression: it is taken as it stands" if bad else ""
    if width_of(typed) + width_of(remark) > look.width - 4:
        remark = ""
    while typed and width_of(typed) > look.width - 4:
        typed = typed[1:]
    return [Span(f" {sign}", "prompt"), Span(typed), Span(" ", "chosen"), Span(remark, "amber")]


def keys_line(keys: list[tuple[str, str]], width: int) -> Line:
    """As many of the keys as there is room for, and in any case how to get help and out."""
    last = [_key(*key) for key in LAST]
    left = width - sum(map(width_of_line, last))
    line: Line = []
    for key, word in keys:
        spans = _key(key, word)
        left -= width_of_line(spans)
        if left < 0:
            break
        line += spans
    return [*line, *(span for spans in last for span in spans)]


def _key(key: str, word: str) -> Line:
    return [Span(f" {key}", "bold"), Span(f" {word} ")]


def _keys(live: View, frame: Frame) -> list[tuple[str, str]]:
    """Only keys that do something now, the most useful first."""
    state, glyphs = frame.state, frame.glyphs
    if live.link.state == "lost":
        return [("r", "retry now"), ("w", "why (llmgate doctor)")]
    if state.detail:
        return [("esc", "back"), *_allowed(live, state, _on_open(live, state)), *_ABOUT, ("l", "log")]
    if not frame.view.lanes:
        return []
    keys = [(glyphs.arrows, "select"), (glyphs.enter, "open"), ("/", "filter")]
    if state.page == "overview":
        keys.insert(2, ("tab", "pane"))
    acting = [("p", "pause"), ("d", "drain"), ("x", "cancel")]
    if live.status is not None and live.status.state != "running":
        acting = [("x", "cancel")] if state.holds in ("waiting", "running") else []
    elif state.holds == "upstreams":
        acting = _on_upstream(live, frame)
    elif state.holds == "waiting":
        acting = [("x", "cancel"), ("m", "to front"), ("p", "pause")]
    elif state.holds in ("recent", "events"):
        acting = []
    return [*keys, *_allowed(live, state, acting), ("w", "why"), ("s", "sort"), ("space", "mark"), ("l", "log"), _PAGES]


def _on_upstream(live: View, frame: Frame) -> list[tuple[str, str]]:
    """What can be done with the selected one."""
    lane = live.lane(frame.selected)
    state = lane.upstream.state if lane is not None else ""
    if state == "paused":
        return [("R", "resume"), ("d", "drain"), ("+/-", "slots")]
    if state in ("draining", "drained"):
        return [("R", "resume"), ("p", "pause"), ("+/-", "slots")]
    return [("p", "pause"), ("d", "drain"), ("R", "resume"), ("+/-", "slots")]


def _on_open(live: View, state: State) -> list[tuple[str, str]]:
    request = live.request(state.detail)
    keys = [("x", "cancel")] if request is not None and request.state in ("waiting", "running") else []
    return [*keys, ("m", "to front")] if request is not None and request.state == "waiting" else keys


_ABOUT = [("w", "why"), ("y", "copy id"), ("Y", "copy curl")]
_PAGES = ("1-5", "pages")


def _allowed(live: View, state: State, keys: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [] if targets.forbidden(live, state) else keys
