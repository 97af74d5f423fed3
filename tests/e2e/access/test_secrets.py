"""F65: secrets go in wherever they can, everything fails that can, at debug level; none comes out anywhere.

Every other test of a whole daemon has canaries about it as well: see GateProcess.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from canaries import EVERYWHERE, SLICE, make_canaries
from canaries import leaks as leaks_of
from gateprocess import CHAT, MESSAGES, ROOT, GateProcess, request_body
from hands import Hands, Turn
from keysfile import keys_file
from puppet import refusing_port
from rawclient import Client, post

PLACES = (
    "client key",
    "wrong key",
    "wrong bearer",
    "cookie",
    "proxy authorization",
    "other header",
    "query",
    "body",
    "bad body",
    "upstream key of a file",
    "upstream key of a variable",
    "upstream header",
    "upstream authorization header",
    "userinfo of a url",
)

BROKEN = """\
import llmgate.server.exchange as exchange

way_of = exchange.way_of


def broken_way_of(surface, path, request, *rest):
    if request.model == "broken":
        raise ValueError("on purpose")
    return way_of(surface, path, request, *rest)


exchange.way_of = broken_way_of
"""
"""Makes requests for one model fail inside llmgate, for a traceback in its log."""


CANARIES = make_canaries(1, PLACES)


def leaks(text: str) -> dict[str, str]:
    return leaks_of(text, CANARIES)


def test_the_search_finds_a_piece_in_any_case() -> None:
    for start in range(len(CANARIES["query"]) - SLICE + 1):
        piece = CANARIES["query"][start : start + SLICE]
        assert set(leaks(f"a log line with {piece.upper()} in it")) == {"query"}
        assert leaks(f"a log line with {piece[1:]} in it") == {}


async def test_the_search_of_each_daemon_finds_what_its_log_and_its_views_show(folder: Path) -> None:
    """A session is shown, and so are the first letters of it in the log."""
    upstream = {"url": "http://127.0.0.1:9", "models": ["m"], "max_concurrent": 1}
    with GateProcess(folder, {"upstreams": {"a": upstream}}) as gate:
        await ask_as(gate, EVERYWHERE["cookie"])
        with pytest.raises(AssertionError, match="cookie"):
            gate.stop()
        assert gate.exit_status is None
        with gate.log_path.open("a") as log:
            log.write(EVERYWHERE["prompt"][3:-3])
        with pytest.raises(AssertionError, match="prompt"):
            gate.assert_no_secret()
        gate.end()


async def ask_as(gate: GateProcess, session: str) -> None:
    """It waits until a server is there, and leaves."""
    client = await gate.ask("m", headers={"llmgate-session": session})
    await gate.wait_waiting("a", 1)
    client.reset()
    await gate.wait(gate.is_idle)


def settings_for(folder: Path, hands: Hands, dead_port: int) -> dict[str, object]:
    file = folder / "upstream.key"
    file.write_text(CANARIES["upstream key of a file"])
    file.chmod(0o600)
    headers = {"x-tenant": CANARIES["upstream header"]}
    authorized = {"authorization": f"Bearer {CANARIES['upstream authorization header']}", "x-a": "b"}
    common = {"max_concurrent": 1, "on_down": "fail", "release_timeout": "5ms", "passthrough": True}
    dead = f"http://127.0.0.1:{dead_port}"
    upstreams = {
        "live": {"url": hands.url, "models": ["live", "broken"], "api_key_file": str(file), "headers": headers},
        "named": {"url": hands.url, "models": ["named"], "headers": authorized, "forward_auth": True},
        "stock": {"url": hands.url, "models": ["stock"], "transport": "httpx", "api_key_env": "CANARY_KEY"},
        "dead": {"url": dead, "models": ["dead"], "api_key_env": "CANARY_KEY", "headers": headers},
        "stockdead": {"url": dead, "models": ["stockdead"], "transport": "httpx", "api_key_file": str(file)},
    }
    return {
        "server": {"keys_file": keys_file(folder, laptop={"key": CANARIES["client key"]}), "max_body": "64KiB"},
        "log": {"level": "debug", "format": "text"},
        "upstreams": {name: {**common, **fields} for name, fields in upstreams.items()},
    }


@pytest.fixture
async def gate(folder: Path, hands: Hands, unused_port: int) -> AsyncIterator[GateProcess]:
    (folder / "sitecustomize.py").write_text(BROKEN)
    environ = {"PYTHONPATH": f"{folder}:{ROOT}", "CANARY_KEY": CANARIES["upstream key of a variable"]}
    gate = GateProcess(folder, settings_for(folder, hands, unused_port), environ=environ)
    gate.start()
    yield gate
    gate.end()


@pytest.fixture
def unused_port() -> Iterator[int]:
    """Nobody listens there."""
    with refusing_port() as port:
        yield port


HEADERS = {
    "x-api-key": CANARIES["client key"],
    "cookie": f"session={CANARIES['cookie']}",
    "proxy-authorization": f"Bearer {CANARIES['proxy authorization']}",
    "x-my-secret": CANARIES["other header"],
}
QUERY = f"?beta=true&token={CANARIES['query']}"


class Scene:
    """What clients got, whole."""

    def __init__(self, gate: GateProcess) -> None:
        self.gate = gate
        self.told = ""

    async def ask(self, path: str, body: bytes, headers: dict[str, str]) -> Client:
        client = await Client.connect(self.gate.port)
        client.send(post(path, body, headers))
        return client

    async def hear(self, client: Client) -> int:
        head = await client.head()
        self.told += f"{head.status} {head.headers}\n" + (await client.body()).decode()
        return head.status

    async def get(self, path: str, body: bytes, headers: dict[str, str] | None = None) -> int:
        return await self.hear(await self.ask(path, body, HEADERS if headers is None else headers))


def body_for(model: str, **fields: object) -> bytes:
    return request_body(model, system=CANARIES["body"], metadata={"secret": CANARIES["body"]}, **fields)  # type: ignore[arg-type]


async def fail_in_every_way(scene: Scene, hands: Hands) -> list[int]:
    """The statuses, in order."""
    wrong, bearer = CANARIES["wrong key"], f"Bearer {CANARIES['wrong bearer']}"
    bad = CANARIES["bad body"]
    found = [
        await scene.get(MESSAGES + QUERY, body_for("live"), {**HEADERS, "x-api-key": wrong}),
        await scene.get(CHAT + QUERY, body_for("live"), {"authorization": bearer}),
        await scene.get(MESSAGES + QUERY, body_for("live"), {**HEADERS, "authorization": bearer}),
        await scene.get(MESSAGES + QUERY, body_for("nobody's")),
        await scene.get(MESSAGES, b'{"model":"live","x":' + bad.encode()),
        await scene.get(CHAT, b'{"model":"%b","model":"x"}' % bad.encode()),
        await scene.get("/api/chat", b'["%b"]' % bad.encode()),
        await scene.get(MESSAGES, b'{"model":"live","x":"' + bad.encode() * 5000 + b'"}'),
        await scene.get("/nothing" + QUERY, body_for("live")),
        await scene.get(MESSAGES + QUERY, body_for("broken")),
        await scene.get(MESSAGES, body_for("live"), {**HEADERS, "llmgate-max-wait": CANARIES["other header"]}),
    ]
    for model in ("dead", "stockdead"):
        found += [await scene.get(path + QUERY, body_for(model)) for path in (MESSAGES, CHAT)]
        found.append(await scene.get(f"/upstream/{model}/x" + QUERY, body_for(model)))
    for model in ("live", "named", "stock"):
        for path in (MESSAGES, f"/upstream/{model}/infill"):
            client = await scene.ask(path + QUERY, body_for(model, stream=False), HEADERS)
            await quote_keys(await hands.turn())
            found.append(await scene.hear(client))
        client = await Client.connect(scene.gate.port)
        head = f"GET /upstream/{model}/lora-adapters HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: {HEADERS['x-api-key']}"
        client.send(head.encode() + b"\r\n\r\n")
        await quote_keys(await hands.turn())
        found.append(await scene.hear(client))
        client = await scene.ask(MESSAGES + QUERY, body_for(model), HEADERS)
        turn = await hands.turn()
        await turn.begin()
        turn.connection.reset()
        found.append(await scene.hear(client))
    return found


async def quote_keys(turn: Turn) -> None:
    """Says what it was sent, in the headers of what is passed on as well."""
    said = b" and ".join(turn.request.header(name) or b"" for name in (b"authorization", b"x-api-key", b"x-tenant"))
    told = b'{"error":{"message":"Incorrect API key provided: %b"}}' % said
    headers = b"" if turn.path.startswith("/v1/") else b"x-request-id: %b\r\nlocation: /%b\r\n" % (said, said)
    await turn.answer(401, told, headers)


def run(gate: GateProcess, *arguments: str) -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("LLMGATE_")}
    command = [sys.executable, "-m", "llmgate", "--socket", str(gate.socket), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=100, env={**environ, "PYTHONPATH": str(ROOT)}
    )
    return done.stdout + done.stderr


def look(gate: GateProcess) -> str:
    """All that an operator can see."""
    told = [run(gate, "--json", "status"), run(gate, "--json", "ps", "-a"), run(gate, "ps", "-a"), run(gate, "status")]
    told.append(run(gate, "top", "--once"))
    paths = ("/v1/status", "/v1/requests?state=done", "/v1/config", "/metrics")
    told += [curl(gate, "--max-time", "30", f"http://a{path}") for path in paths]
    told.append(curl(gate, "--max-time", "1", "http://a/v1/events"))
    return "\n".join(told)


def curl(gate: GateProcess, *arguments: str) -> str:
    command = ["curl", "-s", "-N", "--unix-socket", str(gate.socket), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100).stdout


async def test_f65_no_secret_comes_out(gate: GateProcess, hands: Hands) -> None:
    scene = Scene(gate)
    statuses = await fail_in_every_way(scene, hands)
    assert statuses[:11] == [401, 401, 401, 404, 400, 400, 400, 413, 404, 500, 400]
    assert statuses[11:17] == [503] * 6
    assert statuses[17:] == [401, 401, 401, 200] * 3
    client = await scene.ask(MESSAGES + QUERY, body_for("live"), HEADERS)
    turn = await hands.turn()
    waiting = await scene.ask(MESSAGES + QUERY, body_for("live"), HEADERS)
    await gate.wait_waiting("live", 1)
    seen = await asyncio.to_thread(look, gate)
    await turn.complete()
    await scene.hear(client)
    await (await hands.turn()).complete()
    await scene.hear(waiting)
    assert "Traceback" in gate.log
    assert "ValueError: on purpose" in gate.log
    assert '"key": "laptop"' in seen or '"key":"laptop"' in seen
    assert "event" in seen
    for name, text in {"log": gate.log, "answers": scene.told, "operator": seen}.items():
        assert leaks(text) == {}, name
    gate.signal()
    assert await gate.wait_exit() == 0
    assert leaks(gate.log) == {}


async def test_f65_nobody_but_the_upstream_gets_its_key(gate: GateProcess, hands: Hands) -> None:
    """And it gets nothing of the client's but the body."""
    scene = Scene(gate)
    for model, own in (("live", "upstream key of a file"), ("named", "upstream authorization header")):
        client = await scene.ask(MESSAGES, body_for(model), HEADERS)
        turn = await hands.turn()
        assert set(leaks(turn.request.head.decode())) - {"upstream header"} == {own}
        await turn.complete()
        await scene.hear(client)


def test_f65_settings_that_are_refused_are_not_shown(folder: Path) -> None:
    file = folder / "llmgate.toml"
    secret, key = CANARIES["userinfo of a url"], CANARIES["upstream key of a variable"]
    for line in (
        f'url = "http://user:{secret}@127.0.0.1:1"',
        f'url = "http://127.0.0.1:1/?key={secret}"',
        f'url = "http://127.0.0.1:1"\napi_key_env = "{secret}-"',
        f'url = "http://127.0.0.1:1"\nheaders = {{ "x-a" = "{secret}\\n" }}',
        f'url = "http://127.0.0.1:1"\nheaders = "{secret}"',
        f'url = "http://127.0.0.1:1"\napi_key = "{secret}"',
        f'url = "http://127.0.0.1:1"\nheaders = {{ "x-a" = "{secret}" ',
    ):
        file.write_text(f"[upstreams.a]\nmax_concurrent = 1\n{line}\n")
        command = [sys.executable, "-m", "llmgate", "--config", str(file), "serve", "--check"]
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "CANARY_KEY": key}
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100, env=environ)
        assert done.returncode == os.EX_CONFIG, line
        assert leaks(done.stdout + done.stderr) == {}
