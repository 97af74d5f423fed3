"""pause, resume, drain, set, reload: an operator changes one upstream of a real daemon."""

import asyncio
import json
import tomllib
from pathlib import Path

import pytest
from gateprocess import GateProcess
from hands import Hands

from tests.e2e.cli.conftest import Run


async def test_pause_and_resume(gate: GateProcess, hands: Hands, run: Run) -> None:
    assert await run("pause", "one") == (0, "one is paused: 0 running, 0 waiting\n", "")
    waiting = await gate.ask("one")
    await gate.wait_waiting("one", 1)
    assert (await run("pause", "one", "--json")).json["changed"] is False
    assert (await run("resume", "one")).out == "one is full: 1 running, 0 waiting\n"
    await (await hands.turn()).complete()
    await waiting.frames()
    assert (await run("resume", "one", "-q")).out == ""


async def test_drain_waits_until_nobody_is_left(gate: GateProcess, hands: Hands, run: Run) -> None:
    running = await gate.ask("two")
    turn = await hands.turn()
    late = await run("drain", "two", "--wait", "--timeout", "300ms")
    assert (late.status, late.out) == (5, "")
    assert late.err.endswith("llmgate: timed out: two is draining: 1 running, 0 waiting; the drain goes on\n")
    refused = await gate.ask("two")
    assert (await refused.head()).status == 503
    draining = asyncio.ensure_future(run("drain", "two", "--wait", "--json"))
    await turn.complete()
    await running.frames()
    ended = (await draining).json
    assert (ended["upstream"]["running"], ended["upstream"]["state"]) == (0, "drained")
    assert (await run("drain", "two")).out == "two is drained: 0 running, 0 waiting\n"
    assert (await run("resume", "two")).out == "two is idle: 0 running, 0 waiting\n"


async def test_set_changes_limits_at_once(gate: GateProcess, hands: Hands, run: Run) -> None:
    clients = [await gate.ask("one") for _ in range(2)]
    turns = [await hands.turn()]
    changed = await run("set", "one", "max_concurrent=2", "max_queued=7", "queue_timeout=90s")
    assert changed == (0, "one: max_concurrent 1 -> 2, max_queued none -> 7, queue_timeout none -> 90s\n", "")
    turns.append(await hands.turn())
    for turn in turns:
        await turn.complete()
    for client in clients:
        await client.frames()
    told = (await run("set", "one", "max_concurrent=1", "max_queued=none", "queue_timeout=0", "--json")).json
    assert told["old"] == {"max_concurrent": 2, "max_queued": 7, "queue_timeout": 90.0}
    assert told["new"] == {"max_concurrent": 1, "max_queued": None, "queue_timeout": None}
    assert (await run("set", "one", "max_concurrent=1")).out == "one: nothing changed\n"


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ("max_concurrent", "must be LIMIT=VALUE, and LIMIT one of max_concurrent, max_queued, queue_timeout"),
        ("slots=2", "must be LIMIT=VALUE, and LIMIT one of max_concurrent, max_queued, queue_timeout"),
        ("max_concurrent=none", "max_concurrent must be a whole number, 0 (not gated) or more, or auto"),
        ("max_queued=-1", "max_queued must be a whole number, 0 (refuse at once when busy) or more, or none"),
        ("queue_timeout=soon", 'queue_timeout must be a number of seconds, or text such as "250ms"'),
    ],
)
async def test_a_limit_that_is_none_is_usage(run: Run, limit: str, why: str) -> None:
    refused = await run("set", "one", limit)
    assert (refused.status, refused.out) == (2, "")
    assert why in " ".join(refused.err.split())


@pytest.mark.parametrize("command", [("pause",), ("resume",), ("drain",), ("drain", "--wait"), ("set", "max_queued=1")])
async def test_an_upstream_that_is_not_there_is_named_with_those_that_are(run: Run, command: tuple[str, ...]) -> None:
    refused = await run(command[0], "oen", *command[1:])
    assert (refused.status, refused.out) == (1, "")
    assert "oen" in refused.err
    assert "one" in refused.err


@pytest.mark.parametrize(
    "command",
    ["pause one", "set one max_queued=1", "reload", "cancel r", "inspect r", "move r --front", "events", "metrics"],
)
async def test_without_a_daemon_they_say_how_to_start_one(run: Run, tmp_path: Path, command: str) -> None:
    refused = await run("--socket", tmp_path / "admin.sock", *command.split())
    assert (refused.status, refused.out) == (3, "")
    assert refused.err.startswith(f"llmgate: no daemon answers on {tmp_path}/admin.sock")
    assert "llmgate serve" in refused.err


async def test_persist_and_reload(tmp_path: Path, run: Run, hands: Hands) -> None:
    limits = {"url": hands.url, "models": ["m"], "max_concurrent": 1, "kind": "anthropic"}
    with GateProcess(tmp_path, {"upstreams": {"a": limits}}) as own:
        at = ("--socket", own.socket)
        assert (await run(*at, "reload")).out == "nothing changed\n"
        kept = await run(*at, "set", "a", "max_concurrent=3", "queue_timeout=5m", "--persist")
        assert kept.out == (f"a: max_concurrent 1 -> 3, queue_timeout none -> 5m, written to {own.settings_path}\n")
        written = tomllib.loads(own.settings_path.read_text())["upstreams"]["a"]
        assert (written["max_concurrent"], written["queue_timeout"]) == (3, "5m")
        assert await run(*at, "reload") == (0, "nothing changed\n", "")
        await run(*at, "set", "a", "max_concurrent=2")
        stays = await run(*at, "reload")
        assert (stays.out, own.upstream("a")["max_concurrent"]) == ("nothing changed\n", 2)
        assert "upstreams.a.max_concurrent stays 2, as an operator set it; the settings say 3" in stays.err
        own.write_settings({"upstreams": {"a": limits | {"max_concurrent": 4, "queue_timeout": "5m"}}})
        reloaded = await run(*at, "reload")
        assert (reloaded.status, reloaded.err) == (0, "")
        assert "upstreams.a.max_concurrent: 3 -> 4" in reloaded.out
        assert own.upstream("a")["max_concurrent"] == 4
        own.write_settings({"upstreams": {"a": limits | {"max_concurrent": -4}}})
        broken = await run(*at, "reload")
        assert (broken.status, broken.out) == (1, "")
        assert f"{own.settings_path}:" in broken.err
        assert broken.err.endswith("llmgate: the old settings stay in force\n")
        as_json = await run(*at, "reload", "--json")
        assert (as_json.status, as_json.out) == (1, "")
        assert json.loads(as_json.err)["error"]["code"] == "BAD_SETTINGS"
        assert own.upstream("a")["max_concurrent"] == 4


async def test_a_file_that_was_broken_since_hides_no_daemon(tmp_path: Path, run: Run, hands: Hands) -> None:
    limits = {"url": hands.url, "models": ["m"], "max_concurrent": 1, "kind": "anthropic"}
    with GateProcess(tmp_path, {"upstreams": {"a": limits}}) as own:
        with own.settings_path.open("a") as file:
            file.write('\n[upstreams.b]\nurll = "http://127.0.0.1:1"\n')
        at = ("--config", own.settings_path)
        for line in ("status", "ps", "top --once", "wait --ready --timeout 60s"):
            assert ((told := await run(*at, *line.split())).status, told.err) == (0, ""), line
        refused = await run(*at, "reload")
        assert (refused.status, refused.out) == (1, "")
        assert f"{own.settings_path}:" in refused.err
        assert refused.err.endswith("llmgate: the old settings stay in force\n")
        looked = (await run(*at, "doctor")).out
        assert f"settings: {own.settings_path}:" in looked
        assert f"ok    daemon: llmgate {own.status()['version']} runs as process {own.pid}" in looked
        assert "ok    upstream a: " in looked


async def test_the_servers_own_slots_and_back(tmp_path: Path, run: Run, hands: Hands) -> None:
    """The server tells none, so "auto" is 1; a reload tells what an operator set, and what brings the settings back."""
    limits = {"url": hands.url, "models": ["m"], "max_concurrent": 3, "kind": "anthropic"}
    with GateProcess(tmp_path, {"upstreams": {"a": limits}}) as own:
        at = ("--socket", own.socket)
        assert (await run(*at, "set", "a", "max_concurrent=auto")).out == "a: max_concurrent 3 -> auto (1 now)\n"
        reloaded = await run(*at, "reload")
        said = (
            "upstreams.a.max_concurrent stays auto (1 now), as an operator set it; the settings say 3. To take that: "
        )
        assert reloaded == (0, "nothing changed\n", f"llmgate: {said}llmgate set a max_concurrent=3\n")
        assert (
            await run(*at, "set", "a", "max_concurrent=0")
        ).out == "a: max_concurrent auto (1 now) -> 0 (not gated)\n"
        assert (await run(*at, "status")).out.endswith("not gated\n")
        assert (await run(*at, "set", "a", "max_concurrent=auto", "--persist")).status == 0
        assert tomllib.loads(own.settings_path.read_text())["upstreams"]["a"]["max_concurrent"] == "auto"
        assert "stays" not in (await run(*at, "reload")).err


async def test_what_a_reload_did_to_those_who_were_there(tmp_path: Path, run: Run, hands: Hands) -> None:
    one = {"url": hands.url, "models": ["m"], "max_concurrent": 1, "kind": "anthropic"}
    with GateProcess(tmp_path, {"upstreams": {"one": one}}) as own:
        at = ("--socket", own.socket)
        clients = [await own.ask("m") for _ in range(2)]
        turn = await hands.turn()
        await own.wait_waiting("one", 1)
        own.write_settings({"upstreams": {"uno": {**one, "max_queued": 5}}})
        reloaded = await run(*at, "reload")
        assert reloaded.out.splitlines()[-2:] == [
            'upstreams.uno.max_queued: "none" -> 5',
            "one is now uno: its queue goes on, 1 waiting and 1 running",
        ]
        for line in ("ps --upstream one", "status one", "pause one", "wait --idle --upstream one"):
            refused = await run(*at, *line.split())
            assert (refused.status, refused.err) == (
                1,
                "llmgate: there is no upstream 'one' any more: a reload calls it uno\n",
            )
        await turn.complete()
        await (await hands.turn()).complete()
        for client in clients:
            await client.frames()


async def test_the_newest_events_of_one_upstream_since_then(gate: GateProcess, run: Run) -> None:
    for how in ("pause", "resume") * 3:
        await run(how, "three")
    told = await run("events", "--no-follow", "--since", "1h", "--upstream", "three", "--all")
    assert [line.split()[2] for line in told.out.splitlines()][-6:] == ["paused", "resumed"] * 3
    few = await run("events", "--no-follow", "--since", "1h", "--upstream", "three", "-n", "2")
    assert few.out.splitlines() == told.out.splitlines()[-2:]


async def test_persist_needs_a_file(tmp_path: Path, run: Run, hands: Hands) -> None:
    command = ["serve", "--listen", "127.0.0.1:0", "--admin-socket", "{socket}", "--upstream", f"a={hands.url}"]
    with GateProcess(tmp_path, command=command) as own:
        refused = await run("--socket", own.socket, "set", "a", "max_concurrent=3", "--persist")
        assert (refused.status, own.upstream("a")["max_concurrent"]) == (1, 1)
        assert "leave out --persist" in refused.err


async def test_metrics(run: Run) -> None:
    told = await run("metrics")
    assert 'llmgate_requests_running{upstream="one"}' in told.out
    assert "llmgate_slots" in json.loads((await run("metrics", "--json")).out)["metrics"]


async def test_wait(gate: GateProcess, hands: Hands, run: Run, tmp_path: Path) -> None:
    assert await run("wait", "--ready", "--timeout", "20s") == (0, "", "")
    assert await run("wait", "--idle", "--upstream", "one") == (0, "", "")
    client = await gate.ask("one")
    turn = await hands.turn()
    late = await run("wait", "--idle", "--timeout", "0.3")
    assert (late.status, late.err) == (5, "llmgate: timed out: one: 1 running, 0 waiting, 0 draining\n")
    waiting = asyncio.ensure_future(run("wait", "--idle"))
    await turn.complete()
    await client.frames()
    assert await waiting == (0, "", "")
    nobody = await run("--socket", tmp_path / "none.sock", "wait", "--timeout", "100ms")
    assert (nobody.status, nobody.err) == (5, "llmgate: timed out: no daemon answers\n")
