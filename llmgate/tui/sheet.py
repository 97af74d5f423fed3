"""A text that takes the whole screen and can be scrolled: the help, and what `llmgate doctor` found."""

from collections.abc import Sequence

from llmgate.tui.cells import Line, Span, fit
from llmgate.tui.columns import Frame
from llmgate.tui.furniture import Look, rule

FARTHEST = 1000
"""As far as a text is scrolled: keys know neither its lines nor the screen's, which stops it at the last one."""


def sheet_lines(frame: Frame, look: Look, title: str, texts: Sequence[str], scrolled: int) -> list[Line]:
    """Exactly the screen, as a picture is. Texts that begin in the first column are titles."""
    room = max(1, look.height - 4)
    first = max(0, min(scrolled, len(texts) - room))
    lines: list[Line] = [[Span(" llmgate top ", "bold"), Span(frame.glyphs.mark), Span(f" {title}", "bold")]]
    lines.append(rule(frame, look.width))
    shown = texts[first : first + room]
    lines += [[Span(f" {frame.clean(text)}", "" if text.startswith(" ") else "title")] for text in shown]
    lines += [[] for _ in range(look.height - 2 - len(lines))]
    below = len(texts) - first - len(shown)
    told = f"{below} more line{'s' if below > 1 else ''} below"
    lines.append(rule(frame, look.width, *((told,) if below else ())))
    keys = [("esc", "back"), *([(frame.glyphs.arrows, "scroll")] if len(texts) > room else []), ("q", "quit")]
    lines.append([span for key, word in keys for span in (Span(f" {key}", "bold"), Span(f" {word} "))])
    return [fit(line, look.width) for line in lines[: look.height]]
