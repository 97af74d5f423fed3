"""What a key opens once it let a request in: its models, its share."""

import asyncio
import hashlib
from typing import Any

import pytest
from gateprocess import CHAT, MESSAGES, request_body
from hands import STOP, Hands, Turn
from rawclient import Client, post

from llmgate.core.access import Access
from llmgate.core.keys import ClientKey, ClientKeys
from llmgate.errors import KeyLimit, ModelNotAllowed, UnknownModel
from llmgate.server.count import TokenCount
from llmgate.server.permission import counted, find_route
from tests.server.holding import HoldStage, refuse
from tests.server.house import UPSTREAM, House, OpenHouse
from tests.server.passing import PassStage
from tests.server.stage import play, settle

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


# ---- keys that a reload takes away


OTHER = ClientKey(name="other", digest=hashlib.sha256(b"other").digest())
GONE = [ClientKeys([OTHER]), ClientKeys([OTHER, key(disabled=True)])]
UNAUTHORIZED = "llmgate: the key of this request was taken away before it was sent on (UNAUTHORIZED)"
NARROWED = "llmgate: this key may not use this model any more (MODEL_NOT_ALLOWED)"


async def hold(house: House, hands: Hands) -> tuple[Client, Turn]:
    """One of this key runs."""
    house.services.keys = ClientKeys([key(), OTHER])
    client = await house.ask(headers=SECRET)
    return client, await hands.turn()


@pytest.mark.parametrize("keys", [*GONE, ClientKeys([OTHER, key(models=("org/*",))])], ids=["gone", "off", "narrowed"])
@pytest.mark.parametrize("path", [MESSAGES, CHAT, "/v1/responses", "/api/chat"])
async def test_who_waits_under_a_key_that_is_taken_away_is_sent_away(
    house: House, hands: Hands, path: str, keys: ClientKeys
) -> None:
    runs, turn = await hold(house, hands)
    streams = await house.queue(1, path=path, headers=SECRET)
    silent = await house.queue(2, path=path, headers=SECRET, stream=False)
    stays = await house.queue(3, path=path, headers={"x-api-key": "other"})
    house.services.set_keys(keys)
    assert house.figures.waiting == 1, "their places are free at once"
    text = NARROWED if len(list(keys)) == 2 and not list(keys)[1].disabled else UNAUTHORIZED
    head = await silent.head()
    assert head.status == (403 if text == NARROWED else 401)
    assert head.headers["llmgate-code"] in text
    assert head.headers.get("www-authenticate") == ("Bearer" if text == UNAUTHORIZED else None)
    error = (await silent.json())["error"]
    assert (error if path.startswith("/api/") else error["message"]) == text
    assert text in (await streams.body()).decode()
    await turn.complete()
    assert (await runs.body()).endswith(STOP), "what runs goes on"
    await (await hands.turn()).complete()
    await stays.body()
    assert house.outcomes == ["refused", "refused", "completed", "completed"]
    assert house.services.turned_away.counts == {text.split("(")[-1][:-1]: 2}


async def test_keys_that_stay_as_they_are_or_that_nobody_asks_for_send_nobody_away(house: House, hands: Hands) -> None:
    runs, turn = await hold(house, hands)
    waits = await house.queue(1, headers=SECRET)
    for keys in ([key(), OTHER], [key(models=("m",), max_concurrent=1)], [key(models=("m-real", "nick", "m"))], []):
        house.services.set_keys(ClientKeys(keys))
    assert house.figures.waiting == 1
    await turn.complete()
    await runs.body()
    await (await hands.turn()).complete()
    await waits.body()


def test_one_that_waits_for_its_server_again_is_sent_away_too() -> None:
    play(ask_a_server_that_is_not_there())


async def ask_a_server_that_is_not_there() -> None:
    stage = HoldStage()
    stage.services.keys = ClientKeys([key()])
    wire = stage.ask(x_api_key="secret")
    await settle()
    await refuse(stage.calls[0])
    stage.services.set_keys(GONE[0])
    await settle()
    assert UNAUTHORIZED.encode() in wire.answer.body
    assert wire.answer.ended
    await stage.come_back()
    assert len(stage.calls) == 1
    stage.check_over()


@pytest.mark.parametrize("passes_on", [False, True], ids=["exchange", "passage"])
def test_one_that_only_has_to_take_its_error_is_let_be(passes_on: bool) -> None:
    """It waits for nothing any more: nobody was refused."""
    play(take_an_error_slowly(passes_on=passes_on))


async def take_an_error_slowly(*, passes_on: bool) -> None:
    stage = PassStage()
    stage.services.keys = ClientKeys([key(), OTHER])
    first = stage.pass_on(x_api_key="other")
    await settle()
    await stage.begin(stage.calls[0])
    wire = stage.connect()
    wire.block()
    headers = {"x-api-key": "secret", "llmgate-max-wait": "0"}
    wire.send(post(f"/upstream/{UPSTREAM}/completion" if passes_on else CHAT, request_body("m"), headers))
    await settle()
    assert (stage.outcomes, len(stage.services.running)) == (["queue_full"], 2)
    stage.services.set_keys(GONE[0])
    await settle()
    assert stage.services.turned_away.counts == {}
    wire.unblock()
    await settle()
    assert (wire.answer.headers["llmgate-code"], wire.answer.ended, wire.aborted) == ("QUEUE_FULL", True, False)
    stage.calls[0].end(b"{}")
    await settle()
    assert first.answer.is_whole
    stage.check_over()


async def test_a_slot_that_came_in_the_same_moment_is_not_used(house: House, hands: Hands) -> None:
    """As a reload that raises a limit does it."""
    runs, turn = await hold(house, hands)
    waits = await house.queue(1, headers=SECRET)
    house.set_cap(2)
    assert house.taken == (0, 2, 0)
    house.services.set_keys(GONE[0])
    assert house.taken == (0, 1, 0)
    assert UNAUTHORIZED in (await waits.frames())[-1].decode()
    await turn.complete()
    await runs.body()
    assert len(hands.requests) == 1


async def test_whose_body_is_still_coming_is_not_let_in(house: House, hands: Hands) -> None:
    house.services.keys = ClientKeys([key()])
    client = await Client.connect(house.port)
    whole = post(MESSAGES, request_body("m"), SECRET)
    client.send(whole[:-5])
    await house.wait(lambda: bool(house.http._server.server_state.tasks))
    house.services.set_keys(GONE[1])
    client.send(whole[-5:])
    head = await client.head()
    assert (head.status, head.headers["llmgate-code"]) == (401, "UNAUTHORIZED")
    await client.body()
    assert house.events == []


@pytest.mark.parametrize("keys", [GONE[0], ClientKeys([OTHER, key(models=("m",))])], ids=["gone", "narrowed"])
async def test_what_is_passed_on_as_it_is_too_but_not_what_needs_no_slot(
    open_house: OpenHouse, hands: Hands, keys: ClientKeys
) -> None:
    house = await open_house(upstream={"passthrough": True})
    runs, turn = await hold(house, hands)
    waits = await house.queue(1, path="/upstream/reasoning/completion", headers=SECRET)
    straight = await Client.connect(house.port)
    straight.send(b"GET /upstream/reasoning/props HTTP/1.1\r\nhost: localhost\r\nx-api-key: secret\r\n\r\n")
    second = await hands.turn()
    house.services.set_keys(keys)
    head = await waits.head()
    assert head.headers["llmgate-code"] == ("UNAUTHORIZED" if keys is GONE[0] else "NOT_ALLOWED")
    await waits.body()
    await second.answer(200, b"{}")
    assert await straight.body() == b"{}"
    await turn.complete()
    await runs.body()


async def test_a_count_that_is_under_way_goes_on(house: House) -> None:
    count = TokenCount(house.services, {"headers": [], "query_string": b""}, lambda: None)  # type: ignore[arg-type]
    count.check_key()
    assert count._cut_by is None
