"""F57: of everything that could be two requests, the server behind the gate sees one or none."""

import pytest
from gateprocess import GateProcess
from hands import Hands, is_question
from puppet import Request
from rawclient import Client

from tests.e2e.front.smuggling import BODY, FOLLOWING, OURS, REFUSED, TAKEN


def seen(hands: Hands) -> list[Request]:
    """What arrived at the server but for the gate's own questions; every byte that came belongs to one of them."""
    for connection in hands.connections:
        assert connection._read_to == len(connection.received), connection.received
    return [request for request in hands.requests if not is_question(request)]


async def ask_plainly(gate: GateProcess, hands: Hands) -> None:
    """A request like others goes through; what was sent to the server before it has arrived with it."""
    client = await gate.ask("one", stream=False, metadata={"user_id": "last"})
    turn = await hands.turn()
    assert turn.fields["metadata"] == {"user_id": "last"}
    await turn.complete()
    await client.json()


def pieces_of(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1 << 20, 7])
@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
async def test_f57_what_can_be_misunderstood_reaches_no_server(
    gate: GateProcess, hands: Hands, data: bytes, size: int
) -> None:
    client = await Client.connect(gate.port)
    for piece in pieces_of(data, size):
        client.send(piece)
    answer = await client.wait_closed()
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"\r\nconnection: close\r\n" in answer
    assert answer.count(b"HTTP/1.1 400 ") == 1
    await ask_plainly(gate, hands)
    assert len(seen(hands)) == 1
    assert hands.untaken == 0


@pytest.mark.parametrize("size", [1 << 20, 7])
@pytest.mark.parametrize("data", TAKEN.values(), ids=TAKEN)
async def test_f57_what_is_only_odd_is_one_request(gate: GateProcess, hands: Hands, data: bytes, size: int) -> None:
    client = await Client.connect(gate.port)
    for piece in pieces_of(data, size):
        client.send(piece)
    turn = await hands.turn()
    assert turn.request.body == BODY
    lower = turn.request.head.lower()
    assert lower.count(b"content-length:") == lower.count(b"\r\nhost:") == 1
    assert b"transfer-encoding" not in lower.replace(b"x-transfer-encoding", b"").replace(b"transfer_encoding", b"")
    await turn.complete()
    assert (await client.head()).status == 200
    assert (await client.wait_closed()).count(b"HTTP/1.1 ") == 0
    await ask_plainly(gate, hands)
    assert len(seen(hands)) == 2
    assert hands.untaken == 0


async def test_f57_a_body_that_no_method_expects_is_no_request(gate: GateProcess, hands: Hands) -> None:
    """Every method with every framing: one answer, of ours, and the request inside of the body does not run, whether it
    comes with the head or behind the answer."""
    for name, data in OURS.items():
        head, _, body = data.partition(b"\r\n\r\n")
        for first, second in ((data, b""), (head + b"\r\n\r\n", body)):
            client = await Client.connect(gate.port)
            for piece in pieces_of(first, 7):
                client.send(piece)
            await client.head()
            client.send(second + FOLLOWING)  # too early, where the end of the answer is not sent: then it is dropped
            rest = await client.wait_closed()
            assert rest.count(b"HTTP/1.1 ") == rest.count(b"HTTP/1.1 200 OK") <= 1, (name, rest)
            assert seen(hands) == [], name
    await ask_plainly(gate, hands)
    assert len(seen(hands)) == 1
    assert hands.untaken == 0
