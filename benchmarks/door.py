"""What a client's connection and its request cost the gate: `python benchmarks/door.py [TREE...]`, in microseconds.

    python benchmarks/door.py [--requests 2000] [--rounds 5] [TREE...]

A gate is started from each source tree (this one if none is named), with a server behind it that answers at once. They
take turns, A B A B, so that two versions can be compared on one machine. The figure is the processor time of the gate's
process for one request, the best and the median of the rounds:

    health, kept    GET /healthz, all on one connection
    health, new     each on a connection of its own
    health, burst   the same, 64 connections at once
    chat, kept      POST /v1/chat/completions, all on one connection
    chat, new       each on a connection of its own

Linux only: the processor time of another process is read from its clock.
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path

import uvloop

HERE = Path(__file__).resolve().parent.parent
BURST = 64
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODY = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"' + b"x" * 400 + b'"}]}'
CHAT = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n" % len(BODY)
) + BODY
CHUNK = b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'
STREAM = CHUNK + b"data: [DONE]\n\n"
ANSWER = (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(STREAM)) + STREAM
SETTINGS = """
[server]
listen = ["127.0.0.1:{port}"]
[admin]
socket = "{folder}/run/admin.sock"
[log]
level = "error"
[upstreams.a]
url = "http://127.0.0.1:{server}"
kind = "openai"
models = ["m"]
max_concurrent = 8
"""


class Server(asyncio.Protocol):
    """Answers every request that is here to its end."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data
        head, blank, body = self.data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        if blank and len(body) >= length:
            self.data = b""
            self.transport.write(ANSWER)


def serve(pipe: Connection) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(main())


class Gate:
    """A running gate of one source tree."""

    def __init__(self, tree: Path, folder: Path, server: int) -> None:
        self.tree = tree
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        settings = folder / "llmgate.toml"
        settings.write_text(SETTINGS.format(port=self.port, folder=folder, server=server))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "llmgate", "--config", str(settings), "serve"],
            env={**os.environ, "PYTHONPATH": str(tree)},
            cwd=folder,
        )

    def wait_up(self) -> None:
        while True:
            with contextlib.suppress(ConnectionRefusedError), self.connect() as client:
                exchange(client, HEALTH)
                return
            assert self.process.poll() is None, "the gate did not start"
            time.sleep(0.05)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port))

    def processor_seconds(self) -> float:
        return time.clock_gettime((~self.process.pid << 3) | 2)  # the clock of all its threads: see clock_getcpuclockid

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


def exchange(client: socket.socket, request: bytes) -> None:
    client.sendall(request)
    read_answer(client)


def read_answer(client: socket.socket) -> None:
    answer = b""
    while not (answer.endswith(b"0\r\n\r\n") or b'{"status":"ok"}' in answer):
        piece = client.recv(65536)
        assert piece, answer
        answer += piece
    assert answer.startswith(b"HTTP/1.1 200"), answer


def kept(request: bytes) -> Callable[[Gate, int], None]:
    def run(gate: Gate, requests: int) -> None:
        with gate.connect() as client:
            for _ in range(requests):
                exchange(client, request)

    return run


def new(request: bytes) -> Callable[[Gate, int], None]:
    def run(gate: Gate, requests: int) -> None:
        for _ in range(requests):
            with gate.connect() as client:
                exchange(client, request)

    return run


def burst(gate: Gate, requests: int) -> None:
    for _ in range(max(1, requests // BURST)):
        with ExitStack() as stack:
            clients = [stack.enter_context(gate.connect()) for _ in range(BURST)]
            for client in clients:
                client.sendall(HEALTH)
            for client in clients:
                read_answer(client)


KINDS: dict[str, Callable[[Gate, int], None]] = {
    "health, kept": kept(HEALTH),
    "health, new": new(HEALTH),
    "health, burst": burst,
    "chat, kept": kept(CHAT),
    "chat, new": new(CHAT),
}


def measure(gates: list[Gate], run: Callable[[Gate, int], None], requests: int, rounds: int) -> list[list[float]]:
    """Microseconds by gate and round."""
    costs: list[list[float]] = [[] for _ in gates]
    counted = requests if run is not burst else max(1, requests // BURST) * BURST
    for gate in gates:
        run(gate, BURST)
    for _ in range(rounds):
        for gate, found in zip(gates, costs, strict=True):
            began = gate.processor_seconds()
            run(gate, requests)
            found.append((gate.processor_seconds() - began) / counted * 1e6)
    return costs


@contextlib.contextmanager
def running(trees: list[Path]) -> Iterator[list[Gate]]:
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    port = ours.recv()
    gates: list[Gate] = []
    with ExitStack() as stack:
        stack.callback(server.terminate)
        for tree in trees:
            gate = Gate(tree, Path(stack.enter_context(tempfile.TemporaryDirectory())), port)
            stack.callback(gate.end)
            gate.wait_up()
            gates.append(gate)
        yield gates


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("trees", nargs="*", type=Path, default=[HERE], metavar="TREE")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    trees = [tree.resolve() for tree in asked.trees]
    with running(trees) as gates:
        print(f"{'':14}" + "".join(f"  {str(tree)[-26:]:>26}" for tree in trees))
        for name, run in KINDS.items():
            costs = measure(gates, run, asked.requests, asked.rounds)
            print(
                f"{name:14}"
                + "".join(f"  {min(found):10.1f} us {statistics.median(found):10.1f} us" for found in costs),
                flush=True,
            )


if __name__ == "__main__":
    main()
