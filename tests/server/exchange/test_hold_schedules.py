"""Requests in any order of whatever may happen to them, while their server comes and goes."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from llmgate.core.events import Admitted, EndpointChanged
from llmgate.protocols.speech import Kind
from tests.server.holding import LOADING
from tests.server.house import UPSTREAM as NAME
from tests.server.house import logged
from tests.server.schedule import FIRST, SERVER, STEPS, UPSTREAM, WAITING, Player
from tests.server.stage import PLAIN, Stage, play, settle

_number = st.integers(0, 5)
AWAY_STEPS = st.one_of(
    st.tuples(st.sampled_from(["refuse", "refuse", "told_first", "loads", "loads_in_this_turn"]), _number),
    st.tuples(st.just("up"), st.sampled_from([True, True, True, False])),
)
SCHEDULES = st.builds(
    lambda first, steps: [*first, *steps],
    st.lists(FIRST, min_size=1, max_size=4),
    st.lists(st.one_of(AWAY_STEPS, AWAY_STEPS, STEPS), min_size=4, max_size=40),
)


class HoldPlayer(Player):
    def __init__(self, kind: Kind) -> None:
        super().__init__(kind)
        upstream = {**UPSTREAM, "kind": kind, "on_down": "hold"}
        self.stage = Stage(upstream=upstream, server=SERVER, waiting=WAITING)

    def _told_first(self, number: int) -> None:
        if call := self._call(number):
            call.refuse(is_told_first=True)

    async def _loads(self, number: int) -> None:
        await self._loads_in_this_turn(number)
        await settle()

    async def _loads_in_this_turn(self, number: int) -> None:
        self._connect(number)
        await settle()
        call = self._call(number)
        if call is not None and call.awaited:
            call.head(503, PLAIN)
            await settle()
            if call.speaks:
                call.end(LOADING)

    def _up(self, up: bool) -> None:
        self.stage.services.admission.set_endpoint(NAME, NAME, up=up)

    def check_once(self) -> None:
        """A request goes to the server again only when that said that it did not begin it."""
        begun = Counter(
            call.headers[b"llmgate-request-id"]
            for call in self.stage.calls
            if call.sent and call.answer.status not in (404, 503)
        )
        assert max(begun.values(), default=0) <= 1
        up = True
        for event in self.stage.events:
            if isinstance(event, EndpointChanged):
                up = event.up
            assert up or not isinstance(event, Admitted)


@given(st.sampled_from(["auto", "openai"]), SCHEDULES)
def test_whatever_the_order(kind: Kind, steps: list[Any]) -> None:
    """One answer begun at most, one outcome, one generation; every slot back once; nothing left, nothing logged."""

    async def main() -> None:
        player = HoldPlayer(kind)
        await player.play(steps)
        player.check_once()

    with logged() as lines:
        play(main())
    assert lines == []
