"""Settings read again while requests wait and run: what is taken on, what waits for a start, what is refused."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from adminsocket import curl
from gateprocess import GateProcess
from hands import ANSWER, STOP, Hands
from rawclient import Client, data_of, name_of, positions_of


def settings(url: str, **upstream: Any) -> dict[str, Any]:
    one = {"url": url, "models": ["m"], "max_concurrent": 1, "release_timeout": "5ms", **upstream}
    return {"upstreams": {"a": one}}


async def hup(gate: GateProcess, new: dict[str, Any], told: str) -> None:
    """SIGHUP with other settings, until the log tells of it."""
    gate.mark_log()
    gate.write_settings(new)
    gate.signal(signal.SIGHUP)
    await gate.wait(lambda: any(told in line for line in gate.new_log))


async def test_a_higher_cap_wakes_who_waits_at_once(folder: Path) -> None:
    async with Hands() as hands:
        with GateProcess(folder, settings(hands.url)) as gate:
            running = await gate.ask("m")
            first = await hands.turn()
            waiting = [await gate.ask("m") for _ in range(3)]
            await gate.wait_waiting("a", 3)
            await hup(gate, settings(hands.url, max_concurrent=3), "reload: upstreams.a.max_concurrent = 3 (was 1)")
            turns = [await hands.turn(), await hands.turn()]
            assert positions_of([await waiting[2].frame()]) == [(3, 3)]
            assert (gate.upstream("a")["running"], gate.upstream("a")["waiting"]) == (3, 1)
            await first.complete()
            turns.append(await hands.turn())
            for turn in turns:
                await turn.complete()
            assert await running.body() == ANSWER
            for client in waiting:
                assert name_of((await client.frames())[-1]) == "message_stop"


async def test_a_lower_cap_ends_nothing_and_who_waits_keeps_the_place(folder: Path) -> None:
    async with Hands() as hands:
        with GateProcess(folder, settings(hands.url, max_concurrent=2)) as gate:
            running = [await gate.ask("m"), await gate.ask("m")]
            turns = [await hands.turn(), await hands.turn()]
            waiting = [await gate.ask("m") for _ in range(2)]
            await gate.wait_waiting("a", 2)
            await hup(gate, settings(hands.url, max_concurrent=1, max_queued=0), "max_queued = 0")
            assert gate.upstream("a")["waiting"] == 2, "I9"
            refused = await gate.ask("m", stream=False)
            assert (await refused.head()).headers["llmgate-code"] == "QUEUE_FULL"
            await turns[0].complete()
            await running[0].frames()
            assert gate.upstream("a")["waiting"] == 2
            await turns[1].complete()
            for client in waiting:
                await (await hands.turn()).complete()
                assert name_of((await client.frames())[-1]) == "message_stop"


async def test_another_url_who_runs_stays_who_waits_goes_there(folder: Path) -> None:
    async with Hands() as old, Hands() as new:
        with GateProcess(folder, settings(old.url)) as gate:
            running = await gate.ask("m")
            turn = await old.turn()
            await turn.begin()
            await running.head()
            first, second = await gate.ask("m"), await gate.ask("m")
            await gate.wait_waiting("a", 2)
            await hup(gate, settings(new.url), "reload: upstreams.a.url")
            assert gate.upstream("a")["url"] == new.url
            assert gate.upstream("a")["waiting"] == 2, "the running one counts against the cap"
            await turn.end(STOP)
            assert name_of((await running.frames())[-1]) == "message_stop"
            for client in (first, second):
                await (await new.turn()).complete()
                frames = await client.frames()
                assert name_of(frames[-1]) == "message_stop"
            assert old.untaken == 0
            await old.wait_all_closed()


async def test_a_removed_upstream_serves_who_waits_and_is_gone(folder: Path) -> None:
    async with Hands() as hands, Hands() as other:
        both = settings(hands.url)
        both["upstreams"]["b"] = {"url": other.url, "models": ["n"], "max_concurrent": 1}
        with GateProcess(folder, both) as gate:
            running = await gate.ask("n")
            turn = await other.turn()
            waiting = await gate.ask("n")
            await gate.wait_waiting("b", 1)
            told = await asyncio.to_thread(_reload, gate, settings(hands.url))
            assert [change["key"] for change in told["changed"]] == ["upstreams.b"]
            newcomer = await gate.ask("n", stream=False)
            assert (await newcomer.head()).status == 404
            assert gate.upstream("b")["state"] == "draining"
            await turn.complete()
            assert await running.body() == ANSWER
            await (await other.turn()).complete()
            assert name_of((await waiting.frames())[-1]) == "message_stop"
            await gate.wait(lambda: [view["name"] for view in gate.status()["upstreams"]] == ["a"])
            told = await asyncio.to_thread(_reload, gate, both)
            assert [change["key"] for change in told["changed"]] == ["upstreams.b"]
            again = await gate.ask("n")
            await (await other.turn()).complete()
            assert await again.body() == ANSWER
            await gate.wait(gate.is_idle)
            assert gate.upstream("b")["served"] == 1, "the figures of the one before are gone with it"


async def test_a_removed_upstream_that_is_named_again_comes_back(folder: Path) -> None:
    async with Hands() as hands, Hands() as other:
        both = settings(hands.url)
        both["upstreams"]["b"] = {"url": other.url, "models": ["n"], "max_concurrent": 1}
        with GateProcess(folder, both) as gate:
            running = await gate.ask("n")
            turn = await other.turn()
            waiting = await gate.ask("n")
            await gate.wait_waiting("b", 1)
            for new in (settings(hands.url), both):
                assert not (await asyncio.to_thread(_reload, gate, new))["error"]
            assert gate.upstream("b")["state"] == "full"
            newcomer = await gate.ask("n")
            await gate.wait_waiting("b", 2)
            await turn.complete()
            for client in (running, waiting, newcomer):
                if client is not running:
                    await (await other.turn()).complete()
                assert name_of((await client.frames())[-1]) == "message_stop"


async def test_a_removed_upstream_that_is_down_sends_who_waits_away(folder: Path) -> None:
    async with Hands() as hands:
        both = settings(hands.url)
        both["upstreams"]["b"] = {"url": "http://127.0.0.1:9", "models": ["n"], "max_concurrent": 1}
        with GateProcess(folder, both) as gate:
            waiting = await gate.ask("n")
            await gate.wait(lambda: gate.upstream("b")["state"] == "down")
            await gate.wait_waiting("b", 1)
            silent = await gate.ask("n", stream=False)
            await gate.wait_waiting("b", 2)
            assert not (await asyncio.to_thread(_reload, gate, settings(hands.url)))["error"]
            assert (await silent.head()).headers["llmgate-code"] == "REFUSED"
            error = (await waiting.frames())[-1]
            assert "a reload took it out of the settings" in data_of(error)["error"]["message"]
            await gate.wait(lambda: [view["name"] for view in gate.status()["upstreams"]] == ["a"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[upstreams.a]\nurl = 7\n", "llmgate.toml:2"),
        ("[upstreams.a\n", "llmgate.toml:1"),
        ("[server]\nkeys_file = '/nowhere/keys.toml'\n[upstreams.a]\nurl='http://h'\nmax_concurrent=1\n", "keys_file"),
        ("[upstreams.a]\nurl='https://h'\nmax_concurrent=1\nca_file='/nowhere.pem'\n", "llmgate.toml:4"),
        ("[upstreams.a]\nurl='http://h'\nmax_concurrent=1\napi_key_file='/nowhere'\n", "llmgate.toml:4"),
        ("", "no upstream"),
    ],
)
async def test_with_an_error_all_stays_and_the_place_is_named(folder: Path, text: str, told: str) -> None:
    async with Hands() as hands:
        with GateProcess(folder, settings(hands.url, max_concurrent=2)) as gate:
            before = gate.status()["upstreams"]
            gate.mark_log()
            gate.settings_path.write_text(text)
            answer = await asyncio.to_thread(gate.reload)
            assert told in answer["error"]
            assert answer["changed"] == []
            assert any(told in line for line in gate.new_log)
            after = gate.status()["upstreams"]
            assert [(view["name"], view["url"], view["max_concurrent"]) for view in after] == [
                (view["name"], view["url"], view["max_concurrent"]) for view in before
            ]
            client = await gate.ask("m")
            await (await hands.turn()).complete()
            assert await client.body() == ANSWER


async def test_what_needs_a_restart_is_told_and_left(folder: Path) -> None:
    async with Hands() as hands:
        with GateProcess(folder, settings(hands.url)) as gate:
            new = settings(hands.url, max_concurrent=2) | {"server": {"listen": ["127.0.0.1:1"]}}
            for expected in (2, 1):
                told = await asyncio.to_thread(_reload, gate, new)
                assert len(told["changed"]) == expected, "what waits for a start is told each time"
                classes = {change["key"]: change["reload"] for change in told["changed"]}
                assert classes["server.listen"] == "restart"
            client = await gate.ask("m")
            await (await hands.turn()).complete()
            assert await client.body() == ANSWER


async def test_who_watches_hears_of_it_and_sees_the_new_upstreams(folder: Path) -> None:
    async with Hands() as hands:
        with GateProcess(folder, settings(hands.url)) as gate:
            reader, writer = await asyncio.open_unix_connection(str(gate.socket))
            writer.write(b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n")
            async with asyncio.timeout(30):
                await reader.readuntil(b'"type":"snapshot"')
                new = settings(hands.url)
                new["upstreams"]["b"] = {"url": hands.url + "/b", "models": ["n"], "max_concurrent": 1}
                await asyncio.to_thread(_reload, gate, new)
                assert b"settings_reloaded" in await reader.readuntil(b"settings_reloaded")
                assert b'"name":"b"' in await reader.readuntil(b'"name":"b"')
            writer.close()


async def test_keys_and_the_log_level_are_taken_on(folder: Path) -> None:
    secret = "sk-another-key-of-a-laptop-0123456789"
    keys = folder / "keys.toml"
    keys.write_text(f'[keys.laptop]\nkey = "{secret}"\n')
    keys.chmod(0o600)
    async with Hands() as hands:
        with GateProcess(folder, settings(hands.url)) as gate:
            new = settings(hands.url) | {"server": {"keys_file": str(keys)}, "log": {"level": "warning"}}
            told = await asyncio.to_thread(_reload, gate, new)
            assert {"server.keys_file", "keys.laptop", "log.level"} <= {change["key"] for change in told["changed"]}
            assert secret not in json.dumps(told) + gate.log
            refused = await gate.ask("m", stream=False)
            assert (await refused.head()).status == 401
            client = await gate.ask("m", headers={"authorization": f"Bearer {secret}"})
            await (await hands.turn()).complete()
            assert await client.body() == ANSWER


def _reload(gate: GateProcess, new: dict[str, Any]) -> dict[str, Any]:
    gate.write_settings(new)
    return gate.reload()


async def test_a_server_that_is_taken_away_before_it_said_that_it_does_not_speak_so(folder: Path) -> None:
    """What it did not begin goes to the one in its place."""
    async with Hands() as old, Hands() as new:
        with GateProcess(folder, settings(old.url)) as gate:
            client = await gate.ask("m", stream=False)
            turn = await old.turn()
            await hup(gate, settings(new.url), "reload: upstreams.a.url")
            await turn.answer(404, b'{"error":{"message":"File Not Found"}}')
            await (await new.turn()).complete()
            assert (await client.head()).status == 200
            assert (gate.upstream("a")["running"], old.untaken) == (0, 0)


async def test_a_redirect_of_a_server_that_is_gone_leads_nowhere(folder: Path) -> None:
    async with Hands() as hands, Hands() as other:
        both = settings(hands.url)
        both["upstreams"]["b"] = {"url": other.url, "models": ["n"], "max_concurrent": 1, "passthrough": True}
        with GateProcess(folder, both) as gate:
            client = await Client.connect(gate.port)
            client.send(b"GET /upstream/b/x HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            turn = await other.turn()
            assert not (await asyncio.to_thread(_reload, gate, settings(hands.url)))["error"]
            await gate.wait(lambda: [view["name"] for view in gate.status()["upstreams"]] == ["a"])
            await turn.connection.send(b"HTTP/1.1 302 Found\r\nlocation: /y\r\ncontent-length: 0\r\n\r\n")
            head = await client.head()
            assert (head.status, "location" in head.headers) == (302, False)


# ---- the cap of a server through reloads: what runs there is counted, wherever the server belongs by now


def upstream(model: str, *urls: str) -> dict[str, Any]:
    if len(urls) == 1:
        return {"url": urls[0], "models": [model], "max_concurrent": 1}
    return {"endpoints": [{"url": url, "max_concurrent": 1} for url in urls], "models": [model]}


async def test_a_server_that_is_put_back_while_its_request_runs_gets_no_second_one(folder: Path) -> None:
    async with Hands() as one, Hands() as two:
        with GateProcess(folder, {"upstreams": {"a": upstream("m", one.url, two.url)}}) as gate:
            clients = [await gate.ask("m")]
            turn = await one.turn()
            for urls in ([two.url], [two.url, one.url]):
                assert not (await asyncio.to_thread(_reload, gate, {"upstreams": {"a": upstream("m", *urls)}}))["error"]
            clients.append(await gate.ask("m"))
            other = await two.turn()
            clients.append(await gate.ask("m"))
            await gate.wait_waiting("a", 1)
            assert (gate.upstream("a")["running"], one.untaken) == (2, 0)
            await turn.complete()
            for last in (await one.turn(), other):
                await last.complete()
            for client in clients:
                assert name_of((await client.frames())[-1]) == "message_stop"


async def test_an_upstream_of_another_name_goes_on_with_everybody(folder: Path) -> None:
    async with Hands() as hands:
        with GateProcess(folder, {"upstreams": {"old": upstream("m", hands.url)}}) as gate:
            running = await gate.ask("m")
            turn = await hands.turn()
            waiting = []
            for count in (1, 2):
                waiting.append(await gate.ask("m"))
                await gate.wait_waiting("old", count)
            gate.mark_log()
            answer = await asyncio.to_thread(_reload, gate, {"upstreams": {"new": upstream("m", hands.url)}})
            assert [change["key"] for change in answer["changed"]] == ["upstreams.old", "upstreams.new"]
            assert answer["warnings"] == []
            assert any("new renamed by a reload, from old" in line for line in gate.new_log)
            waiting.append(await gate.ask("m"))
            await gate.wait_waiting("new", 3)
            assert [view["name"] for view in gate.status()["upstreams"]] == ["new"]
            assert (gate.upstream("new")["running"], hands.untaken) == (1, 0)
            assert {request["upstream"] for request in gate.requests()} == {"new"}
            await turn.complete()
            assert name_of((await running.frames())[-1]) == "message_stop"
            for left, client in zip((2, 1, 0), waiting, strict=True):
                turn = await hands.turn()
                assert gate.upstream("new")["waiting"] == left
                await turn.complete()
                assert name_of((await client.frames())[-1]) == "message_stop"


async def test_a_server_of_another_upstream_begins_with_what_runs_there(folder: Path) -> None:
    async with Hands() as one, Hands() as two:
        both = {"a": upstream("m", one.url), "b": upstream("n", two.url)}
        with GateProcess(folder, {"upstreams": both}) as gate:
            running = await gate.ask("m")
            turn = await one.turn()
            swapped = {"a": upstream("m", two.url), "b": upstream("n", one.url)}
            assert not (await asyncio.to_thread(_reload, gate, {"upstreams": swapped}))["error"]
            waiting = await gate.ask("n")
            await gate.wait_waiting("b", 1)
            assert (gate.upstream("b")["running"], one.untaken) == (0, 0)
            await turn.complete()
            assert name_of((await running.frames())[-1]) == "message_stop"
            await (await one.turn()).complete()
            assert name_of((await waiting.frames())[-1]) == "message_stop"


async def test_limits_that_an_operator_set_stay_until_the_file_says_another(folder: Path) -> None:
    async with Hands() as hands:
        with GateProcess(folder, settings(hands.url)) as gate:
            await curl(gate.socket, "PATCH", "/v1/upstreams/a", {"max_concurrent": 3})
            answer = await asyncio.to_thread(_reload, gate, settings(hands.url, max_queued=7))
            assert "upstreams.a.max_concurrent stays 3, as an operator set it" in answer["warnings"][-1]
            assert (gate.upstream("a")["max_concurrent"], gate.upstream("a")["max_queued"]) == (3, 7)
            answer = await asyncio.to_thread(_reload, gate, settings(hands.url, max_concurrent=2, max_queued=7))
            assert (answer["warnings"], gate.upstream("a")["max_concurrent"]) == ([], 2)
