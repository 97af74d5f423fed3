"""Durations, sizes and modes: what is read, what is refused, and that what is printed is read back."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.config.units import (
    BadValue,
    format_duration,
    format_mode,
    format_size,
    parse_duration,
    parse_mode,
    parse_size,
)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        *((0, 0), (90, 90), (2.5, 2.5), ("0s", 0), (" 1.5 h ", 5400), ("0.5ms", 0.0005)),
        *(("90", 90), ("250ms", 0.25), ("90s", 90), ("5m", 300), ("1h", 3600), ("1d", 86400)),
    ],
    ids=repr,
)
def test_durations_are_seconds(written: object, seconds: float) -> None:
    assert parse_duration(written) == seconds


@pytest.mark.parametrize(
    "written",
    [
        -1,
        -0.5,
        math.inf,
        -math.inf,
        math.nan,
        10**400,
        True,
        None,
        [],
        "",
        "s",
        "-1s",
        "5 parsecs",
        "1h30m",
        "inf",
        "nan",
        "1e3",
        "٣s",
        "1_000",
        ".5s",
        10**12,
    ],
    ids=repr,
)
def test_what_is_no_duration_is_refused(written: object) -> None:
    with pytest.raises(BadValue):
        parse_duration(written)


@given(st.integers(0, 10**8).map(lambda milliseconds: milliseconds / 1000) | st.floats(0, 1e6))
def test_a_printed_duration_is_read_back(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.25, "250ms"), (1, "1s"), (90, "90s"), (300, "5m"), (3600, "1h"), (86400, "1d"), (2.5, "2.5s")],
    ids=repr,
)
def test_durations_are_printed_short(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("written", "size"),
    [(1, 1), ("1048576", 1 << 20), ("512KiB", 512 << 10), ("64MiB", 64 << 20), ("1.5KiB", 1536), ("2 MB", 2_000_000)],
    ids=repr,
)
def test_sizes_are_bytes(written: object, size: int) -> None:
    assert parse_size(written) == size


@pytest.mark.parametrize(
    "written", [0, -1, 1.5, True, None, "", "MiB", "1mib", "0.3KiB", "1 parsec", 1 << 50, "0", "-1"], ids=repr
)
def test_what_is_no_size_is_refused(written: object) -> None:
    with pytest.raises(BadValue):
        parse_size(written)


@given(st.integers(1, 1 << 40))
def test_a_printed_size_is_read_back(size: int) -> None:
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize(
    ("size", "text"), [(64 << 20, "64MiB"), (1 << 30, "1GiB"), (1536, "1536"), (512 << 10, "512KiB")], ids=repr
)
def test_sizes_are_printed_short(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("written", "mode"), [("0600", 0o600), ("600", 0o600), ("0660", 0o660), (0o660, 0o660)], ids=repr
)
def test_modes_are_octal(written: object, mode: int) -> None:
    assert parse_mode(written) == mode
    assert parse_mode(format_mode(mode)) == mode


@pytest.mark.parametrize(
    "written", [600, 660, "0666", "0400", "0700", "0o600", "", "rw", None, True, 384.0, "00600"], ids=repr
)
def test_a_mode_that_lets_strangers_in_or_is_ambiguous_is_refused(written: object) -> None:
    with pytest.raises(BadValue):
        parse_mode(written)


def test_no_refusal_tells_the_value() -> None:
    for parse in (parse_duration, parse_size, parse_mode):
        with pytest.raises(BadValue) as refused:
            parse("hunter2")
        assert "hunter2" not in str(refused.value)
