"""The self-check of a whole daemon: a slot that is lost is told everywhere, and traffic in order is never told."""

import asyncio
from pathlib import Path

import pytest
from gateprocess import request_body
from hands import Hands
from puppet import LIVENESS_SECONDS
from rawclient import Client

from llmgate import selfcheck
from llmgate.adminapi import Status
from llmgate.core import drift
from llmgate.simulator.behaviour import Behaviour
from llmgate.simulator.server import Simulator
from llmgate.upstreams.answer import NO_TIMEOUTS
from llmgate.upstreams.slots import LAST_SECONDS
from tests.test_daemon import Running, loaded

LEAKED = "drift: 1 connection to the server in use that no request has"
STRANGER = "drift: the server works on 1 request that llmgate did not send: who else uses it?"
LOST = "drift: 1 slot taken by requests that have no connection to the server"


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selfcheck, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(drift, "LASTING_SECONDS", 0.2)


async def alarms(running: Running) -> list[str]:
    return [alarm for upstream in running.daemon.status().upstreams for alarm in upstream.alarms]


async def test_a_leave_that_is_lost_is_told_until_it_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with Hands() as hands, Running(loaded(tmp_path, hands.url, {"max_concurrent": 2})) as running:
        desk = running.daemon._admission._desks["a"]
        true_leave, lost = desk.leave, []
        monkeypatch.setattr(desk, "leave", lambda *ticket: lost.append(ticket))
        client = await running.ask()
        await (await hands.turn()).complete()
        await client.body()
        assert len(lost) == 1
        monkeypatch.setattr(desk, "leave", true_leave)
        await running.wait(lambda status: LOST in status.upstreams[0].alarms)
        assert f"a alarm {LOST}" in caplog.text
        _, text = running.daemon._metrics.render()
        assert b'llmgate_alarms{alarm="drift",upstream="a"} 1.0' in text
        assert (await running.look("/v1/status"))["upstreams"][0]["alarms"] == [LOST]
        for ticket in lost:
            true_leave(*ticket)
        await running.wait(lambda status: not status.upstreams[0].alarms)
        assert "a alarm drift no more" in caplog.text


async def test_traffic_in_order_is_never_told(tmp_path: Path) -> None:
    """Long and short ones, some that leave early, while it looks at every turn."""
    told: set[str] = set()

    def look(status: Status) -> bool:
        told.update(alarm for alarm in status.upstreams[0].alarms if alarm.startswith("drift"))
        return False

    async with Hands() as hands, Running(loaded(tmp_path, hands.url, {"max_concurrent": 3})) as running:
        long = await running.ask()
        kept = await hands.turn()
        await kept.begin()
        await long.head()
        end = asyncio.get_running_loop().time() + 2
        while asyncio.get_running_loop().time() < end:
            for early in (False, True):
                client = await running.ask()
                async with asyncio.timeout(LIVENESS_SECONDS):
                    turn = await hands.turn()
                if early:
                    client.fin()
                    await turn.wait_closed()
                else:
                    await turn.complete()
                    await client.body()
                look(running.daemon.status())
        await kept.end()
        await long.body()
    assert told == set()


async def test_a_connection_that_is_lost_is_told_though_nothing_runs(tmp_path: Path) -> None:
    async with Hands() as hands, Running(loaded(tmp_path, hands.url)) as running:
        server = running.daemon._roster.servers["a"]
        leaked = server.call(b"POST", b"/v1/messages", {}, request_body("m"), lambda *_: None, timeouts=NO_TIMEOUTS)
        opening = asyncio.ensure_future(leaked.__aenter__())
        turn = await hands.turn()
        await running.wait(lambda status: status.upstreams[0].alarms == [LEAKED])
        await turn.begin()
        await opening
        await leaked.__aexit__(None, None, None)
        await running.wait(lambda status: not status.upstreams[0].alarms)


def simulated(folder: Path, server: Simulator) -> Running:
    return Running(loaded(folder, server.url, {"kind": "llama-server"}))


async def use(server: Simulator) -> Client:
    """Past the gate."""
    stranger = await Client.connect(server.port)
    stranger.post("/v1/messages", request_body("m"))
    await stranger.head()
    return stranger


async def test_who_uses_the_server_of_an_idle_gate_is_told(tmp_path: Path) -> None:
    async with Simulator(Behaviour(hold=3600)) as server, simulated(tmp_path, server) as running:
        stranger = await use(server)
        await running.wait(lambda status: status.upstreams[0].alarms == [STRANGER])
        stranger.fin()
        await running.wait(lambda status: not status.upstreams[0].alarms)


async def test_while_another_has_the_slot_nothing_waits_inside_the_server(tmp_path: Path) -> None:
    async with Simulator(Behaviour(hold=3600, tokens=1)) as server, simulated(tmp_path, server) as running:
        stranger = await use(server)
        watch = running.daemon._services.slot_watches["a"]
        await running.wait(lambda _: watch.has_strangers)
        waits = await running.ask()
        await running.wait(lambda status: status.upstreams[0].running == 1)
        await asyncio.sleep(4 * LAST_SECONDS)  # time in which it could go wrong: some looks of the one that waits
        assert (server.ledger.waiting, server.ledger.held_back) == (0, 0)
        stranger.fin()
        await waits.head()
        assert (server.ledger.running, server.ledger.held_back) == (1, 0)
