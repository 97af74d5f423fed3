"""A reload calls the upstream otherwise, or drops it, while a request is on its way there."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from gateprocess import MESSAGES, request_body
from rawclient import post
from virtual_loop import this_loop

from llmgate.core.access import Access
from llmgate.core.keys import ClientKey, ClientKeys
from llmgate.server import exchange
from llmgate.server.asgi import ACCESS
from tests.server.calls import answer
from tests.server.passing import HERE
from tests.server.renaming import OTHER, dropped, renamed
from tests.server.stage import Stage, Wire, play, settle
from tests.server.states import waiting, waiting_in_silence

if TYPE_CHECKING:
    import asyncio


class Slow:
    """What is done aside takes until `go`, once for each call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._waiting: list[asyncio.Future[None]] = []
        monkeypatch.setattr(exchange, "read_aside", self._read_aside)

    async def _read_aside(self, read: Callable[[bytes], Any], body: bytes, *, with_slot: bool = False) -> Any:
        waiting = this_loop().create_future()
        self._waiting.append(waiting)
        await waiting
        return read(body)

    async def go(self) -> None:
        self._waiting.pop().set_result(None)
        await settle()


async def translating(stage: Stage, slow: Slow) -> Wire:
    """It is routed, and has no place yet."""
    wire = stage.ask(model="nick")
    await settle()
    await slow.go()
    assert stage.taken == (0, 0, 0)
    return wire


def test_one_that_is_translated_goes_on_under_the_new_name(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)

    async def main() -> None:
        stage = Stage()
        wire = await translating(stage, slow)
        with renamed(stage.services):
            await slow.go()
            assert stage.services.admission.gate(OTHER).statistics().running == 1
            await slow.go()
            await answer(stage.calls[0])
        assert wire.answer.is_whole
        assert wire.answer.headers["llmgate-upstream"] == OTHER
        stage.check_over()

    play(main())


def test_where_it_was_dropped_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)

    async def main() -> None:
        stage = Stage()
        wire = await translating(stage, slow)
        with dropped(stage.services):
            await slow.go()
        headers = wire.answer.headers
        assert (wire.answer.status, headers["llmgate-code"], headers["retry-after"]) == (503, "REFUSED", "1")
        assert b"it is no longer in the settings" in wire.answer.body
        assert stage.calls == []
        stage.check_over()

    play(main())


@pytest.mark.parametrize("key", [None, ["m"]])
def test_one_that_names_its_upstream_finds_it_although_its_body_comes_later(key: list[str] | None) -> None:
    """Also where its key may use some models only, which are looked up by the names of upstreams."""

    async def main() -> None:
        stage = Stage(upstream={"passthrough": True})
        wire, rest = await _send_begin(stage, key)
        with renamed(stage.services):
            wire.send(rest)
            await settle()
            await answer(stage.calls[0])
        assert wire.answer.is_whole
        stage.check_over()

    play(main())


@pytest.mark.parametrize("key", [None, ["m"]])
def test_one_that_names_an_upstream_which_is_dropped_is_refused(key: list[str] | None) -> None:
    """The same whatever its key may use: that is of no account any more, and nobody was turned away for it."""

    async def main() -> None:
        stage = Stage(upstream={"passthrough": True})
        wire, rest = await _send_begin(stage, key)
        with dropped(stage.services):
            wire.send(rest)
            await settle()
        assert (wire.answer.status, wire.answer.headers["llmgate-code"]) == (503, "REFUSED")
        assert stage.services.turned_away.counts == {}
        stage.check_over()

    play(main())


async def _send_begin(stage: Stage, key: list[str] | None) -> tuple[Wire, bytes]:
    """Most of a request that names its upstream, and what is left to send; `key`: the models of its key, if any."""
    request = post(f"{HERE}{MESSAGES.removeprefix('/llm')}", request_body("m", stream=True))
    wire = stage.connect()
    wire.send(request[:-9])
    await settle()
    if key is not None:
        _limit_key(stage, key)
    return wire, request[-9:]


def _limit_key(stage: Stage, models: list[str]) -> None:
    """That of the request whose body is still coming."""
    key = ClientKey(name="k", digest=b"d" * 32, models=tuple(models))
    stage.services.keys = ClientKeys([key])
    for wire in stage.wires:
        wire.protocol.scope[ACCESS] = Access(key=key)


@pytest.mark.parametrize("state", [waiting, waiting_in_silence])
def test_what_one_that_waits_is_told_has_the_new_name(state: Callable[[Stage], Any]) -> None:
    """Its error, or its answer."""

    async def main() -> None:
        stage = Stage()
        wire = await state(stage)
        with renamed(stage.services):
            for record in list(stage.ledger.live()):
                stage.services.admission.dismiss(OTHER, record.caller.id)
            await settle()
        if wire.answer.status != 200:
            assert wire.answer.headers["llmgate-upstream"] == OTHER
            assert wire.answer.headers["llmgate-code"] == "CANCELLED"
        assert OTHER.encode() in wire.answer.body
        stage.calls[0].end(stage.calls[0].spoken.rest)
        await settle()
        stage.check_over()

    play(main())
