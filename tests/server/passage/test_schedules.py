"""Any order of what may happen to a few of them."""

import json
from typing import Any

from hypothesis import given

from tests.server.house import logged
from tests.server.passing import GATED, UNGATED, PassStage
from tests.server.schedule import SCHEDULES, SERVER, UPSTREAM, WAITING, Player
from tests.server.stage import Wire, play


class PassPlayer(Player):
    """Plays the same steps with passages, of which some need no slot."""

    def __init__(self) -> None:
        super().__init__()
        self.stage: PassStage = PassStage(upstream=UPSTREAM, server=SERVER, waiting=WAITING)
        self.gated: dict[Wire, bool] = {}

    def _ask(self, stream: bool) -> None:
        if len(self.stage.wires) < 4:
            wire = self.stage.pass_on(GATED if stream else UNGATED, body=b"{}")
            self.gated[wire] = stream

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
            assert b"llmgate: " not in answer.body


@given(SCHEDULES)
def test_whatever_the_order(steps: list[Any]) -> None:
    """One answer begun at most, ended at most once; every slot back once; nothing left, nothing logged."""

    async def main() -> None:
        await PassPlayer().play(steps)

    with logged() as lines:
        play(main())
    assert lines == []
