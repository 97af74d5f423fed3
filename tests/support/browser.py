"""A real browser without a window, and a small web site for it: the page reports what its script found."""

import asyncio
import http.server
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from puppet import LIVENESS_SECONDS

REPORT_SECONDS = 3 * LIVENESS_SECONDS
"""A browser takes seconds to start on a machine that does nothing else."""


def find_browser() -> str | None:
    """Debian's chromium, or Chrome."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Site:
    """One page at every path of http://localhost:PORT/. `await report()` is what it posts to /report."""

    def __init__(self) -> None:
        self.page = b""
        self._reports: asyncio.Queue[Any] = asyncio.Queue()
        loop, site = asyncio.get_running_loop(), self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(site.page)

            def do_POST(self) -> None:
                report = json.loads(self.rfile.read(int(self.headers["content-length"])))
                loop.call_soon_threadsafe(site._reports.put_nowait, report)
                self._answer(b"")

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/html; charset=utf-8")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Not to the test's output."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.origin = f"http://localhost:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    async def report(self) -> Any:
        async with asyncio.timeout(REPORT_SECONDS):
            return await self._reports.get()


@contextmanager
def browsing(browser: str, profile: Path, url: str) -> Iterator[None]:
    """The browser has that page open while inside."""
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    command = [browser, *flags, f"--user-data-dir={profile}", "--remote-debugging-port=0", url]
    environ = {**os.environ, "HOME": str(profile)}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, env=environ, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # its own group: the browser and its children
        process.wait()
