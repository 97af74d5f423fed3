"""Entries for the journal: the datagram of the native protocol, fields, and loss that is told."""

import io
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llmgate.core.caller import Caller
from llmgate.core.events import Queued
from llmgate.telemetry import journald
from llmgate.telemetry.journal import Journal
from llmgate.telemetry.journald import JournalHandler, encode, is_journal
from llmgate.telemetry.log import TextLine, configure


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
        found.bind(str(tmp_path / "journal"))
        found.setblocking(False)
        yield found


@pytest.fixture
def handler(tmp_path: Path) -> Iterator[JournalHandler]:
    made = JournalHandler(tmp_path / "journal")
    made.setFormatter(TextLine(stamped=False))
    yield made
    made.close()


def decode(data: bytes) -> dict[str, str]:
    """As systemd-journald reads it."""
    found = {}
    while data:
        name, sign, rest = data.partition(b"=")
        if b"\n" in name:
            name, rest = data.split(b"\n", 1)
            size = int.from_bytes(rest[:8], "little")
            value, data = rest[8 : 8 + size], rest[8 + size + 1 :]
        else:
            assert sign
            value, _, data = rest.partition(b"\n")
        found[name.decode()] = value.decode()
    return found


@pytest.mark.parametrize("value", ["plain", "two\nlines", "", "a=b\n", "ü"])
def test_every_value_comes_through(value: str) -> None:
    assert decode(encode({"MESSAGE": value, "B": "x"})) == {"MESSAGE": value, "B": "x"}


def test_an_entry_has_its_fields(listening: socket.socket, handler: JournalHandler) -> None:
    logger = logging.Logger("llmgate")  # noqa: LOG001 - one of its own, with no handler but this
    logger.addHandler(handler)
    caller = Caller(id="r1", session="a61e6e40-7")
    Journal(logger).apply(Queued(1, 0.0, "ha-llm", 1, caller, 2, 1, None))
    assert decode(listening.recv(9999)) == {
        "MESSAGE": "llmgate: ha-llm session=a61e6e40 queued (depth 2)",
        "PRIORITY": "6",
        "SYSLOG_IDENTIFIER": "llmgate",
        "LOGGER": "llmgate",
        "LLMGATE_UPSTREAM": "ha-llm",
        "LLMGATE_REQUEST": "r1",
        "LLMGATE_SESSION": "a61e6e40-7",
    }


@pytest.mark.parametrize(
    ("level", "priority"), [(logging.DEBUG, "7"), (logging.WARNING, "4"), (logging.ERROR, "3"), (logging.CRITICAL, "3")]
)
def test_priorities(listening: socket.socket, handler: JournalHandler, level: int, priority: str) -> None:
    handler.emit(logging.LogRecord("llmgate", level, "", 0, "x", (), None))
    assert decode(listening.recv(9999))["PRIORITY"] == priority


def test_what_the_journal_does_not_take_is_told_later(tmp_path: Path, handler: JournalHandler) -> None:
    one = logging.LogRecord("llmgate", logging.INFO, "", 0, "x", (), None)
    handler.emit(one)
    handler.emit(one)
    assert handler.lost == 2
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as late:
        late.bind(str(tmp_path / "journal"))
        handler.emit(one)
        assert decode(late.recv(9999))["MESSAGE"] == "llmgate: 2 log lines were lost"
        assert decode(late.recv(9999))["MESSAGE"] == "llmgate: x"


def test_it_is_used_only_where_the_stream_leads_to_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journald, "SOCKET", tmp_path)
    with (tmp_path / "log").open("w") as stream:
        found = os.fstat(stream.fileno())
        here = {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}
        assert is_journal(stream, here)
        assert not is_journal(stream, {"JOURNAL_STREAM": "1:2"})
        assert not is_journal(stream, {})
        assert not is_journal(io.StringIO(), here)
        root = logging.getLogger()
        before: Any = root.handlers, root.level, logging.raiseExceptions
        try:
            configure("info", "auto", stream=stream, environ=here)
            assert isinstance(root.handlers[0], JournalHandler)
            root.handlers[0].close()
            configure("info", "text", stream=stream, environ=here)
            assert not isinstance(root.handlers[0], JournalHandler)
        finally:
            root.handlers, level, logging.raiseExceptions = before
            root.setLevel(level)
