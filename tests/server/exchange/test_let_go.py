"""Whatever becomes of a request, all that it held goes when it is over, without the collector of circles: that comes
after thousands of requests, and a body may have megabytes."""

import contextlib
import gc
from collections.abc import Awaitable, Callable, Iterator

import pytest
from gateprocess import CHAT, MESSAGES
from hands import Hands, free_port
from rawclient import Client

from llmgate.admission.place import LocalPlace
from llmgate.errors import Refused
from llmgate.protocols.surface import ModelRequest
from llmgate.server.count import TokenCount
from llmgate.server.cycle import Cycle
from llmgate.server.errand import Errand
from llmgate.server.http_protocol import GateProtocol
from llmgate.server.relay import Relay
from llmgate.server.reply import Reply
from llmgate.server.voice import Voice
from llmgate.server.whole import Whole
from llmgate.upstreams.wire import WireAnswer
from tests.server.house import UPSTREAM, House, OpenHouse

OF_A_REQUEST = (
    Cycle,
    Errand,
    GateProtocol,
    LocalPlace,
    ModelRequest,
    Relay,
    Reply,
    TokenCount,
    Voice,
    Whole,
    WireAnswer,
)

Scene = Callable[[House, Hands], Awaitable[object]]


@contextlib.contextmanager
def nobody_collects() -> Iterator[Callable[[], list[object]]]:
    """Gives what there is of requests that began inside."""
    gc.collect()
    gc.freeze()  # what was there before is not looked at, and stays so: it is much, and thawed each test would count it
    gc.disable()
    try:
        yield lambda: [one for one in gc.get_objects() if isinstance(one, OF_A_REQUEST)]
    finally:
        gc.enable()


async def is_served(house: House, hands: Hands, path: str = MESSAGES, *, stream: bool = True) -> Client:
    client = await house.ask(path=path, stream=stream)
    await (await hands.turn()).complete()
    await client.body()
    return client


async def waits(house: House, hands: Hands, *, stream: bool = True) -> None:
    """Behind another one, and is served."""
    first, turn = await house.occupy()
    second = await house.queue(stream=stream)
    await turn.end()
    await first.body()
    await (await hands.turn()).complete()
    await second.body()


async def leaves_the_line(house: House, hands: Hands) -> None:
    first, turn = await house.occupy()
    (await house.queue()).fin()
    await house.wait(lambda: "abandoned" in house.outcomes)
    await turn.end()
    await first.body()


async def leaves_its_slot(house: House, hands: Hands) -> None:
    client, turn = await house.occupy()
    client.reset()
    await turn.wait_closed()


async def leaves_before_its_head(house: House, hands: Hands, *, stream: bool = True) -> None:
    client = await house.ask(stream=stream)
    turn = await hands.turn()
    client.fin()
    await turn.wait_closed()


async def leaves_its_count(house: House, hands: Hands) -> None:
    client = await house.ask(path=MESSAGES + "/count_tokens")
    turn = await hands.turn()
    client.fin()
    await turn.wait_closed()


async def is_broken_off(house: House, hands: Hands) -> None:
    client, turn = await house.occupy()
    turn.connection.close()
    await client.body()


async def loses_its_server(house: House, hands: Hands, *, stream: bool = True) -> None:
    client = await house.ask(stream=stream)
    (await hands.turn()).connection.close()
    await client.body()


async def gets_an_error(house: House, hands: Hands) -> None:
    client = await house.ask()
    await (await hands.turn()).answer(500, b'{"error":{"message":"no"}}')
    await client.body()


async def is_told_and_ends_later(house: House, hands: Hands) -> None:
    """All of the stream is there before the end of its message."""
    client, turn = await house.occupy()
    await turn.say(turn.spoken.stream.removeprefix(turn.spoken.start))
    await client.body()


async def cannot_be_read(house: House, hands: Hands) -> None:
    client = await Client.connect(house.port)
    client.post(CHAT, b'{"model": ')
    await client.body()


async def asks_for_no_model_of_ours(house: House, hands: Hands) -> None:
    await (await house.ask("nobody")).body()


async def has_no_method_of_ours(house: House, hands: Hands) -> None:
    client = await Client.connect(house.port)
    client.send(b"BREW /llm/v1/messages HTTP/1.1\r\nhost: x\r\n\r\n")
    await client.body()


async def leaves_its_body(house: House, hands: Hands) -> None:
    client = await Client.connect(house.port)
    client.send(b"POST /llm/v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhal")
    await house.wait(lambda: bool(house.http._server.server_state.tasks))
    client.fin()


SCENES: dict[str, Scene] = {
    "a stream": is_served,
    "a whole answer": lambda house, hands: is_served(house, hands, stream=False),
    "another surface": lambda house, hands: is_served(house, hands, CHAT),
    "waited": waits,
    "waited for a whole answer": lambda house, hands: waits(house, hands, stream=False),
    "left the line": leaves_the_line,
    "left its slot": leaves_its_slot,
    "left before its head": leaves_before_its_head,
    "left before its whole answer": lambda house, hands: leaves_before_its_head(house, hands, stream=False),
    "left its count": leaves_its_count,
    "broken off": is_broken_off,
    "lost its server": loses_its_server,
    "lost its server before a whole answer": lambda house, hands: loses_its_server(house, hands, stream=False),
    "an error of the server": gets_an_error,
    "told before its end": is_told_and_ends_later,
    "nothing to be read": cannot_be_read,
    "no such model": asks_for_no_model_of_ours,
    "no such method": has_no_method_of_ours,
    "left in its body": leaves_its_body,
}


async def close_clients(house: House) -> None:
    await Client.close_all()
    await house.wait(lambda: not house.http._server.server_state.connections)


async def all_goes(house: House, left: Callable[[], list[object]]) -> None:
    await close_clients(house)
    try:
        await house.wait(lambda: not left())
    except TimeoutError:
        raise AssertionError(sorted({type(one).__name__ for one in left()})) from None


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
async def test_nothing_of_it_is_left(house: House, hands: Hands, scene: Scene) -> None:
    with nobody_collects() as left:
        await scene(house, hands)
        await all_goes(house, left)


@pytest.mark.parametrize("name", ["a whole answer", "left before its whole answer", "waited for a whole answer"])
async def test_nor_of_an_answer_that_is_put_together(open_house: OpenHouse, hands: Hands, name: str) -> None:
    house = await open_house(upstream={"force_stream": True})
    with nobody_collects() as left:
        await SCENES[name](house, hands)
        await all_goes(house, left)


async def test_nor_of_what_is_passed_straight_through(open_house: OpenHouse, hands: Hands) -> None:
    house = await open_house(upstream={"passthrough": True})
    path = f"/llm/upstream/{UPSTREAM}/v1/messages"
    with nobody_collects() as left:
        await is_served(house, hands, path)
        client = await house.ask(path=path)
        turn = await hands.turn()
        await turn.begin()
        await client.head()
        client.fin()
        await turn.wait_closed()
        await all_goes(house, left)


async def test_nor_of_one_whose_server_is_not_there(open_house: OpenHouse) -> None:
    house = await open_house(f"http://127.0.0.1:{free_port()}")
    with nobody_collects() as left:
        await (await house.ask()).body()
        await all_goes(house, left)


async def test_nor_of_those_that_find_no_room_or_wait_too_long(open_house: OpenHouse, hands: Hands) -> None:
    house = await open_house(upstream={"max_queued": 1})
    with nobody_collects() as left:
        first, turn = await house.occupy()
        late = await house.queue(headers={"llmgate-max-wait": "200ms"})
        await (await house.ask()).body()
        await late.body()
        await turn.end()
        await first.body()
        await all_goes(house, left)


async def test_nor_of_one_that_hears_signs_of_life(open_house: OpenHouse, hands: Hands) -> None:
    house = await open_house(waiting={"heartbeat": 0.05, "nonstream_keepalive": "whitespace"})
    with nobody_collects() as left:
        first, turn = await house.occupy()
        second = await house.queue(stream=False)
        await second.head()
        second.reset()
        await house.wait(lambda: house.figures.waiting == 0)
        await turn.end()
        await first.body()
        await all_goes(house, left)


async def test_nor_of_a_request_on_a_kept_connection(house: House, hands: Hands) -> None:
    """But for the newest one."""
    with nobody_collects() as left:
        client = await Client.connect(house.port)
        for _ in range(5):
            client.next_answer()
            client.post(MESSAGES, b'{"model":"m","max_tokens":9,"stream":true,"messages":[]}')
            await (await hands.turn()).complete()
            await client.body()
        await house.wait(lambda: sum(isinstance(one, Errand) for one in left()) == 0)
        await all_goes(house, left)


async def test_nor_of_those_that_are_stopped(house: House, hands: Hands) -> None:
    with nobody_collects() as left:
        await house.occupy()
        await house.queue()
        for exchange in list(house.services.running):
            exchange.give_up()
            exchange.stop(Refused("llmgate: it stops (REFUSED)"))
        del exchange
        await house.wait(lambda: house.taken == (0, 0, 0))
        await all_goes(house, left)
