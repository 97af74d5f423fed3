"""What real programs sent, sent once more: the gate knows who asks, and their server gets what they said."""

from pathlib import Path
from typing import Any

import pytest
from gateprocess import ROOT, GateProcess
from hands import Hands
from rawclient import Client
from seen import SEEN, Seen

from llmgate.cli.connect.clients import CLIENTS
from llmgate.cli.connect.recipe import Client as Known
from llmgate.cli.connect.recipe import dump
from llmgate.cli.connect.target import Target


async def test_who_asks_is_known_and_what_was_said_arrives(tmp_path: Path) -> None:
    async with Hands() as hands:
        upstream = {"url": hands.url, "models": ["m"], "max_concurrent": 1}
        with GateProcess(tmp_path, {"upstreams": {"a": upstream}}) as gate:
            told = [await ask(gate, hands, seen) for seen in SEEN]
            assert gate.get("/llm", method="HEAD") == (200, None)  # Claude Code 2.1.197 asks this first
        await Client.close_all()
    versions = [seen.version if seen.told_version is None else seen.told_version for seen in SEEN]
    assert told == [
        {"client": seen.client, "client_version": version, "session": seen.session, "purpose": seen.purpose}
        for seen, version in zip(SEEN, versions, strict=True)
    ]


async def ask(gate: GateProcess, hands: Hands, seen: Seen) -> dict[str, Any]:
    """What the gate tells of the request, while it runs."""
    client = await Client.connect(gate.port)
    client.post(seen.target, seen.body("m"), {**seen.headers, **seen.own})
    turn = await hands.turn()
    assert turn.request.line == b"POST %b HTTP/1.1" % seen.target.removeprefix("/llm").encode(), seen
    assert turn.fields == {"model": "m", **seen.fields}, seen
    (view,) = gate.requests("running")
    await turn.complete()
    assert (await client.head()).status == 200, seen
    await client.body()
    await gate.wait(gate.is_idle)
    return {key: view[key] for key in ("client", "client_version", "session", "purpose")}


@pytest.mark.parametrize("seen", SEEN, ids=str)
def test_its_version_is_said_to_be_tried_and_its_headers_are_written(seen: Seen) -> None:
    (client,) = (client for client in CLIENTS.values() if client.title == seen.program)
    assert client.tried.partition(",")[0] == seen.version
    written = "".join(dump(file.format, file.values) for file in client.render(Target("http://h/llm")).files)
    for name, value in seen.own.items():
        assert f"{name}: {value}" in written


@pytest.mark.parametrize(
    "client", [client for client in CLIENTS.values() if client.tried], ids=lambda client: client.name
)
def test_what_was_tried_is_kept_here_and_stands_in_the_manual(client: Known) -> None:
    assert client.title in {seen.program for seen in SEEN}
    assert f"{client.title} {client.tried.partition(',')[0]}" in " ".join((ROOT / "man/llmgate.1").read_text().split())
