"""The uid of the peer is in the scope of every request on the admin socket, on both kinds of loop."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop
from rawclient import Client

from llmgate.server.admin_peer import Peer
from llmgate.server.admin_protocol import PEER, AdminProtocol
from llmgate.server.asgi import CONNECTION
from llmgate.server.http_server import HttpServer
from llmgate.server.sockets import UnixSocket, bind_listen

ANSWER = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]}


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_the_peer_is_in_the_scope(tmp_path: Path, make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["extensions"])
        await send(ANSWER)
        await send({"type": "http.response.body"})

    async def main() -> None:
        with UnixSocket(tmp_path / "run" / "x.sock", mode=0o600, private=True) as unix:
            tcp = bind_listen("127.0.0.1:0")
            server = HttpServer(app, [unix.bound, tcp], protocol=AdminProtocol)
            port = tcp.getsockname()[1]
            await server.start()
            for where in (str(unix.path), port):
                client = await Client.connect(where)
                for _ in range(2):
                    client.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
                    assert (await client.head()).status == 200
                    client.next_answer()
            await Client.close_all()
            await server.stop()

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(main())
    assert [extensions[PEER] for extensions in seen] == [Peer(os.getuid())] * 2 + [Peer(None)] * 2
    assert all(CONNECTION in extensions for extensions in seen)
