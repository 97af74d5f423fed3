"""The keys of clients on a real daemon: who is let in, what the others are told, whose name is shown."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from gateprocess import CHAT, MESSAGES, ROOT, GateProcess, request_body
from hands import Hands
from keysfile import keys_file
from rawclient import Client, post

from tests.e2e.access.conftest import LAPTOP, OFF, SLOW, TEAM

WRONG = [
    {},
    {"x-api-key": "wrong"},
    {"x-api-key": OFF},
    {"x-api-key": LAPTOP[:-1]},
    {"authorization": f"Basic {LAPTOP}"},
    {"authorization": f"Bearer {TEAM}", "x-api-key": LAPTOP},
]


async def answer_bytes(client: Client, count: int) -> list[bytes]:
    """So many answers of one connection, each whole: their bodies have a length."""
    found = []
    for _ in range(count):
        client.next_answer()
        head = await client.head()
        found.append(f"{head.status} {sorted(head.headers.items())}\n".encode() + await client.body())
    return found


@pytest.mark.parametrize("tries", [600, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
async def test_f66_ten_thousand_refusals_are_the_same_to_the_byte(keyed: GateProcess, hands: Hands, tries: int) -> None:
    for path in (MESSAGES, CHAT):
        client = await Client.connect(keyed.port)
        told = set()
        for number in range(tries // 2):
            headers = WRONG[number % len(WRONG)] if number % 7 else {"x-api-key": f"guess-{number}"}
            client.send(post(path, request_body("m"), headers))
            told |= set(await answer_bytes(client, 1))
        (answer,) = told
        assert answer.startswith(b"401 ")
        assert b"request_id" not in answer or b'"request_id":""' in answer
    await hands.wait(lambda: hands.connections == [])
    refused = [line for line in keyed.new_log if "UNAUTHORIZED" in line]
    assert len(refused) <= 3
    assert keyed.is_idle()


async def test_f66_a_key_of_another_tenant_opens_only_what_is_its_own(keyed: GateProcess, hands: Hands) -> None:
    client = await keyed.ask("other", headers={"x-api-key": TEAM})
    head = await client.head()
    assert (head.status, head.headers["llmgate-code"]) == (403, "MODEL_NOT_ALLOWED")
    await client.body()
    assert [model["id"] for model in keyed.get("/v1/models", {"x-api-key": TEAM})[1]["data"]] == ["m"]
    assert [model["id"] for model in keyed.get("/v1/models", {"x-api-key": LAPTOP})[1]["data"]] == ["m", "other"]
    await hands.wait(lambda: hands.connections == [])


async def test_a_key_is_known_by_its_name_everywhere(keyed: GateProcess, hands: Hands) -> None:
    first = await keyed.ask("m", headers={"authorization": f"Bearer {LAPTOP}"})
    turn = await hands.turn()
    second = await keyed.ask("m", headers={"x-api-key": TEAM, "llmgate-session": "abcdefghij"})
    await keyed.wait_waiting("up", 1)
    assert {view["state"]: view["key"] for view in keyed.requests()} == {"running": "laptop", "waiting": "team"}
    await turn.complete()
    await first.body()
    await (await hands.turn()).complete()
    await second.body()
    await keyed.wait(lambda: any("dispatched" in line for line in keyed.new_log))
    assert "llmgate: up session=abcdefgh key=team queued (depth 1)" in keyed.new_log
    heads = b"".join(request.head for request in hands.requests)
    assert not any(key.encode() in heads for key in (LAPTOP, TEAM))


async def test_a_keys_own_limit_is_a_429_and_no_full_queue(keyed: GateProcess, hands: Hands) -> None:
    first = await keyed.ask("m", headers={"x-api-key": SLOW})
    turn = await hands.turn()
    full_before = keyed.upstream("up")["queue_full"]
    second = await keyed.ask("m", headers={"x-api-key": SLOW})
    head = await second.head()
    assert (head.status, head.headers["llmgate-code"], head.headers["llmgate-limit"]) == (429, "KEY_LIMIT", "1")
    assert 1 <= int(head.headers["retry-after"]) <= 10
    await second.body()
    assert keyed.upstream("up")["queue_full"] == full_before
    assert keyed.upstream("up")["waiting"] == 0
    await turn.complete()
    await first.body()
    await keyed.wait(keyed.is_idle)
    third = await keyed.ask("m", headers={"x-api-key": SLOW})
    await (await hands.turn()).complete()
    assert (await third.head()).status == 200
    await third.body()


@pytest.mark.parametrize(
    "headers", [{"expect": "100-continue"}, {"expect": "100-continue", "content-length": "9999999"}]
)
async def test_f67_who_has_no_key_is_not_told_to_go_on(
    keyed: GateProcess, hands: Hands, headers: dict[str, str]
) -> None:
    client = await Client.connect(keyed.port)
    client.send(post(MESSAGES, request_body("m"), headers).partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
    head = await client.head()
    assert (head.status, head.headers["connection"]) == (401, "close")
    await client.body()
    await hands.wait(lambda: hands.connections == [])


def serve(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("LLMGATE_")}
    return subprocess.run(
        [sys.executable, "-m", "llmgate", "serve", "--admin-socket", str(folder / "a.sock"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        cwd=folder,
        env={**environ, "PYTHONPATH": str(ROOT), "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)},
    )


def test_beyond_loopback_it_starts_only_with_keys_or_where_that_is_meant(folder: Path) -> None:
    upstream = ("--upstream", "a=http://127.0.0.1:9,max_concurrent=1")
    refused = serve(folder, "--listen", "0.0.0.0:0", *upstream)
    assert refused.returncode == os.EX_CONFIG
    for word in ("keys_file", "allow_open", "127.0.0.1"):
        assert word in refused.stderr
    for listen in ("127.0.0.1:0", f"unix:{folder}/front.sock"):
        assert serve(folder, "--check", "--listen", listen, *upstream).returncode == 0
    settings = folder / "llmgate" / "llmgate.toml"
    settings.parent.mkdir()
    keys = keys_file(folder, a={"key": LAPTOP})
    settings.write_text(f'[server]\nkeys_file = "{keys}"\n')
    checked = serve(folder, "--check", "--listen", "0.0.0.0:0", *upstream)
    assert (checked.returncode, checked.stderr) == (0, "")
    Path(keys).chmod(0o644)
    assert "chmod o-r" in serve(folder, "--check", *upstream).stderr
    Path(keys).write_text(f'[keys.a]\nkey = "{LAPTOP}')
    broken = serve(folder, "--check", *upstream)
    assert broken.returncode == os.EX_CONFIG
    assert f"{settings}:2: server.keys_file is not TOML" in broken.stderr
    assert LAPTOP[:8] not in broken.stderr


def curl(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["curl", "-s", "-w", "%{http_code}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)


async def test_the_models_list_and_health_over_a_unix_socket_ask_the_same(folder: Path, hands: Hands) -> None:
    """A Unix socket needs no allow_open, takes any Host, and asks for the key like any other."""
    path = folder / "front.sock"
    upstreams = {"a": {"url": hands.url, "models": ["m"], "max_concurrent": 1}}
    keys = keys_file(folder, a={"key": LAPTOP})
    settings = {"server": {"listen": ["127.0.0.1:0", f"unix:{path}"], "keys_file": keys}, "upstreams": upstreams}
    with GateProcess(folder, settings):
        for extra, status in (("", "401"), (f"x-api-key: {LAPTOP}", "200")):
            done = await asyncio.to_thread(curl, "-H", extra, "--unix-socket", str(path), "http://any.name/v1/models")
            assert done.stdout.endswith(status)
        assert json.loads(done.stdout.removesuffix("200"))["data"][0]["id"] == "m"


def counted(gate: GateProcess, code: str) -> float:
    told = subprocess.run(
        ["curl", "-s", "--unix-socket", gate.socket, "http://x/metrics"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(rf'^llmgate_refused_total{{code="{code}"}} (\S+)$', told, re.MULTILINE)
    return float(found[1]) if found else 0.0


async def test_a_flood_of_every_key_is_counted_and_told_once_for_each_key(keyed: GateProcess, hands: Hands) -> None:
    first = await keyed.ask("m", headers={"x-api-key": SLOW})
    turn = await hands.turn()
    reader, writer = await asyncio.open_unix_connection(str(keyed.socket), limit=1 << 24)
    writer.write(b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n")
    async with asyncio.timeout(30):
        await reader.readuntil(b'"type":"snapshot"')
        await reader.readuntil(b"\n\n")
    before = counted(keyed, "MODEL_NOT_ALLOWED")
    for _ in range(30):
        for key, model, status in ((SLOW, "m", 429), (TEAM, "other", 403), ("wrong", "m", 401)):
            client = await keyed.ask(model, headers={"x-api-key": key}, stream=False)
            assert (await client.head()).status == status
            await client.body()
    assert counted(keyed, "MODEL_NOT_ALLOWED") == before + 30
    await turn.complete()
    await first.body()
    seen = b""
    async with asyncio.timeout(30):
        while b'"kind":"released"' not in seen:
            seen += await reader.readuntil(b"\n\n")
    writer.close()
    assert seen.count(b"(KEY_LIMIT)") == seen.count(
        b'"kind":"caller_refused","upstream":"","text":"refused a request with key=slow'
    )
    for code in (b"(KEY_LIMIT)", b"(MODEL_NOT_ALLOWED)", b"(UNAUTHORIZED)"):
        assert seen.count(code) <= 2, "one a minute, and a minute may end meanwhile"
    lines = [line for line in keyed.new_log if "KEY_LIMIT" in line]
    assert any("key=slow" in line for line in lines) or seen.count(b"(KEY_LIMIT)") == 0


async def test_a_key_that_is_taken_away_takes_those_who_wait_with_it(folder: Path) -> None:
    async with Hands() as hands:
        keys = {"laptop": {"key": LAPTOP}, "team": {"key": TEAM}}
        upstream = {"url": hands.url, "models": ["m"], "max_concurrent": 1}
        settings = {"server": {"keys_file": keys_file(folder, **keys)}, "upstreams": {"a": upstream}}
        with GateProcess(folder, settings) as gate:
            runs = await gate.ask("m", headers={"x-api-key": LAPTOP})
            turn = await hands.turn()
            waits = await gate.ask("m", headers={"x-api-key": LAPTOP})
            await gate.wait_waiting("a", 1)
            stays = await gate.ask("m", headers={"x-api-key": TEAM}, stream=False)
            await gate.wait_waiting("a", 2)
            keys_file(folder, team=keys["team"])
            told = await asyncio.to_thread(gate.reload)
            assert [change["key"] for change in told["changed"]] == ["keys.laptop"]
            assert b"UNAUTHORIZED" in (await waits.frames())[-1]
            await turn.complete()
            await runs.body()
            await (await hands.turn()).complete()
            await stays.body()
            outcomes = sorted((request["key"], request["outcome"]) for request in gate.requests("done"))
            assert outcomes == [("laptop", "completed"), ("laptop", "refused"), ("team", "completed")]
            assert hands.untaken == 0
