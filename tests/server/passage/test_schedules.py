"""Any order of what may happen to a few of them."""

import json
from typing import Any

from hypothesis import given

from tests.server.house import logged
from tests.server.passing import GATED, UNGATED, PassStage
from tests.server.schedule import ENDS, PIECES, SCHEDULES, SERVER, UPSTREAM, WAITING, Player
from tests.server.stage import Call, Wire, play


class PassPlayer(Player):
    """Plays the same steps with passages, of which some need no slot."""

    def __init__(self) -> None:
        super().__init__("auto")
        self.stage: PassStage = PassStage(upstream=UPSTREAM, server=SERVER, waiting=WAITING)
        self.gated: dict[Wire, bool] = {}
        self.said: dict[Call, bytes] = {}
        """Of each server's answer what it said so far."""
        self.whole: set[Call] = set()
        """Those that said all."""

    def _ask(self, stream: bool) -> None:
        """Its body is its number, by which its calls are known."""
        if len(self.stage.wires) < 4:
            number = len(self.stage.wires)
            self.gated[self.stage.pass_on(GATED if stream else UNGATED, body=b"%d" % number)] = stream

    def _piece(self, number: int, which: int) -> None:
        call = self._call(number)
        if call is not None and call.speaks and not call.paused:
            self.said[call] = self.said.get(call, b"") + PIECES[which]
            call.piece(PIECES[which])

    def _end(self, number: int, which: int) -> None:
        call = self._call(number)
        if call is not None and call.speaks and not call.paused:
            self.said[call] = self.said.get(call, b"") + ENDS[which]
            self.whole.add(call)
            call.end(ENDS[which])

    def _refusal(self, number: int, which: int, in_two: bool) -> None:
        """Of no meaning here."""

    def _check_upstream(self) -> None:
        """Those that need no slot are not known to the gate."""
        busy = sum(call.sent and not call.over for call in self.stage.calls)
        straight = sum(not gated for gated in self.gated.values())
        assert busy <= self.stage.figures.running + self.stage.figures.draining + straight

    def _check_answer(self, wire: Wire) -> None:
        answer = wire.answer
        if wire in self.left:
            return
        if not answer.ended:
            assert wire.gone
        elif "llmgate-code" in answer.headers:
            assert answer.status >= 400
            assert json.loads(answer.body)["error"]["code"] == answer.headers["llmgate-code"]
        else:
            number = self.stage.wires.index(wire)
            (call,) = (call for call in self.whole if call.body == b"%d" % number)
            assert answer.body == self.said[call]


@given(SCHEDULES)
def test_whatever_the_order(steps: list[Any]) -> None:
    """One answer begun at most, ended at most once; every slot back once; nothing left, nothing logged."""

    async def main() -> None:
        await PassPlayer().play(steps)

    with logged() as lines:
        play(main())
    assert lines == []
