"""A front door that speaks TLS: real clients, renewed certificates, strangers and a crowd, against a whole daemon."""

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import httpx2
import openai
import pytest
from anthropic import AsyncAnthropic
from certificates import make_pem
from gateprocess import MESSAGES, GateProcess, request_body
from hands import STOP, Hands, delta
from rawclient import Client, name_of

from llmgate.server.tls import PLAIN

PEM = make_pem()
BOUND = 60.0
CROWD = 200


def settings(url: str, server: dict[str, Any], **upstream: Any) -> dict[str, Any]:
    one = {"url": url, "models": ["m"], "max_concurrent": 1, "release_timeout": "5ms", **upstream}
    return {"server": {"listen": ["127.0.0.1:0"], **server}, "upstreams": {"a": one}}


def started(folder: Path, url: str, **server: Any) -> GateProcess:
    return GateProcess(folder, settings(url, {**PEM.write(folder), **server}), tls=PEM.trusted())


async def test_httpx_waits_in_the_queue_leaves_it_and_gets_a_slot(folder: Path, hands: Hands) -> None:
    with started(folder, hands.url) as gate:
        first = await gate.ask("m")
        turn = await hands.turn()
        async with httpx.AsyncClient(verify=PEM.trusted(), timeout=BOUND, trust_env=False) as client:
            ask = {"method": "POST", "url": gate.url + MESSAGES, "content": request_body("m")}
            async with client.stream(**ask) as answer:
                assert answer.http_version == "HTTP/1.1"
                assert (await anext(answer.aiter_lines())) == "event: queue"
                await gate.wait_waiting("a", 1)
            await gate.wait_waiting("a", 0)
            async with client.stream(**ask) as answer:
                lines = answer.aiter_lines()
                assert await anext(lines) == "event: queue"
                await turn.complete()
                assert name_of((await first.frames())[-1]) == "message_stop"
                second = await hands.turn()
                await second.begin()
                async for line in lines:
                    if line == "event: message_start":
                        break
            await second.wait_closed()
        await gate.wait(gate.is_idle)
        await Client.close_all()


async def test_a_client_that_resets_frees_its_slot(folder: Path, hands: Hands) -> None:
    with started(folder, hands.url) as gate:
        for how in ("reset", "fin"):
            client = await gate.ask("m")
            turn = await hands.turn()
            await turn.begin()
            await client.until("message_start")
            getattr(client, how)()
            await turn.wait_closed()
            await gate.wait(gate.is_idle)
        await Client.close_all()


async def test_the_sdks(folder: Path, hands: Hands) -> None:
    with started(folder, hands.url) as gate:
        async with httpx2.AsyncClient(verify=PEM.trusted(), trust_env=False) as client:
            chat = openai.AsyncOpenAI(base_url=gate.url + "/llm/v1", api_key="x", http_client=client, max_retries=0)
            asked = asyncio.ensure_future(
                chat.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True)
            )
            await (await hands.turn()).complete()
            text = [chunk.choices[0].delta.content or "" async for chunk in await asked]
            assert "".join(text).startswith("Hello")
            messages = AsyncAnthropic(base_url=gate.url + "/llm", api_key="x", http_client=client, max_retries=0)
            streaming = asyncio.ensure_future(
                messages.messages.create(
                    model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}], stream=True
                )
            )
            await (await hands.turn()).complete()
            kinds = [event.type async for event in await streaming]
            assert kinds[-1] == "message_stop"


@pytest.mark.parametrize("by", ["signal", "command"])
async def test_a_renewed_certificate_is_shown_while_an_old_stream_goes_on(folder: Path, hands: Hands, by: str) -> None:
    renewed = make_pem(1)
    with started(folder, hands.url) as gate:
        running, waiting = await gate.ask("m"), await gate.ask("m")
        turn = await hands.turn()
        await turn.begin()
        await running.until("message_start")
        await gate.wait_waiting("a", 1)
        renewed.write(folder)
        gate.mark_log()
        if by == "signal":
            gate.signal(signal.SIGHUP)
        else:
            assert [change["key"] for change in gate.reload()["changed"]] == ["server.tls_cert"]
        told = "reload: server.tls_cert has another value, which is not shown"
        await gate.wait(lambda: any(told in line for line in gate.new_log))
        with pytest.raises(ssl.SSLCertVerificationError):
            await Client.connect(gate.port, tls=PEM.trusted())
        late = await Client.connect(gate.port, tls=renewed.trusted())
        late.send(b"GET /healthz HTTP/1.1\r\nhost: gate.example.org\r\n\r\n")
        assert (await late.head()).status == 200
        gate._tls = renewed.trusted()
        await turn.say(delta("still"))
        assert b"still" in (await running.until("content_block_delta"))[-1]
        await turn.end(STOP)
        assert name_of((await running.frames())[-1]) == "message_stop"
        await (await hands.turn()).complete()
        assert name_of((await waiting.frames())[-1]) == "message_stop"
        await Client.close_all()


async def test_files_that_cannot_be_used_leave_the_old_ones_in_force(folder: Path, hands: Hands) -> None:
    with started(folder, hands.url) as gate:
        paths = {name: Path(text) for name, text in PEM.write(folder).items()}
        bad = [
            ("tls_key", make_pem(1).key, "server.tls_key belongs to another certificate"),
            ("tls_cert", b"nothing", "server.tls_cert must hold a certificate in PEM form"),
            ("tls_cert", None, "server.tls_cert must be a file that can be read"),
        ]
        for name, text, said in bad:
            paths[name].unlink()
            if text is not None:
                paths[name].write_bytes(text)
            error = gate.reload()["error"]
            assert said in error
            assert f"{gate.settings_path}:" in error
            PEM.write(folder)
            assert gate.get("/healthz")[0] == 200
        assert gate.status()["certificate"]["names"] == ["127.0.0.1", "localhost", "gate.example.org"]


def test_at_the_start_they_are_an_error_of_the_settings(folder: Path) -> None:
    server = PEM.write(folder)
    Path(server["tls_key"]).write_bytes(make_pem(1).key)
    for left, said in ((server, "belongs to another"), ({"tls_key": server["tls_key"]}, "needs tls_cert too")):
        gate = GateProcess(folder, settings("http://127.0.0.1:9", left))
        gate.spawn()
        assert gate._started().wait(BOUND) == os.EX_CONFIG
        assert f"{gate.settings_path}:" in gate.log
        assert said in gate.log
        gate.log_path.unlink()


async def test_strangers_are_told_or_ended_and_leave_no_trace_in_the_log(folder: Path, hands: Hands) -> None:
    quiet = settings(hands.url, {**PEM.write(folder), "header_timeout": "1s"}) | {"log": {"level": "info"}}
    with GateProcess(folder, quiet, tls=PEM.trusted()) as gate:
        await gate.wait(lambda: "is a server of no known kind" in gate.log)
        gate.mark_log()
        silent = [await Client.connect(gate.port) for _ in range(20)]
        half = await Client.connect(gate.port)
        half.send(b"\x16\x03\x01\x02\x00")
        plain = await Client.connect(gate.port)
        plain.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await plain.head()).status == 400
        assert (await plain.json())["error"]["message"] == PLAIN
        with pytest.raises(ssl.SSLCertVerificationError):
            await Client.connect(gate.port, tls=make_pem(1).trusted())
        assert gate.get("/healthz") == (200, {"status": "ok"}), "nobody is held up"
        async with asyncio.timeout(BOUND):
            for client in (*silent, half):
                assert await client.wait_closed() == b""
        await Client.close_all()
        assert gate.new_log == []


async def test_sigterm_lets_who_runs_end_and_tells_who_waits(folder: Path, hands: Hands) -> None:
    gate = started(folder, hands.url).start()
    running, waiting = await gate.ask("m"), await gate.ask("m")
    turn = await hands.turn()
    await turn.begin()
    await running.until("message_start")
    await gate.wait_waiting("a", 1)
    gate.signal()
    assert name_of((await waiting.frames())[-1]) == "error"
    await turn.end(STOP)
    assert name_of((await running.frames())[-1]) == "message_stop"
    assert await gate.wait_exit() == 0
    gate.assert_no_traceback()
    await Client.close_all()


async def test_a_crowd(folder: Path, hands: Hands) -> None:
    with started(folder, hands.url) as gate:
        clients = await asyncio.gather(*(gate.ask("m", stream=True) for _ in range(CROWD)))
        await gate.wait_waiting("a", CROWD - 1)
        served = len(clients) // 2
        for _ in range(served):
            await (await hands.turn()).complete()
        last = await hands.turn()
        for client in clients:
            client.fin()
        await last.wait_closed()
        await gate.wait(gate.is_idle)
        assert len([one for one in gate.requests("done") if one["outcome"] == "completed"]) == served
        await Client.close_all()


def test_a_socket_that_was_passed_speaks_it_too(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as passed:
        told = settings("http://127.0.0.1:9", PEM.write(folder))
        with GateProcess(folder, told, passed=[passed], tls=PEM.trusted()) as gate:
            assert gate.status()["listen"] == [f"https://127.0.0.1:{passed.getsockname()[1]}"]
            assert gate.get("/healthz") == (200, {"status": "ok"})


async def run(gate: GateProcess, *command: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**gate.environment, "XDG_CONFIG_HOME": str(gate.folder / "none")},
        cwd=gate.folder,
    )
    async with asyncio.timeout(BOUND):
        told = (await process.communicate())[0].decode()
    return process.returncode or 0, told


async def llmgate(gate: GateProcess, *words: str) -> tuple[int, str]:
    return await run(gate, sys.executable, "-m", "llmgate", "--socket", str(gate.socket), *words)


async def test_commands_say_https_and_trust_what_nobody_signed(folder: Path, hands: Hands) -> None:
    with started(folder, hands.url) as gate:
        assert f"listening on https://127.0.0.1:{gate.port}" in gate.log
        assert f"https://127.0.0.1:{gate.port}" in (await llmgate(gate, "status"))[1]
        assert f"https://127.0.0.1:{gate.port}/llm" in (await llmgate(gate, "connect", "aider"))[1]
        tried = asyncio.ensure_future(llmgate(gate, "try", "m"))
        await (await hands.turn()).complete()
        status, told = await tried
        assert status == 0, told
        assert f"m, at https://127.0.0.1:{gate.port}/llm" in told
        findings = {each["what"]: each for each in json.loads((await llmgate(gate, "--json", "doctor"))[1])["findings"]}
        assert (findings["port"]["state"], findings["certificate"]["state"]) == ("ok", "ok")
        assert findings["certificate"]["text"].startswith("for 127.0.0.1, localhost, gate.example.org, until 20")


async def test_curl(folder: Path, hands: Hands) -> None:
    with started(folder, hands.url) as gate:
        at = ["--resolve", f"gate.example.org:{gate.port}:127.0.0.1", f"https://gate.example.org:{gate.port}/healthz"]
        curl = ["curl", "--silent", "--show-error", "--cacert", str(folder / "front-cert.pem"), *at]
        assert await run(gate, *curl) == (0, '{"status":"ok"}')
