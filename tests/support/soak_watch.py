"""Watches a daemon during a soak: every event of its feed, and what the kernel counts of its process."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from soak_story import Figures, Story

_LARGEST = 64 << 20


class FeedReader:
    """Follows `GET /v1/events` and notes each event once; one that is cut comes back and reads on from the snapshot."""

    def __init__(self, socket: Path, story: Story) -> None:
        self._socket = socket
        self._story = story
        self._newest = 0
        self.connections = 0

    async def follow(self) -> None:
        """Until it is cancelled."""
        while True:
            async for item in self._items():
                self._note(item)
            await asyncio.sleep(0.05)

    async def _items(self) -> AsyncIterator[dict[str, Any]]:
        reader, writer = await asyncio.open_unix_connection(self._socket, limit=_LARGEST)
        self.connections += 1
        writer.write(b"GET /v1/events HTTP/1.1\r\nhost: admin\r\n\r\n")
        try:
            await reader.readuntil(b"\r\n\r\n")
            kept = b""
            while size := int(await reader.readuntil(b"\r\n"), 16):
                kept += (await reader.readexactly(size + 2))[:-2]
                *parts, kept = kept.split(b"\n\n")
                for part in parts:
                    _, found, data = part.partition(b"data: ")
                    if found:
                        yield json.loads(data)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    def _note(self, item: dict[str, Any]) -> None:
        if item["type"] == "snapshot" and not self._newest:
            self._newest = item["number"]
        events = item.get("events", []) if item["type"] == "snapshot" else [item["event"]] if "event" in item else []
        for event in events:
            if event and event["number"] > self._newest:
                self._story.missed_events += event["number"] - self._newest - 1
                self._newest = event["number"]
                self._story.note_event(event)


def figures_of(pid: int, began: float) -> Figures:
    """What the kernel counts now."""
    folder = Path("/proc") / str(pid)
    status = dict(line.split(":\t", 1) for line in (folder / "status").read_text().splitlines() if ":\t" in line)
    memory = int(status["VmRSS"].split()[0]) * 1024
    files = len(list((folder / "fd").iterdir()))
    return Figures(time.monotonic() - began, memory, files, int(status["Threads"]))


def takes_hangup(pid: int) -> bool:
    """Whether the process handles SIGHUP; it would end by it otherwise."""
    status = (Path("/proc") / str(pid) / "status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) & 1)
