"""What one upstream request costs: the own transport against httpx.AsyncClient, as ratios, side by side.

    python benchmarks/transport.py [--requests 3000] [--rounds 5] [--kept 1 256]

A stub server runs in a process of its own and answers at once on kept connections. Per number of kept connections each
client first opens that many, then sends requests one after the other; they take turns, A B A B. The figure is the CPU
time of this process per request (it is noise-proof where wall time is not); ratios travel, microseconds do not.
httpx runs without a pool limit, as it would have to here: only the gate queues.
"""

import argparse
import asyncio
import multiprocessing
import platform
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from multiprocessing.connection import Connection

import httpx
import uvloop

from llmgate.errors import GateError
from llmgate.upstreams.answer import Done, Timeouts
from llmgate.upstreams.transport import WireTransport

BODY = b'{"model":"m","messages":[{"role":"user","content":"' + b"x" * 400 + b'"}]}'
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 200\r\n\r\n" + b"y" * 200
HEADERS = [(b"content-type", b"application/json"), (b"accept", b"*/*")]
TIMEOUTS = Timeouts(connect=5, first_byte=600, idle=60)
GATHER = b"/gather"
"""Requests to this target are answered only when as many have come as the body says: they need a connection each."""


class Stub(asyncio.Protocol):
    waiting: list[asyncio.Transport]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data
        head, blank, body = self.data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        if not blank or len(body) < length:
            return
        self.data = b""
        Stub.waiting.append(self.transport)
        if GATHER not in head or len(Stub.waiting) == int(body):
            for transport in Stub.waiting:
                transport.write(ANSWER)
            Stub.waiting = []


def serve(pipe: Connection) -> None:
    async def main() -> None:
        Stub.waiting = []
        server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", 0, backlog=1024)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(main())


Post = Callable[[bytes, bytes], Awaitable[bytes]]


def through_wire(url: str) -> tuple[Post, Callable[[], Awaitable[None]]]:
    transport = WireTransport(url, idle_limit_seconds=600)

    def on_done(done: Done, _: GateError | None) -> None:
        assert done is Done.ENDED

    async def post(target: bytes, body: bytes) -> bytes:
        answer = await transport.open(b"POST", target, HEADERS, body, TIMEOUTS, on_done)
        return await answer.read(1 << 20)

    return post, transport.aclose


def through_httpx(url: str) -> tuple[Post, Callable[[], Awaitable[None]]]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=600)
    client = httpx.AsyncClient(limits=limits, timeout=httpx.Timeout(5, read=600), trust_env=False)

    async def post(target: bytes, body: bytes) -> bytes:
        response = await client.post(url + target.decode(), content=body, headers={"content-type": "application/json"})
        return response.content

    return post, client.aclose


def through_client_on_wire(url: str) -> tuple[Post, Callable[[], Awaitable[None]]]:
    client = httpx.AsyncClient(transport=WireTransport(url, idle_limit_seconds=600), trust_env=False)

    async def post(target: bytes, body: bytes) -> bytes:
        response = await client.post(url + target.decode(), content=body, headers={"content-type": "application/json"})
        return response.content

    return post, client.aclose


WAYS = {"own": through_wire, "AsyncClient on own": through_client_on_wire, "httpx": through_httpx}


async def cost(post: Post, requests: int) -> float:
    """CPU microseconds per request."""
    begun = time.process_time()
    for _ in range(requests):
        assert len(await post(b"/v1/messages", BODY)) == 200
    return (time.process_time() - begun) / requests * 1e6


async def compare(url: str, kept: int, requests: int, rounds: int) -> dict[str, list[float]]:
    ways = {name: way(url) for name, way in WAYS.items()}
    costs: dict[str, list[float]] = {name: [] for name in ways}
    for post, _ in ways.values():
        await asyncio.gather(*[post(GATHER, b"%d" % kept) for _ in range(kept)])
        await cost(post, 20)
    for _ in range(rounds):
        for name, (post, _) in ways.items():
            # httpx with many connections is so much slower that as many requests would take minutes
            costs[name].append(await cost(post, requests if name != "httpx" or kept == 1 else max(20, requests // 50)))
    for _, aclose in ways.values():
        await aclose()
    return costs


def report(kept: int, costs: dict[str, list[float]]) -> None:
    own = costs["own"]
    for name, figures in costs.items():
        ratios = [figure / base for figure, base in zip(figures, own, strict=True)]
        print(
            f"{kept:>5} kept  {name:<20}{statistics.median(figures):>10.1f} us CPU/request"
            f"   {statistics.median(ratios):>7.1f} x own ({min(ratios):.1f} to {max(ratios):.1f})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kept", type=int, nargs="+", default=[1, 256])
    options = parser.parse_args()
    here, there = multiprocessing.Pipe()
    stub = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    stub.start()
    url = f"http://127.0.0.1:{here.recv()}"
    parts = ", ".join(f"{name} {version(name)}" for name in ("httpx", "httptools", "uvloop"))
    print(f"Python {platform.python_version()}, {parts}, {sys.platform} {platform.machine()}")
    try:
        for kept in options.kept:
            report(kept, uvloop.run(compare(url, kept, options.requests, options.rounds)))
    finally:
        stub.terminate()
        stub.join()


if __name__ == "__main__":
    main()
