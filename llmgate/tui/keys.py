"""The keys of the screen: one table, which the help shows, and which the man page is held against."""

from dataclasses import dataclass

LISTS = frozenset(("lists",))
ANYWHERE = frozenset(("lists", "detail"))


@dataclass(frozen=True, slots=True)
class Key:
    """`names` are as `press` gets them: the character itself where there is one, else Textual's name."""

    names: tuple[str, ...]
    shown: str
    does: str
    where: frozenset[str] = ANYWHERE
    acts: bool = False
    """It changes something at the daemon."""


KEYS: tuple[Key, ...] = (
    Key(("up", "k", "down", "j"), "up k down j", "move; also wheel, click", LISTS),
    Key(("pageup", "ctrl+b", "pagedown", "ctrl+f"), "PgUp PgDn", "a screen up, down", LISTS),
    Key(("home", "g", "end", "G"), "Home End", "first, last row; or g G", LISTS),
    Key(("tab", "shift+tab"), "Tab", "next part of overview", LISTS),
    Key(("enter",), "Enter", "open it; or click again", LISTS),
    Key(("escape",), "Esc", "back; filter, marks off"),
    Key(("1",), "1", "overview"),
    Key(("2",), "2", "all that wait"),
    Key(("3",), "3", "all that run"),
    Key(("4",), "4", "those that ended lately"),
    Key(("5",), "5", "events"),
    Key(("/",), "/", "filter, see below", LISTS),
    Key(("s",), "s", "sort by the next column", LISTS),
    Key(("S",), "S", "sort the other way", LISTS),
    Key((" ",), "Space", "mark: act on all marked", LISTS),
    Key(("P",), "P", "freeze, thaw picture"),
    Key(("p",), "p", "pause the upstream", acts=True),
    Key(("d",), "d", "drain the upstream", acts=True),
    Key(("R",), "R", "resume the upstream", acts=True),
    Key(("+", "=", "-"), "+ -", "one slot more, less", acts=True),
    Key(("x",), "x", "cancel the request", acts=True),
    Key(("X",), "X", "cancel, without asking", acts=True),
    Key(("m",), "m", "move it to the front", acts=True),
    Key(("w",), "w", "why does it wait"),
    Key(("l",), "l", "its log lines"),
    Key(("y",), "y", "copy its id"),
    Key(("Y",), "Y", "copy a curl for it"),
    Key((":",), ":", "command, as :drain NAME"),
    Key(("r",), "r", "not connected: retry"),
    Key(("t",), "t", "next theme"),
    Key(("a",), "a", "ASCII or Unicode signs"),
    Key(("?", "h", "f1"), "? h F1", "this help"),
    Key(("q", "ctrl+c"), "q Ctrl-C", "quit"),
)


def names_of(*, acting: bool) -> frozenset[str]:
    """The names of the keys that do, or do not, change something."""
    return frozenset(name for key in KEYS if key.acts is acting for name in key.names)
