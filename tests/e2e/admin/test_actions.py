"""What an operator does with curl on the admin socket, and what clients, servers, feed and log then see."""

import os
from typing import Any

import pytest
from adminsocket import Refusal, curl
from gateprocess import CHAT, MESSAGES, GateProcess
from hands import Hands
from rawclient import Client, data_of, name_of, names_of

UID = f"by uid {os.getuid()}"
OLLAMA = "/api/chat"


async def ids_of(gate: GateProcess, upstream: str, state: str) -> list[str]:
    found = await curl(gate.socket, "GET", f"/v1/requests?upstream={upstream}&state={state}")
    return [view["id"] for view in found["requests"]]


async def only_id(gate: GateProcess, upstream: str, state: str) -> str:
    (found,) = await ids_of(gate, upstream, state)
    return found


async def on_upstream(gate: GateProcess, name: str, what: str) -> Any:
    return await curl(gate.socket, "POST", f"/v1/upstreams/{name}/{what}")


async def change(gate: GateProcess, name: str, **limits: Any) -> Any:
    return await curl(gate.socket, "PATCH", f"/v1/upstreams/{name}", limits)


# ---- cancel


@pytest.mark.parametrize("path", [MESSAGES, CHAT, OLLAMA])
async def test_cancelled_while_it_waits_it_never_reaches_the_server(gate: GateProcess, hands: Hands, path: str) -> None:
    runs = await gate.ask("one")
    turn = await hands.turn()
    waits, whole = await gate.ask("one", path=path), await gate.ask("one", path=path, stream=False)
    await gate.wait_waiting("one", 2)
    for name in await ids_of(gate, "one", "waiting"):
        answer = await curl(gate.socket, "DELETE", f"/v1/requests/{name}")
        assert (answer["request"]["state"], answer["request"]["outcome"]) == ("done", "cancelled")
    assert b"(CANCELLED)" in await waits.body()
    head = await whole.head()
    assert (head.status, head.headers["llmgate-code"], head.headers["x-should-retry"]) == (503, "CANCELLED", "false")
    assert "an operator cancelled this request" in str(await whole.json())
    await turn.complete()
    await runs.body()
    await gate.wait(gate.is_idle)
    assert hands.untaken == 0
    assert sum("cancelled after" in line and UID in line for line in gate.new_log) == 2


async def test_cancelled_while_it_runs_it_frees_its_slot_for_the_next(gate: GateProcess, hands: Hands) -> None:
    runs = await gate.ask("one")
    turn = await hands.turn()
    await turn.begin()
    await runs.until("content_block_start")
    waits = await gate.ask("one")
    await gate.wait_waiting("one", 1)
    answer = await curl(gate.socket, "DELETE", f"/v1/requests/{await only_id(gate, 'one', 'running')}")
    assert answer["request"]["outcome"] == "cancelled"
    assert any(step["text"].startswith("cancelled after") for step in answer["journey"])
    *_, error = await runs.frames()
    assert name_of(error) == "error"
    assert "(CANCELLED)" in data_of(error)["error"]["message"]
    await turn.wait_closed()
    await (await hands.turn()).complete()
    assert names_of(await waits.frames())[-1] == "message_stop"


@pytest.mark.parametrize("path", [MESSAGES, CHAT, OLLAMA])
async def test_cancelled_before_its_answer_began_it_is_told_with_a_status(
    gate: GateProcess, hands: Hands, path: str
) -> None:
    runs = await gate.ask("one", path=path, stream=False)
    turn = await hands.turn()
    await curl(gate.socket, "DELETE", f"/v1/requests/{await only_id(gate, 'one', 'running')}")
    head = await runs.head()
    assert (head.status, head.headers["llmgate-code"]) == (503, "CANCELLED")
    await turn.wait_closed()


async def test_what_is_over_is_a_conflict_and_what_never_was_is_unknown(gate: GateProcess, hands: Hands) -> None:
    client = await gate.ask("one")
    turn = await hands.turn()
    name = await only_id(gate, "one", "running")
    await turn.complete()
    await client.body()
    await gate.wait(gate.is_idle)
    with pytest.raises(Refusal, match="is over: completed"):
        await curl(gate.socket, "DELETE", f"/v1/requests/{name}")
    with pytest.raises(Refusal, match="UNKNOWN_REQUEST"):
        await curl(gate.socket, "DELETE", "/v1/requests/req_0")


# ---- move


async def test_moved_to_the_front_it_is_the_next_and_all_hear_their_positions(gate: GateProcess, hands: Hands) -> None:
    runs = await gate.ask("one")
    turn = await hands.turn()
    first, second = await gate.ask("one-1"), await gate.ask("one-2")
    assert [data_of(await client.frame())["position"] for client in (first, second)] == [1, 2]
    moved = (await ids_of(gate, "one", "waiting"))[1]
    answer = await curl(gate.socket, "POST", f"/v1/requests/{moved}/move")
    assert (answer["position"], answer["depth"]) == (1, 2)
    assert [data_of(await client.frame())["position"] for client in (first, second)] == [2, 1]
    running = await only_id(gate, "one", "running")
    with pytest.raises(Refusal, match="does not wait, so it can not be moved: it is running"):
        await curl(gate.socket, "POST", f"/v1/requests/{running}/move")
    await turn.complete()
    for model in ("one-2", "one-1"):
        turn = await hands.turn()
        assert turn.fields["model"] == model
        await turn.complete()
    for client in (runs, first, second):
        await client.body()
    assert any("moved to the front" in line and UID in line for line in gate.new_log)


# ---- pause, resume, drain


async def test_paused_it_sends_nobody_until_it_is_resumed(gate: GateProcess, hands: Hands) -> None:
    runs = await gate.ask("three")
    turn = await hands.turn()
    assert (await on_upstream(gate, "three", "pause"))["upstream"]["state"] == "paused"
    waits = await gate.ask("three")
    assert data_of(await waits.frame())["position"] == 1
    await turn.complete()
    await runs.body()
    assert gate.get("/readyz?upstream=three")[0] == 503
    assert (hands.untaken, gate.upstream("three")["waiting"]) == (0, 1)
    answer = await on_upstream(gate, "three", "resume")
    assert (answer["upstream"]["state"], answer["changed"]) == ("ok", True)
    await (await hands.turn()).complete()
    await waits.body()
    assert [line for line in gate.new_log if UID in line] != []
    assert any("three paused by uid" in line for line in gate.new_log)
    assert any("three resumed (was paused) by uid" in line for line in gate.new_log)


async def test_drained_it_refuses_newcomers_and_serves_who_waits_to_the_end(gate: GateProcess, hands: Hands) -> None:
    runs, waits = await gate.ask("one"), await gate.ask("one")
    turn = await hands.turn()
    await gate.wait_waiting("one", 1)
    assert (await on_upstream(gate, "one", "drain"))["upstream"]["state"] == "draining"
    refused = await gate.ask("one")
    head = await refused.head()
    assert (head.status, head.headers["llmgate-code"]) == (503, "REFUSED")
    for client in (runs, waits):
        await turn.complete()
        assert names_of(await client.frames())[-1] == "message_stop"
        if client is runs:
            turn = await hands.turn()
    await gate.wait(gate.is_idle)
    await gate.wait(lambda: any(line.endswith("one drained") for line in gate.new_log))
    await on_upstream(gate, "one", "resume")
    again = await gate.ask("one")
    await (await hands.turn()).complete()
    assert (await again.head()).status == 200
    await again.body()


# ---- limits


async def test_a_higher_cap_wakes_who_waits_and_a_lower_one_kills_nobody(gate: GateProcess, hands: Hands) -> None:
    clients = [await gate.ask("one") for _ in range(3)]
    turns = [await hands.turn()]
    await gate.wait_waiting("one", 2)
    answer = await change(gate, "one", max_concurrent=3)
    assert (answer["old"]["max_concurrent"], answer["new"]["max_concurrent"]) == (1, 3)
    turns += [await hands.turn(), await hands.turn()]
    assert (await change(gate, "one", max_concurrent=1))["note"].startswith("3 run on")
    fourth = await gate.ask("one")
    await gate.wait_waiting("one", 1)
    for turn, client in zip(turns, clients, strict=True):
        assert hands.untaken == 0
        await turn.complete()
        await client.body()
    await (await hands.turn()).complete()
    await fourth.body()


async def test_a_longer_queue_timeout_holds_for_those_without_a_stream_too(gate: GateProcess, hands: Hands) -> None:
    """The limit of the settings is 300 ms."""
    runs = await gate.ask("hasty")
    turn = await hands.turn()
    await change(gate, "hasty", queue_timeout=600)
    try:
        waits, whole = await gate.ask("hasty"), await gate.ask("hasty", stream=False)
        await gate.wait_waiting("hasty", 2)
        left = [view["deadline_ms"] - view["arrived_ms"] for view in gate.requests("waiting")]
        assert sorted(left) == [270_000, 600_000], "queue_timeout_nonstream is a limit of its own"
        await turn.complete()
        await runs.body()
        for client in (waits, whole):
            await (await hands.turn()).complete()
            await client.body()
    finally:
        await change(gate, "hasty", queue_timeout=0.3)


async def test_max_queued_zero_refuses_at_once(gate: GateProcess, hands: Hands) -> None:
    runs = await gate.ask("one")
    turn = await hands.turn()
    await change(gate, "one", max_queued=0)
    refused = await gate.ask("one")
    assert (await refused.head()).headers["llmgate-code"] == "QUEUE_FULL"
    await change(gate, "one", max_queued=None)
    waits = await gate.ask("one")
    await gate.wait_waiting("one", 1)
    await turn.complete()
    await (await hands.turn()).complete()
    await runs.body()
    await waits.body()


async def test_a_bad_value_changes_nothing(gate: GateProcess) -> None:
    with pytest.raises(Refusal, match="max_concurrent must be a whole number, 0 \\(not gated\\) or more"):
        await change(gate, "one", max_concurrent=-1, max_queued=5)
    assert (await curl(gate.socket, "GET", "/v1/upstreams/one"))["upstream"]["max_queued"] is None


# ---- following


async def test_curl_follows_and_comes_back_without_missing_anything(gate: GateProcess) -> None:
    async def follow(*more: str) -> list[bytes]:
        client = await Client.connect(str(gate.socket))
        header = "".join(f"{line}\r\n" for line in more)
        client.send(f"GET /v1/events HTTP/1.1\r\nhost: x\r\n{header}\r\n".encode())
        return [await client.frame() for _ in range(1 if not more else 3)]

    (snapshot,) = await follow()
    name = snapshot.split(b"\n")[0].removeprefix(b"id: ").decode()
    assert data_of(snapshot)["status"]["may_act"] is True
    await on_upstream(gate, "one", "pause")
    await on_upstream(gate, "one", "resume")
    missed = await follow(f"last-event-id: {name}")
    assert [data_of(frame)["type"] for frame in missed] == ["event", "event", "progress"]
    assert [data_of(frame)["event"]["by"].split(" (")[0] for frame in missed[:2]] == [UID.removeprefix("by ")] * 2
    first, second = (data_of(frame)["number"] for frame in missed[:2])
    assert (first, second) == (data_of(snapshot)["number"] + 1, data_of(snapshot)["number"] + 2)


async def test_the_settings_are_shown_with_their_origin(gate: GateProcess) -> None:
    shown = {value["key"]: value for value in (await curl(gate.socket, "GET", "/v1/config"))["values"]}
    cap = shown["upstreams.small.max_queued"]
    assert (cap["value"], cap["reload"]) == (1, "live")
    assert cap["origin"].startswith(f"{gate.folder}/llmgate.toml:")
    assert shown["admin.history"]["value"] == 20_000
    assert shown["waiting.openai_keepalive"] == {
        "key": "waiting.openai_keepalive",
        "value": "comment",
        "origin": "default",
        "reload": "live",
    }


async def test_a_reload_is_told_with_who_asked_for_it(gate: GateProcess) -> None:
    client = await Client.connect(str(gate.socket))
    client.send(b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n")
    await client.frame()
    answer = await curl(gate.socket, "POST", "/v1/reload")
    assert (answer["changed"], answer["error"]) == ([], "")
    event = data_of(await client.frame())["event"]
    assert (event["kind"], event["upstream"]) == ("settings_reloaded", "")
    assert event["by"].startswith(UID.removeprefix("by "))
    shown = {value["key"]: value for value in (await curl(gate.socket, "GET", "/v1/config"))["values"]}
    assert shown["upstreams.small.max_queued"]["origin"].startswith(str(gate.folder)), "origins outlive a reload"
