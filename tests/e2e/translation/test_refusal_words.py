"""What of a request cannot be translated its client is told, and nobody else: not the log, not an operator."""

import asyncio

import pytest
from canaries import leaks, make_canaries
from chatserver import ChatServer
from gateprocess import GateProcess

CANARIES = make_canaries(7, ("role", "block", "tool", "choice"))
HELLO = {"role": "user", "content": "Hello"}
FIELDS = {
    "role": {"messages": [HELLO, {"role": CANARIES["role"], "content": "x"}]},
    "block": {"messages": [{"role": "user", "content": [{"type": CANARIES["block"]}]}]},
    "tool": {"tools": [{"name": CANARIES["tool"]}]},
    "choice": {
        "tools": [{"name": "t", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": CANARIES["choice"]},
    },
}
"""Each is refused by the translation, in words that quote it."""


async def read_events(gate: GateProcess) -> str:
    """All that are kept, up to the first that was refused so."""
    reader, writer = await asyncio.open_unix_connection(str(gate.socket), limit=1 << 24)
    writer.write(b"GET /v1/events?events=10000 HTTP/1.1\r\nhost: x\r\n\r\n")
    async with asyncio.timeout(30):
        told = await reader.readuntil(b"cannot be translated")
    writer.close()
    return told.decode()


@pytest.mark.parametrize("place", FIELDS)
async def test_f65_what_cannot_be_translated_after_all_is_quoted_to_its_client_only(
    gate: GateProcess, server: ChatServer, place: str
) -> None:
    """Its server is taken for one that speaks Messages until it has the request, so that it has a place by then."""
    model = f"quoted-{place}"
    client = await gate.ask(model, stream=False, **FIELDS[place])
    assert (await client.head()).status == 400
    assert set(leaks((await client.body()).decode(), CANARIES)) == {place}
    assert server.asked == ["/v1/messages"]
    await gate.wait(gate.is_idle)
    (view,) = [one for one in gate.requests("done") if one["model"] == model]
    assert (view["outcome"], view["reason"]) == ("refused", "its request cannot be translated for this server")
    events = await read_events(gate)
    assert leaks(events + str(gate.requests("done")) + gate.log, CANARIES) == {}
