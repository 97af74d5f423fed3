"""Numbers as the screen writes them: ages, durations, counts, bars."""

from collections.abc import Sequence


def age(ms: int) -> str:
    """0:41, 12:05, 1:02:03, 3d 04:12."""
    seconds = max(ms, 0) // 1000
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days:
        return f"{days}d {hours % 24:02}:{minutes % 60:02}"
    if hours:
        return f"{hours}:{minutes % 60:02}:{seconds % 60:02}"
    return f"{minutes}:{seconds % 60:02}"


def short_age(ms: int) -> str:
    """41s, 12m, 3h, 4d: where there is no room."""
    seconds = max(ms, 0) // 1000
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def estimate(ms: int | None) -> str:
    """~0:12, ~3h: always with its sign, as it is an estimate; a minus sign where there is none."""
    if ms is None:
        return "-"
    return f"~{age(ms) if ms < 3_600_000 else short_age(ms)}"


def duration(ms: int | None, digits: int = 1) -> str:
    """5.7s, 38.0s, 2:05 from 100 s on; a minus sign where nothing was measured."""
    if ms is None:
        return "-"
    return f"{ms / 1000:.{digits}f}s" if ms < 100_000 else age(ms)


def count(number: int) -> str:
    """1,204, then 123k, 12.3M: never more than six characters below a billion."""
    if number < 100_000:
        return f"{number:,}"
    if number < 1_000_000:
        return f"{number // 1000}k"
    return f"{number / 1_000_000:.1f}M" if number < 100_000_000 else f"{number // 1_000_000}M"


def filled(part: int, whole: int, cells: int) -> int:
    """How many of the cells of a bar are filled: none only at nothing, all only at the whole."""
    if part <= 0 or whole <= 0:
        return 0
    return cells if part >= whole else max(1, min(part * cells // whole, cells - 1))


def sparkline(numbers: Sequence[int], levels: str) -> str:
    """One sign a number, the highest for the largest; nothing at all where every number is 0."""
    top = max(numbers, default=0)
    if top == 0:
        return ""
    last = len(levels) - 1
    return "".join(levels[-(-number * last // top)] for number in numbers)
