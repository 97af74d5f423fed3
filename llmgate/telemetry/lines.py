"""Writes log lines so that nothing which happens to the log can happen to the service.

A line is written straight to the file: what a text stream could not write it keeps, and fails on it once more when the
process ends, which would change its exit status. A reader that died, or a disk that is full, costs lines; so does a
reader that stands still, since nobody waits for it. How many is told as soon as a line can be written again.
"""

import logging
import os
import select
import time
from collections.abc import Callable
from typing import TextIO

from llmgate.telemetry.repeats import Repeats

PIECE = select.PIPE_BUF
"""Bytes that a pipe which is ready takes without waiting (POSIX)."""


class LineHandler(logging.StreamHandler[TextIO]):
    """To one file. Warnings, and what libraries say, are held back where they repeat themselves."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._clock = clock
        self._repeats = Repeats()
        self._poll: select.poll | None = None
        self._torn = False
        """The last line was written in part."""
        self.lost = 0
        """Lines that could not be written, since the last that was."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            file = self.stream.fileno()
        except (OSError, ValueError):
            super().emit(record)  # no file, as in a test
            return
        now = self._clock()
        for text in self._repeats.take_over(now):
            self._put(file, self._of_our_own(text))
        if not _may_repeat(record) or self._repeats.admit(record.getMessage(), now):
            self._put(file, record)

    def _put(self, file: int, record: logging.LogRecord) -> None:
        try:
            if self.lost:
                told = self._of_our_own(f"{self.lost} log lines were lost: they could not be written")
                self._write(file, told)
                self.lost = 0
            self._write(file, record)
        except Exception:  # a fault of ours in a line, too, must not reach whoever logs it
            self.lost += 1

    def _write(self, file: int, record: logging.LogRecord) -> None:
        """Raises OSError where not all of it could be written."""
        line = memoryview((self.format(record) + self.terminator).encode("utf-8", "backslashreplace"))
        if self._torn:
            line = memoryview(b"\n" + line)
        while line:
            if not self._is_ready(file):
                raise BlockingIOError
            line = line[os.write(file, line[:PIECE]) :]
            self._torn = bool(line)

    def _is_ready(self, file: int) -> bool:
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(file, select.POLLOUT)
        return bool(self._poll.poll(0))

    @staticmethod
    def _of_our_own(text: str) -> logging.LogRecord:
        return logging.LogRecord("llmgate", logging.WARNING, "", 0, "%s", (text,), None)


def _may_repeat(record: logging.LogRecord) -> bool:
    """Lines of information are of one request each, and somebody may count them."""
    return record.levelno >= logging.WARNING or not record.name.startswith("llmgate")
