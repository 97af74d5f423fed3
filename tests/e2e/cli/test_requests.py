"""inspect, cancel, move, events: an operator looks at requests of a real daemon and acts on them."""

import asyncio
import json
import signal
import subprocess
import sys

from gateprocess import GateProcess
from hands import Hands
from rawclient import data_of, names_of

from tests.e2e.cli.conftest import Run


def ids(gate: GateProcess, state: str) -> list[str]:
    return [request["id"] for request in gate.requests(state)]


async def test_inspect_tells_position_and_journey(gate: GateProcess, hands: Hands, run: Run) -> None:
    first = await gate.ask("one", metadata={"user_id": "me"})
    turn = await hands.turn()
    second = await gate.ask("one", metadata={"user_id": "me"})
    await gate.wait_waiting("one", 1)
    (waiting,) = ids(gate, "waiting")
    shown = await run("inspect", waiting)
    assert shown.status == 0
    facts = dict(line.split(maxsplit=1) for line in shown.out.split("\n\n")[0].splitlines())
    assert facts["id"] == waiting
    assert facts["state"].startswith("waiting, position 1 of 1")
    assert (facts["session"], facts["model"], facts["upstream"]) == ("me (body)", "one", "one")
    assert "queued" in shown.out
    assert "OTHERS OF ITS SESSION" in shown.out
    assert (await run("inspect", waiting[:-2], "--json")).json["request"]["id"] == waiting
    assert (await run("inspect", "req_")).err.startswith("llmgate: req_ is the beginning of req_")
    unknown = await run("inspect", "nobody")
    assert (unknown.status, unknown.out) == (1, "")
    assert "nobody" in unknown.err
    await turn.complete()
    await (await hands.turn()).complete()
    for client in (first, second):
        await client.frames()
    ended = await run("inspect", waiting)
    assert "done, completed" in ended.out


async def test_what_failed_is_told_wherever_an_operator_looks(gate: GateProcess, hands: Hands, run: Run) -> None:
    """In log, events, JSON and inspect; without a word of the server, which may quote what it was asked."""
    gate.mark_log()
    refuses = await gate.ask("one", stream=False)
    await (await hands.turn()).answer(500, b'{"error":{"message":"you said: my secret prompt"}}')
    assert (await refuses.head()).status == 500
    breaks = await gate.ask("one")
    turn = await hands.turn()
    await turn.begin()
    turn.connection.close()
    await breaks.body()
    await gate.wait(gate.is_idle)
    why = {
        "it answered with status 500",
        "the upstream closed the connection before the end of its answer",
    }
    ended = [request for request in gate.requests("done") if request["outcome"] == "upstream_error"][:2]
    assert {request["reason"] for request in ended} == why
    for request in ended:
        shown = await run("inspect", request["id"])
        assert f"state     done, upstream_error: {request['reason']}\n" in shown.out
        told = (await run("inspect", request["id"], "--json")).json
        assert told["request"]["reason"] == request["reason"]
    events = (await run("events", "--no-follow", "-n", "20")).out
    as_json = [json.loads(line) for line in (await run("events", "--no-follow", "--json")).out.splitlines()]
    assert {event["reason"] for event in as_json if event["outcome"] == "upstream_error"} >= why
    log = "\n".join(gate.new_log)
    for reason in why:
        assert f": {reason}" in events
        assert f": {reason}" in log
    assert "secret" not in events + log + json.dumps(ended)


async def test_cancel_tells_the_clients(gate: GateProcess, hands: Hands, run: Run) -> None:
    running, waiting = await gate.ask("one"), await gate.ask("one")
    turn = await hands.turn()
    await gate.wait_waiting("one", 1)
    known = [*ids(gate, "waiting"), *ids(gate, "running")]
    cancelled = await run("cancel", *known, "nobody")
    assert cancelled.status == 1
    assert cancelled.out == f"{known[0]} cancelled (one)\n{known[1]} cancelled (one)\n"
    assert "nobody" in cancelled.err
    frames = await waiting.frames()
    assert names_of(frames)[-1] == "error"
    for told in (data_of(frames[-1]), await running.json()):
        assert "CANCELLED" in told["error"]["message"]
    await turn.wait_closed()


async def test_move_to_the_front(gate: GateProcess, hands: Hands, run: Run) -> None:
    clients = [await gate.ask("one", metadata={"user_id": name}) for name in "abc"]
    turn = await hands.turn()
    await gate.wait_waiting("one", 2)
    last = ids(gate, "waiting")[-1]
    assert (await run("move", last)).status == 2
    assert await run("move", last, "--front") == (0, f"{last} moved to the front (one)\n", "")
    (told,) = (await run("move", ids(gate, "waiting")[1], "--front", "--json")).json["requests"]
    assert told["session"] == "b"
    assert (await run("move", last, "--front")).status == 0
    for name in "acb":
        assert turn.fields["metadata"]["user_id"] == name
        await turn.complete()
        if name != "b":
            turn = await hands.turn()
    for client in clients:
        await client.frames()
    assert (await run("move", last, "--front")).status == 1


async def test_events_of_the_past(gate: GateProcess, hands: Hands, run: Run) -> None:
    clients = [await gate.ask("one", metadata={"user_id": "past"}) for _ in range(2)]
    await gate.wait_waiting("one", 1)
    for _ in range(2):
        await (await hands.turn()).complete()
    for client in clients:
        await client.frames()
    shown = (await run("events", "--no-follow", "-n", "2", "--upstream", "one")).out.splitlines()
    assert {line.split()[1] for line in shown} == {"one"}
    assert [line.split()[2] for line in shown if "past" in line] == ["queued", "dispatched"]
    assert len((await run("events", "--no-follow", "-n", "1")).out.splitlines()) == 1
    assert (await run("events", "--no-follow", "-n", "0")).out == ""
    assert (await run("events", "--no-follow", "--since", "2020-01-01T00:00:00Z")).out.endswith(shown[-1] + "\n")
    everything = (await run("events", "--no-follow", "--json", "--since", "1h", "--upstream", "one")).out.splitlines()
    last = json.loads(everything[-1])
    assert (last["schema"], last["kind"], last["outcome"]) == (1, "released", "completed")
    assert (await run("events", "--since", "yesterday")).status == 2


async def test_events_are_followed(gate: GateProcess, hands: Hands) -> None:
    command = [sys.executable, "-m", "llmgate", "--socket", str(gate.socket), "events", "-n", "0"]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    line = asyncio.ensure_future(process.stdout.readline())
    while not line.done():  # until it watches
        clients = [await gate.ask("one") for _ in range(2)]
        await gate.wait_waiting("one", 1)
        for _ in range(2):
            await (await hands.turn()).complete()
        for client in clients:
            await client.frames()
    assert b" one " in await line
    process.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(process.wait(), 60) == -signal.SIGINT
