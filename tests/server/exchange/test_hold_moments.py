"""Whatever happens at whatever moment of a request whose server is not there: one outcome, and every slot back once."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hands import ANSWER
from virtual_loop import turns

from llmgate.errors import Cancelled
from tests.server.holding import LOADING, HoldStage, load, refuse, without_frames
from tests.server.house import UPSTREAM
from tests.server.stage import PLAIN, Wire, pass_time, play, settle
from tests.server.states import STOPPING, check_refused

Moment = Callable[[HoldStage], Awaitable[Wire]]


async def asked(stage: HoldStage) -> Wire:
    wire = stage.ask()
    await settle()
    return wire


async def refused_in_this_turn(stage: HoldStage) -> Wire:
    wire = await asked(stage)
    stage.calls[0].refuse()
    return wire


async def told_before_it_knows(stage: HoldStage) -> Wire:
    wire = await asked(stage)
    stage.calls[0].refuse(is_told_first=True)
    return wire


async def waiting_again(stage: HoldStage) -> Wire:
    wire = await asked(stage)
    await refuse(stage.calls[0])
    return wire


async def waiting_again_on_an_open_stream(stage: HoldStage) -> Wire:
    wire = await waiting_again(stage)
    stage.exchange_of(wire)._voice._beat()
    await settle()
    assert without_frames(wire) == b": queue 1/1\n\n"
    return wire


async def waiting_again_in_silence(stage: HoldStage) -> Wire:
    wire = stage.ask(stream=False)
    await settle()
    await refuse(stage.calls[0])
    return wire


async def back_in_this_turn(stage: HoldStage) -> Wire:
    """Its slot is there, it does not know yet."""
    wire = await waiting_again(stage)
    stage.services.admission.set_endpoint(UPSTREAM, UPSTREAM, up=True)
    return wire


async def connecting_again(stage: HoldStage) -> Wire:
    wire = await back_in_this_turn(stage)
    await settle()
    return wire


async def hearing_that_it_loads(stage: HoldStage) -> Wire:
    wire = await asked(stage)
    stage.calls[0].connect()
    await settle()
    stage.calls[0].head(503, PLAIN)
    await settle()
    stage.calls[0].piece(LOADING[:20])
    await settle()
    return wire


async def loading_in_this_turn(stage: HoldStage) -> Wire:
    wire = await asked(stage)
    stage.calls[0].connect()
    await settle()
    stage.calls[0].head(503, PLAIN)
    await settle()
    stage.calls[0].end(LOADING)
    return wire


async def loading_and_waiting_again(stage: HoldStage) -> Wire:
    wire = await asked(stage)
    await load(stage.calls[0])
    return wire


MOMENTS: list[Moment] = [
    refused_in_this_turn,
    told_before_it_knows,
    waiting_again,
    waiting_again_on_an_open_stream,
    waiting_again_in_silence,
    back_in_this_turn,
    connecting_again,
    hearing_that_it_loads,
    loading_in_this_turn,
    loading_and_waiting_again,
]
EVERY_MOMENT = pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.__name__)
LATER = pytest.mark.parametrize("later", range(5))
"""So many turns after it."""


async def check_next_is_served(stage: HoldStage) -> None:
    """Whatever became of the other one, the server comes back, and its slot is there for another."""
    await pass_time(0.1)
    await stage.come_back()
    number = len(stage.calls)
    wire = stage.ask()
    await settle()
    assert len(stage.calls) == number + 1
    await stage.serve(stage.calls[number])
    assert wire.answer.body.endswith(ANSWER)
    stage.check_over()


class TestEveryMoment:
    @EVERY_MOMENT
    @LATER
    def test_the_client_leaves(self, moment: Moment, later: int) -> None:
        async def main() -> None:
            stage = HoldStage()
            wire = await moment(stage)
            await turns(later)
            wire.leave()
            await settle()
            assert len(stage.outcomes) == 1
            assert stage.outcomes[0] in ("client_gone", "abandoned")
            assert stage.taken in ((0, 0, 0), (0, 0, 1))
            assert wire.answer.errors == 0
            await check_next_is_served(stage)

        play(main())

    @pytest.mark.parametrize(
        ("error", "outcome"), [(STOPPING, "refused"), (Cancelled("llmgate: cancelled (CANCELLED)"), "cancelled")]
    )
    @EVERY_MOMENT
    @LATER
    def test_it_is_stopped_or_cancelled(self, moment: Moment, later: int, error: Any, outcome: str) -> None:
        async def main() -> None:
            stage = HoldStage()
            wire = await moment(stage)
            await turns(later)
            stage.exchange_of(wire).stop(error)
            await settle()
            assert stage.outcomes == [outcome]
            assert (wire.answer.ended, wire.answer.errors) == (True, 1)
            if error is STOPPING:
                check_refused(wire)
            await check_next_is_served(stage)

        play(main())

    @EVERY_MOMENT
    def test_it_leaves_and_is_stopped_in_one_turn(self, moment: Moment) -> None:
        async def main() -> None:
            for first in ("leave", "stop"):
                stage = HoldStage()
                wire = await moment(stage)
                exchange = stage.exchange_of(wire)
                if first == "leave":
                    wire.leave()
                exchange.stop(STOPPING)
                if first == "stop":
                    wire.leave()
                await settle()
                assert len(stage.outcomes) == 1
                await check_next_is_served(stage)

        play(main())

    @EVERY_MOMENT
    @LATER
    def test_nobody_new_is_taken_any_more(self, moment: Moment, later: int) -> None:
        """llmgate stops: who waits again is sent away, who has a slot goes on."""

        async def main() -> None:
            stage = HoldStage()
            wire = await moment(stage)
            await turns(later)
            stage.services.admission.close()
            await settle()
            for call in stage.calls:
                call.refuse()
                call.lose()
            await settle()
            assert len(stage.outcomes) == 1
            assert (wire.answer.ended, wire.answer.errors) == (True, 1)
            if stage.outcomes == ["refused"]:
                assert b"llmgate is stopping, this request was not begun" in wire.answer.body
            stage.check_over()

        play(main())

    @EVERY_MOMENT
    def test_its_time_ends(self, moment: Moment) -> None:
        """The wait counts from its arrival; a slot that it had meanwhile does not end it."""

        async def main() -> None:
            stage = HoldStage(queue_timeout=30, queue_timeout_nonstream=30)
            wire = await moment(stage)
            await settle()
            waits = stage.taken == (1, 0, 0)
            await pass_time(29)
            assert stage.outcomes == []
            await pass_time(2)
            if not waits:
                assert stage.outcomes == []
                stage.calls[-1].refuse()
                stage.calls[-1].lose()
                await settle()
            told = "upstream_error" if moment is hearing_that_it_loads else "queue_timeout"
            assert stage.outcomes == [told]
            assert (wire.answer.ended, wire.answer.errors) == (True, 1)
            await check_next_is_served(stage)

        play(main())
