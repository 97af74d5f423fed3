"""F07, F13, F23: a grant, the end of the wait, a stop and a client that leaves, all in one turn, in every order.

Nobody's slot is lost or doubled; whoever waited in vain never reached the server; each has one outcome.
"""

from collections.abc import Callable
from itertools import permutations, product

import pytest
from virtual_loop import this_loop, turns

from llmgate.errors import Refused
from tests.server.exchange.test_faults import probe_cap
from tests.server.house import UPSTREAM, logged
from tests.server.stage import Stage, Wire, pass_time, play, settle
from tests.server.states import begin_first

WAIT_SECONDS = 1.0


def grant(stage: Stage, _: Wire) -> None:
    """The one that runs ends."""
    if stage.calls[0].speaks:
        stage.calls[0].end(stage.calls[0].spoken.rest)


def expire(_: Stage, __: Wire) -> None:
    """The time of the wait has come; the timer fires in the next turn."""
    this_loop().now += WAIT_SECONDS


def stop(stage: Stage, _: Wire) -> None:
    """What SIGTERM does, past the drain timeout."""
    stage.services.admission.close()
    for running in stage.services.running:
        running.stop(Refused("llmgate: stopped (REFUSED)"))


def leave(_: Stage, wire: Wire) -> None:
    wire.leave(ConnectionResetError())


def raise_cap(stage: Stage, _: Wire) -> None:
    """An operator's change, or a reload."""
    stage.set_cap(2)


Deed = Callable[[Stage, Wire], None]
DEEDS: list[Deed] = [grant, expire, leave, raise_cap, stop]


@pytest.mark.parametrize("stream", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["stream", "whole"])
@pytest.mark.parametrize("first", DEEDS, ids=lambda deed: deed.__name__)
def test_f07_f13_f23_in_any_order(first: Deed, stream: bool) -> None:
    rest = [deed for deed in DEEDS if deed is not first]
    for others in permutations(rest, 3):
        for gaps in product((0, 1), repeat=3):
            with logged() as told:
                play(tell([first, *others], [*gaps, 0], stream=stream))
            assert told == []


async def tell(order: list[Deed], gaps: list[int], *, stream: bool) -> None:
    """`gaps`: turns of the loop after each deed."""
    stage = Stage()
    await begin_first(stage)
    wire = stage.ask(stream=stream, llmgate_max_wait=f"{WAIT_SECONDS:g}")
    await settle()
    assert stage.taken == (1, 1, 0)
    for deed, gap in zip(order, gaps, strict=True):
        deed(stage, wire)
        await turns(gap)
    await settle()
    for call in stage.calls:
        call.refuse()
        call.lose()
    await pass_time(2)
    check_outcome(order, own_outcome(stage), len(stage.calls))
    assert wire.answer.errors <= 1
    assert not wire.answer.is_whole
    for one in stage.wires:
        one.leave()
    await settle()
    stage.check_empty()
    if stop not in order:
        await probe_cap(stage)
    stage.check_over()


@pytest.mark.parametrize("cap", [1, 2])
def test_its_server_is_taken_away_in_the_turn_in_which_it_gets_its_slot(cap: int) -> None:
    """A reload: nothing was sent yet, so it goes to the server that is there instead."""

    async def main() -> None:
        stage = Stage()
        await begin_first(stage)
        wire = stage.ask()
        await settle()
        grant(stage, wire)
        stage.services.admission.set_endpoints(UPSTREAM, {UPSTREAM: cap}, kept={}, holds=True)
        await settle()
        assert len(stage.calls) == 2
        stage.calls[1].connect()
        await settle()
        stage.calls[1].head()
        await settle()
        stage.calls[1].piece(stage.calls[1].spoken.start)
        await settle()
        stage.calls[1].end(stage.calls[1].spoken.rest)
        await settle()
        assert (wire.answer.is_whole, wire.answer.errors, stage.outcomes) == (True, 0, ["completed", "completed"])
        stage.check_over()

    play(main())


def own_outcome(stage: Stage) -> str:
    """That of the one that waited."""
    (outcome,) = (event.outcome for event in stage.events if getattr(event, "outcome", None) and event.ticket == 2)
    return str(outcome)


def check_outcome(order: list[Deed], outcome: str, calls: int) -> None:
    if order[0] is expire:
        assert outcome == "queue_timeout"
    if order[0] in (grant, raise_cap):
        assert outcome not in ("queue_timeout", "abandoned", "queue_full"), "it had its slot"
    if outcome in ("queue_timeout", "abandoned"):
        assert calls == 1, "it never had a slot, and reached the server"
