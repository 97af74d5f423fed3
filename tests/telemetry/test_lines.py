"""Whatever happens to the log's reader or its disk: nobody waits, nothing fails, and the loss is told once."""

import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from llmgate.telemetry.lines import LineHandler
from llmgate.telemetry.repeats import MOST_IN_WINDOW, WINDOW_SECONDS


def record(text: str, level: int = logging.INFO, name: str = "llmgate") -> logging.LogRecord:
    return logging.LogRecord(name, level, "", 0, "%s", (text,), None)


@pytest.fixture
def pipe() -> Iterator[tuple[int, TextIO]]:
    """Its reader's end, and its writer."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with os.fdopen(writing, "w") as stream:
        yield reading, stream
    os.close(reading)


def read(file: int) -> bytes:
    found = b""
    while True:
        try:
            data = os.read(file, 65536)
        except BlockingIOError:
            return found
        if not data:
            return found
        found += data


def test_a_line_goes_out_at_once(pipe: tuple[int, TextIO]) -> None:
    LineHandler(pipe[1]).emit(record("hello"))
    assert read(pipe[0]) == b"hello\n"


def test_a_reader_that_stands_still_is_not_waited_for_and_the_loss_is_told(pipe: tuple[int, TextIO]) -> None:
    """F81"""
    reading, stream = pipe
    fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, 4096 * 2)
    handler = LineHandler(stream)
    for number in range(100):
        handler.emit(record(f"{number:02} " + "x" * 500))
    assert handler.lost > 50
    lost = handler.lost
    written = read(reading).splitlines()
    assert len(written) == 100 - lost
    handler.emit(record("again"))
    handler.emit(record("and again"))
    assert read(reading).decode().splitlines() == [
        f"{lost} log lines were lost: they could not be written",
        "again",
        "and again",
    ]


def test_a_reader_that_died(pipe: tuple[int, TextIO]) -> None:
    """F81"""
    dead, writing = os.pipe()
    os.close(dead)
    with os.fdopen(writing, "w") as stream:
        handler = LineHandler(stream)
        for _ in range(3):
            handler.emit(record("into the void"))
        assert handler.lost == 3


def test_a_full_disk() -> None:
    """F81"""
    with Path("/dev/full").open("w") as stream:
        handler = LineHandler(stream)
        handler.emit(record("lost"))
        assert handler.lost == 1


def test_a_line_longer_than_a_pipe_takes_at_once_is_whole(pipe: tuple[int, TextIO]) -> None:
    LineHandler(pipe[1]).emit(record("x" * 20_000))
    assert read(pipe[0]) == b"x" * 20_000 + b"\n"


def test_what_follows_half_a_line_begins_on_one_of_its_own(pipe: tuple[int, TextIO]) -> None:
    reading, stream = pipe
    fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, 4096 * 2)
    handler = LineHandler(stream)
    handler.emit(record("x" * 20_000))
    assert handler.lost == 1
    half = read(reading)
    assert half == b"x" * len(half)
    handler.emit(record("next"))
    assert read(reading) == b"\n1 log lines were lost: they could not be written\nnext\n"


def test_warnings_in_a_storm_are_held_back_and_lines_of_information_never(pipe: tuple[int, TextIO]) -> None:
    now = 0.0
    handler = LineHandler(pipe[1], lambda: now)
    for number in range(50):
        handler.emit(record(f"accept failed {number}", logging.ERROR, "asyncio"))
        handler.emit(record(f"a session={number} queued"))
        handler.emit(record(f"a failed after {number}ms", logging.WARNING))
    lines = read(pipe[0]).decode().splitlines()
    assert sum("queued" in line for line in lines) == 50
    assert sum("accept" in line for line in lines) == MOST_IN_WINDOW
    assert sum("failed after" in line for line in lines) == MOST_IN_WINDOW
    now = WINDOW_SECONDS
    handler.emit(record("later"))
    assert read(pipe[0]).decode().splitlines() == [
        "40 more lines like this one were not written: accept failed 0",
        "40 more lines like this one were not written: a failed after 0ms",
        "later",
    ]


def test_a_fault_in_a_line_reaches_nobody(pipe: tuple[int, TextIO]) -> None:
    handler = LineHandler(pipe[1])
    handler.emit(logging.LogRecord("llmgate", logging.INFO, "", 0, "%d", ("no number",), None))
    assert handler.lost == 1
