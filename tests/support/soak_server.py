"""A simulated server that writes down, line by line, whom it saw: a process of the soak, which may be killed any time.

    python soak_server.py PORT LEDGER_FILE SEED

Lines: "start ID RUNNING" when a request has a slot, RUNNING counting it; "left ID" when its client closed before the
end. It has more slots than the gate may use, so that a broken cap shows, and it fails now and then.
"""

import os
import sys
from pathlib import Path

from llmgate.simulator import Behaviour, Failure, Simulator
from llmgate.simulator.ledger import Ledger
from llmgate.simulator.standalone import run

SLOTS = 16
FAILURES = ("refuse:0.01", "break:0.02", "503:0.01", "429:0.01")


class WrittenLedger(Ledger):
    """Each line is in the file before the request goes on."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def start(self, call_id: str) -> None:
        super().start(call_id)
        self._write(f"start {call_id} {self.running}")

    def abort(self, call_id: str) -> None:
        super().abort(call_id)
        self._write(f"left {call_id}")

    def _write(self, line: str) -> None:
        os.write(self._file, line.encode() + b"\n")


def main(port: str, ledger: str, seed: str) -> None:
    behaviour = Behaviour(
        slots=SLOTS,
        prompt=0.02,
        tokens=12,
        tokens_per_second=80,
        failures=tuple(map(Failure.parse, FAILURES)),
        seed=int(seed),
    )
    server = Simulator(behaviour)
    server.ledger = WrittenLedger(Path(ledger))
    run(server, "127.0.0.1", int(port), lambda: None)


if __name__ == "__main__":
    main(*sys.argv[1:])
