"""Where log lines go and how they look. A line never holds a prompt, a key or a header value."""

import json
import logging
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from llmgate.telemetry.journald import JournalHandler, is_journal
from llmgate.telemetry.lines import LineHandler

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class TextLine(logging.Formatter):
    """`llmgate: what happened`, after the time of day unless whoever takes the line writes one himself (journald)."""

    def __init__(self, *, stamped: bool) -> None:
        super().__init__()
        self._stamped = stamped

    def format(self, record: logging.LogRecord) -> str:
        stamp = _stamp(record) + " " if self._stamped else ""
        return stamp + _message(self, record).replace("\n", "\n    ")


class JsonLine(logging.Formatter):
    """One object a line: at, level, logger, message, which is what a line of text would say, and what it is about:
    upstream, request, session, outcome, where there are such."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"at": _stamp(record), "level": record.levelname.lower(), "logger": record.name}
        about = {name: value for name, value in getattr(record, "fields", {}).items() if value}
        return json.dumps({**line, "message": _message(self, record), **about}, ensure_ascii=False)


def configure(level: str, form: str, *, stream: TextIO | None = None, environ: Mapping[str, str] | None = None) -> None:
    """Sends llmgate's lines from `level` up, and warnings of the libraries, to `stream` (standard error).

    A full disk or a reader that died must not stop the service: see `lines`.
    """
    environ = os.environ if environ is None else environ
    logging.raiseExceptions = False
    stream = sys.stderr if stream is None else stream
    handler: logging.Handler
    if form == "auto" and is_journal(stream, environ):
        handler = JournalHandler()
        handler.setFormatter(TextLine(stamped=False))
    else:
        handler = LineHandler(stream)
        handler.setFormatter(_formatter(form, stream, environ))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    set_level(level)


def set_level(level: str) -> None:
    """From now on lines from this level up are written."""
    logging.getLogger("llmgate").setLevel(LEVELS[level])


def _formatter(form: str, stream: TextIO, environ: Mapping[str, str]) -> logging.Formatter:
    if form == "json" or (form == "auto" and _in_container(environ) and not stream.isatty()):
        return JsonLine()
    return TextLine(stamped="JOURNAL_STREAM" not in environ)


def _in_container(environ: Mapping[str, str]) -> bool:
    return "KUBERNETES_SERVICE_HOST" in environ or "container" in environ or Path("/.dockerenv").exists()


def _message(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """What happened, on one line; the lines of a traceback, if there is one, under it."""
    text = _printable(f"{record.name.partition('.')[0]}: {record.getMessage()}")
    if not record.exc_info:
        return text
    trace = formatter.formatException(record.exc_info).split("\n")
    return "\n".join([text, *map(_printable, trace)])


def _printable(text: str) -> str:
    """A blank for each control character and line end: one line stays one, and no terminal takes it for a command."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _stamp(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
