"""The daemon's own life: started, told to stop, killed, started twice, started with settings that cannot be."""

import asyncio
import contextlib
import signal
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
from gateprocess import CHAT, MESSAGES, GateProcess, request_body
from hands import ANSWER, START, STOP, Hands, Turn, delta, hold_port
from rawclient import Client, data_of, name_of, names_of, post

from llmgate.simulator import Behaviour, Simulator


def settings(url: str, **server: Any) -> dict[str, Any]:
    return {"server": server, "upstreams": {"a": {"url": url, "models": ["m"], "max_concurrent": 1}}}


async def fill(gate: GateProcess, hands: Hands) -> tuple[Client, Turn, list[Client], list[Client]]:
    """One running stream, three that wait with a stream and two that wait without."""
    running = await gate.ask("m")
    turn = await hands.turn()
    await turn.begin(START)
    await running.until("content_block_start")
    streaming = [await gate.ask("m", path=path) for path in (MESSAGES, MESSAGES, CHAT)]
    for client in streaming:
        await client.frame()
    silent = [await gate.ask("m", path=path, stream=False) for path in (MESSAGES, CHAT)]
    await gate.wait_waiting("a", 5)
    return running, turn, streaming, silent


async def assert_dismissed(streaming: list[Client], silent: list[Client]) -> None:
    """Each of those who waited has its error, at once."""
    for client in streaming[:2]:
        error = (await client.frames())[-1]
        assert (name_of(error), data_of(error)["error"]["type"]) == ("error", "timeout_error")
        assert "(REFUSED)" in data_of(error)["error"]["message"]
    *_, error, done = await streaming[2].frames()
    assert data_of(error)["error"]["code"] == "REFUSED"
    assert done == b"data: [DONE]\n\n"
    for client in silent:
        head = await client.head()
        assert (head.status, head.headers["llmgate-code"], head.headers["x-should-retry"]) == (503, "REFUSED", "false")
        assert "(REFUSED)" in (await client.json())["error"]["message"]


async def is_refused(port: int) -> bool:
    try:
        await Client.connect(port)
    except ConnectionRefusedError:
        return True
    return False


async def test_f76_told_to_stop_it_dismisses_who_waits_and_lets_the_running_end(folder: Path) -> None:
    async with Hands() as hands:
        gate = GateProcess(folder, settings(hands.url)).start()
        kept = await Client.connect(gate.port)
        running, turn, streaming, silent = await fill(gate, hands)

        gate.signal(signal.SIGTERM)
        await assert_dismissed(streaming, silent)
        await gate.wait(lambda: gate.status()["state"] == "stopping")
        assert await is_refused(gate.port)
        kept.send(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await kept.head()).status == 503

        await turn.say(delta("still"))
        assert await running.frame() == delta("still")
        await turn.end(STOP)
        assert names_of(await running.frames())[-1] == "message_stop"
        assert await gate.wait_exit() == 0
        await hands.wait_all_closed()
        assert hands.untaken == 0
        assert not gate.socket.exists()
        gate.assert_no_traceback()


async def test_f76_a_request_on_a_kept_connection_is_refused_while_it_stops(folder: Path) -> None:
    async with Hands() as hands:
        gate = GateProcess(folder, settings(hands.url)).start()
        kept = await gate.ask("m", stream=False)
        await (await hands.turn()).answer(body=b"{}")
        assert await kept.body() == b"{}"
        running = await gate.ask("m")
        turn = await hands.turn()
        gate.signal(signal.SIGTERM)
        await gate.wait(lambda: gate.status()["state"] == "stopping")
        kept.post(MESSAGES, b'{"model":"m","stream":true}')
        kept.next_answer()
        assert (await kept.head()).status == 503
        assert "(REFUSED)" in (await kept.json())["error"]["message"]
        await turn.complete()
        assert await running.body() == ANSWER
        assert await gate.wait_exit() == 0


async def test_f76_past_drain_timeout_the_running_are_cut_with_an_error_event(folder: Path) -> None:
    async with Hands() as hands:
        gate = GateProcess(folder, settings(hands.url, drain_timeout="300ms")).start()
        running, turn, streaming, silent = await fill(gate, hands)
        gate.signal(signal.SIGTERM)
        await assert_dismissed(streaming, silent)
        error = (await running.frames())[-1]
        assert name_of(error) == "error"
        assert "(REFUSED)" in data_of(error)["error"]["message"]
        await turn.wait_closed()
        assert await gate.wait_exit() == 0
        gate.assert_no_traceback()


async def test_f76_whose_request_is_not_whole_is_told_or_closed(folder: Path) -> None:
    """Half a head, nothing at all, an answer not taken: closed. Half a body, or one still to be asked for: told."""
    request = post(MESSAGES, request_body("m"))
    async with Hands() as hands:
        gate = GateProcess(folder, settings(hands.url)).start()
        asking = request.replace(b"\r\n\r\n", b"\r\nexpect: 100-continue\r\n\r\n").partition(b"{")[0]
        told = [await begin(gate, half) for half in (request[:-10], asking)]
        closed = [await begin(gate, half) for half in (b"", b"POST")]
        deaf = await Client.connect(gate.port, receive_buffer=4096)
        deaf.post(MESSAGES, request_body("m"))
        turn = await hands.turn()
        await turn.begin(START)
        with contextlib.suppress(TimeoutError):
            while True:
                async with asyncio.timeout(0.5):
                    await turn.say(delta("x" * 60_000))
        assert (await told[1].head()).status == 100
        told[1].next_answer()
        gate.signal(signal.SIGTERM)
        await gate.wait(lambda: gate.status()["state"] == "stopping")
        gate.signal(signal.SIGTERM)
        for client in told:
            head = await client.head()
            assert (head.status, head.headers["llmgate-code"], head.headers["connection"]) == (503, "REFUSED", "close")
        for client in closed:
            assert await client.wait_closed() == b""
        assert await gate.wait_exit() == 0
        assert "uvicorn" not in gate.log
        gate.assert_no_traceback()


async def begin(gate: GateProcess, data: bytes) -> Client:
    client = await Client.connect(gate.port)
    client.send(data)
    return client


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_f76_told_twice_it_cuts_at_once(folder: Path, number: signal.Signals) -> None:
    async with Hands() as hands:
        gate = GateProcess(folder, settings(hands.url)).start()
        running, turn, streaming, silent = await fill(gate, hands)
        gate.signal(number)
        await assert_dismissed(streaming, silent)
        assert gate.exit_status is None
        gate.signal(number)
        assert name_of((await running.frames())[-1]) == "error"
        await turn.wait_closed()
        assert await gate.wait_exit() == 0


async def test_f77_killed_it_starts_again_on_the_same_socket(folder: Path) -> None:
    async with Hands() as hands:
        gate = GateProcess(folder, settings(hands.url)).start()
        client = await gate.ask("m")
        turn = await hands.turn()
        await turn.begin()
        await client.frame()
        gate.signal(signal.SIGKILL)
        assert await gate.wait_exit() == -signal.SIGKILL
        await turn.wait_closed()
        assert gate.socket.exists()
        gate.start()
        assert stat.S_IMODE(gate.socket.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(gate.socket.stat().st_mode) == 0o600
        client = await gate.ask("m")
        await (await hands.turn()).complete()
        assert await client.body() == ANSWER
        gate.stop()


async def test_with_a_port_in_use_it_says_so_and_exits_69(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        gate = GateProcess(folder, settings("http://127.0.0.1:9", listen=[address]))
        gate.spawn()
        assert await gate.wait_exit() == 69
        (line,) = gate.new_log
        assert line.startswith(f"llmgate: cannot listen on {address}: Address already in use")


async def test_of_two_daemons_on_one_socket_the_second_exits_69(folder: Path) -> None:
    quiet = settings("http://127.0.0.1:9") | {"log": {"level": "info"}}  # both write to one file
    first = GateProcess(folder, quiet)
    with first:
        second = GateProcess(folder, quiet)
        second.mark_log()
        second.spawn()
        assert await second.wait_exit() == 69
        (line,) = second.new_log
        assert "another llmgate" in line
        assert first.status()["pid"] == first.pid


async def test_with_a_file_where_its_socket_should_be_it_touches_nothing_and_exits_77(folder: Path) -> None:
    gate = GateProcess(folder, settings("http://127.0.0.1:9"))
    gate.socket.parent.mkdir(mode=0o700)
    gate.socket.write_text("mine")
    gate.spawn()
    assert await gate.wait_exit() == 77
    assert gate.socket.read_text() == "mine"


@pytest.mark.parametrize(
    ("server", "upstream", "told"),
    [
        ({"lissten": ["127.0.0.1:0"]}, {}, "listen"),
        ({}, {"max_concurent": 1}, "max_concurrent"),
        ({"listen": ["0.0.0.0:0"]}, {}, "allow_open"),
        ({}, {"max_concurrent": -1}, "max_concurrent"),
    ],
)
async def test_with_bad_settings_it_names_the_place_and_exits_78(
    folder: Path, server: dict[str, Any], upstream: dict[str, Any], told: str
) -> None:
    wrong = settings("http://127.0.0.1:9", **server)
    wrong["upstreams"]["a"] |= upstream
    gate = GateProcess(folder, wrong)
    gate.spawn()
    assert await gate.wait_exit() == 78
    assert "llmgate.toml" in gate.log
    assert told in gate.log
    gate.assert_no_traceback()


async def test_without_a_file_the_command_line_says_all(folder: Path) -> None:
    async with Hands() as hands:
        command = (
            "serve --listen 127.0.0.1:0 --admin-socket {socket} --upstream "
            f"a={hands.url},max_concurrent=1,models=m|other"
        )
        with GateProcess(folder, command=command.split()) as gate:
            for model in ("m", "other"):
                client = await gate.ask(model)
                await (await hands.turn()).complete()
                assert await client.body() == ANSWER
            assert gate.upstream("a")["max_concurrent"] == 1


async def test_auto_takes_the_servers_own_slots_and_models_once_it_is_there(folder: Path) -> None:
    with hold_port() as holder:
        port = holder.getsockname()[1]
        command = f"serve --listen 127.0.0.1:0 --admin-socket {{socket}} --upstream a=http://127.0.0.1:{port}"
        with GateProcess(folder, command=command.split()) as gate:
            assert gate.upstream("a")["max_concurrent"] == 1
            server = Simulator(Behaviour(slots=3), models=["found"])
            await server.start(port=port)
            await gate.wait(lambda: gate.upstream("a")["max_concurrent"] == 3)
            await gate.wait(lambda: "found" in str(gate.get("/llm/v1/models")[1]))
            assert "max_concurrent is 3" in gate.log
            await server.stop()


async def test_who_watches_sees_a_request_come_wait_and_end(folder: Path) -> None:
    async with Hands() as hands:
        with GateProcess(folder, settings(hands.url)) as gate:
            await gate.ask("m")
            running = await hands.turn()
            reader, writer = await asyncio.open_unix_connection(gate.socket)
            writer.write(b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            client = await gate.ask("m")
            await client.frame()
            await running.complete()
            await (await hands.turn()).complete()
            await client.frames()
            seen = b""
            async with asyncio.timeout(10):
                while seen.count(b'"kind":"released"') < 2:
                    seen += await reader.read(65536)
            writer.close()
            assert seen.index(b'"type":"snapshot"') < seen.index(b'"kind":"queued"') < seen.index(b'"kind":"released"')
