"""What a key opens once it let a request in: its models, its share."""

import asyncio
import hashlib
from typing import Any

import pytest
from gateprocess import CHAT, MESSAGES
from hands import Hands
from rawclient import Client

from llmgate.core.access import Access
from llmgate.core.keys import ClientKey, ClientKeys
from llmgate.errors import KeyLimit, ModelNotAllowed, UnknownModel
from llmgate.server.permission import counted, find_route
from tests.server.house import House, OpenHouse

SECRET = {"x-api-key": "secret"}


def key(**fields: Any) -> ClientKey:
    return ClientKey(name="laptop", digest=hashlib.sha256(b"secret").digest(), **fields)


async def test_the_model_as_asked_for_or_as_served(house: House) -> None:
    def find(model: str, *models: str) -> str:
        return find_route(house.services, Access(key=key(models=models)), model).model

    assert find("m", "m") == "m"
    assert find("nick", "nick") == "m-real"
    assert find("nick", "m-*") == "m-real"
    assert find("m", *()) == "m"
    assert find_route(house.services, Access(), "m").model == "m"
    assert find_route(house.services, Access(), "anything", "reasoning").model == "anything"
    for model, allowed in (("m", "m-*"), ("nick", "m"), ("nothing", "no*")):
        with pytest.raises(ModelNotAllowed) as refused:
            find(model, allowed)
        assert "org/big" not in str(refused.value)
    with pytest.raises(UnknownModel):
        find_route(house.services, Access(key=key()), "nothing")
    for model, allowed in (("b", "a"), ("nick", "m-*")):
        with pytest.raises(ModelNotAllowed):
            find_route(house.services, Access(key=key(models=(allowed,))), model, "reasoning")


@pytest.mark.parametrize("path", [MESSAGES, CHAT, "/api/chat", "/v1/messages/count_tokens", "/api/show"])
async def test_another_model_is_refused_in_the_surfaces_shape(house: House, path: str) -> None:
    house.services.keys = ClientKeys([key(models=("org/*",))])
    client = await house.ask(path=path, headers=SECRET)
    head = await client.head()
    assert (head.status, head.headers["llmgate-code"]) == (403, "MODEL_NOT_ALLOWED")
    error = (await client.json())["error"]
    text = error if path.startswith("/api/") else error["message"]
    assert text == (
        "llmgate: this key may not use the model 'm', or there is none; it may use org/* (MODEL_NOT_ALLOWED)"
    )
    assert house.events == []


async def test_a_key_for_some_models_passes_nothing_else_on(open_house: OpenHouse, hands: Hands) -> None:
    house = await open_house(upstream={"passthrough": True})
    house.services.keys = ClientKeys([key(models=("m",))])
    client = await Client.connect(house.port)
    client.post("/upstream/reasoning/api/delete", b'{"model":"m"}', SECRET)
    head = await client.head()
    assert (head.status, head.headers["llmgate-code"]) == (403, "NOT_ALLOWED")
    await client.body()
    asked = await house.ask(path="/upstream/reasoning/v1/messages", headers=SECRET)
    await (await hands.turn()).complete()
    assert (await asked.head()).status == 200
    await asked.body()
    assert len(hands.connections) == 1


async def test_a_key_for_some_models_gets_them_where_they_are_only(house: House) -> None:
    """The server of another upstream, one with a single model, may serve it under every name."""
    access = Access(key=key(models=("m",)))
    home = house.services.routes.find("m").upstream
    assert find_route(house.services, access, "m", home).upstream == home
    with pytest.raises(ModelNotAllowed):
        find_route(house.services, access, "m", "other")
    assert find_route(house.services, Access(key=key()), "m", "other").upstream == "other"


async def test_the_limit_of_a_key_is_told_where_anything_is_passed_on(open_house: OpenHouse, hands: Hands) -> None:
    house = await open_house(upstream={"passthrough": True})
    house.services.keys = ClientKeys([key(max_concurrent=1)])
    first = await house.ask(headers=SECRET)
    turn = await hands.turn()
    second = await house.ask(path="/upstream/reasoning/completion", headers=SECRET)
    head = await second.head()
    assert (head.status, head.headers["llmgate-code"], head.headers["llmgate-limit"]) == (429, "KEY_LIMIT", "1")
    assert int(head.headers["retry-after"]) >= 1
    assert (await second.json())["error"]["code"] == "KEY_LIMIT"
    await turn.complete()
    await first.body()


async def test_a_key_has_its_own_limit_and_those_that_wait_count(open_house: OpenHouse, hands: Hands) -> None:
    house = await open_house(upstream={"max_concurrent": 1})
    other = ClientKey(name="other", digest=hashlib.sha256(b"other").digest())
    house.services.keys = ClientKeys([key(max_concurrent=2), other])
    first = await house.ask(headers=SECRET)
    turn = await hands.turn()
    second = await house.queue(1, headers=SECRET)
    third = await house.ask(headers=SECRET, stream=False)
    head = await third.head()
    assert (head.status, head.headers["llmgate-code"], head.headers["llmgate-limit"]) == (429, "KEY_LIMIT", "2")
    assert 1 <= int(head.headers["retry-after"]) <= 10
    assert "x-should-retry" not in head.headers
    assert (await third.json())["error"]["type"] == "rate_limit_error"
    neighbour = await house.queue(2, headers={"x-api-key": "other"})
    house.services.keys = ClientKeys([key(max_concurrent=2), other])
    assert (await (await house.ask(headers=SECRET)).head()).status == 429
    second.fin()
    await house.wait(lambda: house.figures.waiting == 1)
    await house.wait(lambda: house.services.key_counts["laptop"] == 1)
    last = await house.queue(2, headers=SECRET)
    for client, one in ((first, turn), (neighbour, None), (last, None)):
        await (one or await hands.turn()).complete()
        await client.body()
    await house.wait(lambda: house.services.key_counts["laptop"] == 0)
    assert "queue_full" not in house.outcomes


async def test_every_way_out_gives_the_share_back(house: House) -> None:
    access = Access(key=key(max_concurrent=1))

    async def one(error: BaseException | None) -> None:
        with counted(house.services, access):
            assert house.services.key_counts["laptop"] == 1
            if error is not None:
                raise error

    for error in (None, ValueError(), asyncio.CancelledError()):
        try:
            await one(error)
        except (ValueError, asyncio.CancelledError) as raised:
            assert raised is error  # noqa: PT017
        assert house.services.key_counts["laptop"] == 0
    with counted(house.services, access), pytest.raises(KeyLimit), counted(house.services, access):
        raise AssertionError("two came in")
    with counted(house.services, Access()):
        assert house.services.key_counts["laptop"] == 0
