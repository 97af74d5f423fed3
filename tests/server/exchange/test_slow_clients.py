"""Clients that do not read: what is kept for them is bounded, and so is the time they get."""

import asyncio
import contextlib

import pytest
from hands import Hands, delta
from rawclient import CutOff

from tests.server.house import House, OpenHouse
from tests.server.stage import Stage, pass_time, play, settle
from tests.server.states import (
    STOPPING,
    blocked,
    finish_first,
    waiting,
)


class TestSlowClients:
    async def test_f16_one_that_reads_nothing_is_cut(self, open_house: OpenHouse, hands: Hands) -> None:
        """The upstream is paused meanwhile; the connection is closed at once, although it has unread data."""
        house = await open_house(server={"client_stall_timeout": 0.05})
        client = await house.ask(receive_buffer=4096)
        turn = await hands.turn()
        await turn.begin()
        piece = b"".join(delta("x" * 900) for _ in range(64))
        with contextlib.suppress(ConnectionError):
            for _ in range(2000):
                await turn.say(piece)
        assert not turn.connection.is_open
        await house.wait(lambda: house.taken == (0, 0, 0))
        assert house.outcomes == ["client_stalled"]
        with pytest.raises(CutOff):
            await client.body()

    async def test_f14_one_that_reads_nothing_and_leaves(self, house: House, hands: Hands) -> None:
        client = await house.ask(receive_buffer=4096)
        turn = await hands.turn()
        await turn.begin()
        piece = b"".join(delta("x" * 900) for _ in range(64))
        sending = asyncio.ensure_future(turn.say(*[piece] * 2000))
        await house.wait(lambda: any(exchange._reply.blocked for exchange in house.services.running))
        client.reset()
        await turn.wait_closed()
        await house.wait(lambda: house.taken == (0, 0, 0))
        assert house.outcomes == ["client_gone"]
        with pytest.raises(ConnectionError):
            await sending


def test_a_stopped_client_that_takes_nothing_is_cut_when_its_time_is_over() -> None:
    async def main() -> None:
        stage = Stage(server={"client_stall_timeout": 5})
        wire = await blocked(stage)
        stage.exchange_of(wire).stop(STOPPING)
        await pass_time(4)
        assert not wire.aborted
        await pass_time(2)
        assert wire.aborted
        assert not wire.answer.ended
        assert stage.outcomes == ["refused"]
        stage.check_over()

    play(main())


def test_signs_of_life_do_not_pile_up_before_a_client_that_does_not_read() -> None:
    async def main() -> None:
        stage = Stage(waiting={"heartbeat": 0.05})
        wire = await waiting(stage)
        wire.block()
        await pass_time(3)
        before = wire.answer.body
        wire.unblock()
        await settle()
        assert wire.answer.body == before + b": queue 1/1\n\n"
        wire.leave()
        await finish_first(stage, wire)
        stage.check_over()

    play(main())
