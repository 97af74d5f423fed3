"""What the words for styles mean in each theme. No meaning is carried by a colour alone: every state has its word.

`default` takes the terminal's own sixteen colours; `mono` has none, only bold and reverse.
"""

from functools import lru_cache

from rich.style import Style

Palette = dict[str, Style]

DEFAULT: Palette = {
    "dim": Style(dim=True),
    "bold": Style(bold=True),
    "title": Style(dim=True),
    "ok": Style(color="green"),
    "full": Style(color="yellow"),
    "amber": Style(color="yellow"),
    "bad": Style(color="red", bold=True),
    "chosen": Style(reverse=True),
    "prompt": Style(bold=True),
}
MONO: Palette = {
    "bold": Style(bold=True),
    "full": Style(bold=True),
    "amber": Style(bold=True),
    "bad": Style(reverse=True),
    "chosen": Style(reverse=True, bold=True),
    "prompt": Style(bold=True),
}
DARK: Palette = {
    **DEFAULT,
    "dim": Style(color="#7f8490"),
    "title": Style(color="#76a8c8"),
    "ok": Style(color="#8bc48a"),
    "full": Style(color="#e5c07b"),
    "amber": Style(color="#e5a95b"),
    "bad": Style(color="#f07178", bold=True),
    "chosen": Style(bgcolor="#2f4156", bold=True),
}
LIGHT: Palette = {
    **DEFAULT,
    "dim": Style(color="#6a6f7a"),
    "title": Style(color="#1f5f8b"),
    "ok": Style(color="#1e7a34"),
    "full": Style(color="#8a6100"),
    "amber": Style(color="#a05000"),
    "bad": Style(color="#b3141f", bold=True),
    "chosen": Style(bgcolor="#cfe3f5", bold=True),
}
THEMES: dict[str, Palette] = {"default": DEFAULT, "dark": DARK, "light": LIGHT, "mono": MONO}
NAMES = tuple(THEMES)


@lru_cache(maxsize=256)
def style(theme: str, words: str) -> Style:
    """What some words mean together, as in "full chosen"; a word that is not known means nothing."""
    palette = THEMES[theme]
    return sum((palette[word] for word in words.split() if word in palette), Style.null())
