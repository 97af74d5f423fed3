"""Log lines for systemd's journal, as entries with fields of their own.

The native protocol (systemd.io, "Native Journal Protocol"): one datagram an entry, a line NAME=value for each field;
a value with a line end has its length in front instead. `journalctl -o json`, or `journalctl LLMGATE_UPSTREAM=a`.
"""

import logging
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

SOCKET = Path("/run/systemd/journal/socket")
_LONGEST = 32_768
_PRIORITIES = ((logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
_DEBUG = 7


class JournalHandler(logging.Handler):
    """Never waits: what the journal does not take at once is counted as lost, and told with the next entry."""

    def __init__(self, path: Path = SOCKET) -> None:
        super().__init__()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._path = str(path)
        self.lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self.lost:
                self._send({"MESSAGE": f"llmgate: {self.lost} log lines were lost", "PRIORITY": "4"})
                self.lost = 0
            self._send(self._fields(record))
        except Exception:  # it must not reach whoever logs
            self.lost += 1

    def close(self) -> None:
        self._socket.close()
        super().close()

    def _fields(self, record: logging.LogRecord) -> dict[str, str]:
        fields = {f"LLMGATE_{name.upper()}": value for name, value in getattr(record, "fields", {}).items() if value}
        return {
            "MESSAGE": self.format(record),
            "PRIORITY": str(next((number for level, number in _PRIORITIES if record.levelno >= level), _DEBUG)),
            "SYSLOG_IDENTIFIER": "llmgate",
            "LOGGER": record.name,
            **fields,
        }

    def _send(self, fields: Mapping[str, str]) -> None:
        self._socket.sendto(encode(fields), self._path)


def encode(fields: Mapping[str, str]) -> bytes:
    """The datagram of one entry."""
    parts = []
    for name, text in fields.items():
        value = text.encode("utf-8", "backslashreplace")[:_LONGEST]
        if b"\n" in value:
            parts.append(name.encode() + b"\n" + len(value).to_bytes(8, "little") + value)
        else:
            parts.append(name.encode() + b"=" + value)
    return b"\n".join(parts) + b"\n"


def is_journal(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether this stream leads there: systemd names its device and inode (systemd.exec(5), $JOURNAL_STREAM)."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}" and SOCKET.exists()
