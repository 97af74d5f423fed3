"""Whatever is raised, and wherever: one answer or none that looks whole, every slot back, one line in the log."""

from collections.abc import Callable
from typing import Any

import pytest

from llmgate.admission.local import LocalAdmission
from llmgate.admission.place import LocalPlace
from llmgate.errors import GateError
from llmgate.protocols.openai import ChatSurface
from llmgate.protocols.passthrough import Unwatched
from llmgate.server import identity, passage
from llmgate.server.listener import Listener
from llmgate.server.relay import Relay
from llmgate.server.reply import Reply
from llmgate.server.voice import Voice
from llmgate.telemetry.ledger import Figures, Ledger
from llmgate.upstreams.upstream import Upstream
from llmgate.upstreams.wire import WireAnswer
from tests.server.faults import CALLED_BACK, ERRORS, LATE, Fault
from tests.server.house import logged
from tests.server.passing import GATED, LAST, MORE, PLAIN, UNGATED, PassStage
from tests.server.stage import Call, Wire, pass_time, play, settle

HOOKS: list[tuple[Any, str]] = [
    (passage, "read_body"),
    (passage, "read_wishes"),
    (passage, "peer_of"),
    (passage, "location_for"),
    (passage, "is_gated"),
    (identity, "client_of"),
    (identity, "session_of"),
    (Listener, "__enter__"),
    (LocalAdmission, "enter"),
    (LocalPlace, "__aenter__"),
    (LocalPlace, "position"),
    (LocalPlace, "wait_admitted"),
    (LocalPlace, "wait_for_news"),
    (LocalPlace, "hand_over"),
    (Upstream, "call"),
    (Upstream, "returned_headers"),
    (WireAnswer, "wait_head"),
    (WireAnswer, "start"),
    (Ledger, "record"),
    (Figures, "median_run"),
    (Reply, "start"),
    (Reply, "answer"),
    (Reply, "wait_sent"),
    (Relay, "wait_over"),
    (Voice, "take_place"),
    (Voice, "tell_wait"),
    (Voice, "headers"),
    (ChatSurface, "error_body"),
    (Unwatched, "feed"),
    (Unwatched, "finish"),
]
LATE_HERE = LATE | {"tell_wait"}
UVICORNS_WORDS = b"Internal Server Error"
"""Where nobody else is left to answer."""


class Story:
    """One request from beginning to end, at an upstream with one slot."""

    def __init__(
        self,
        name: str,
        method: str = GATED,
        *,
        waits: bool = False,
        breaks: bool = False,
        whole: bool = False,
        **options: Any,
    ) -> None:
        self.name = name
        self.method = method
        self.waits = waits
        self.breaks = breaks
        self.whole = whole
        """The answer is here, its end as well, before anybody asked for its body."""
        self.status: int = options.pop("status", 200)
        self.headers: dict[str, str] = options

    async def tell(self, stage: PassStage) -> Wire:
        number = len(stage.calls)
        wire = stage.pass_on(self.method, **self.headers)
        await settle()
        if self.waits:
            stage.set_cap(2)
            await settle()
        if len(stage.calls) > number:
            await self._play(stage.calls[number])
        return wire

    async def _play(self, call: Call) -> None:
        call.connect()
        await settle()
        if call.awaited:
            call.head(self.status, [*PLAIN, (b"location", b"/x")])
            if self.whole:
                call.end(MORE + LAST)
            await settle()
        if call.speaks:
            call.piece(MORE)
            await settle()
        if call.speaks and self.breaks:
            call.lose()
        elif call.speaks:
            call.end(LAST)
        await settle()


STORIES = [
    Story("at once"),
    Story("that waits", waits=True),
    Story("that is here at once", whole=True),
    Story("that waits and breaks off", waits=True, breaks=True),
    Story("an error of the server", status=500),
    Story("straight through", UNGATED),
    Story("straight through and here at once", UNGATED, whole=True),
    Story("straight through and broken off", UNGATED, breaks=True),
    Story("no room", waits=False, llmgate_max_wait="0"),
]


class TestFaults:
    """Whatever is raised, and wherever: one answer or none that looks whole, every slot back, one line in the log."""

    @pytest.mark.parametrize("error", ERRORS, ids=lambda make: type(make()).__name__)
    @pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name.replace(" ", "-"))
    def test_everywhere(self, story: Story, error: Callable[[], BaseException]) -> None:
        struck = 0
        for owner, name in HOOKS:
            if name in CALLED_BACK and not isinstance(error(), Exception):
                continue
            for late in (False, True) if name in LATE_HERE else (False,):
                fault = Fault(owner, name, error(), late=late)
                while self.strike(story, fault):
                    struck += 1
                    fault = fault.next(error())
        assert struck >= 10

    def strike(self, story: Story, fault: Fault) -> bool:
        """Whether the story came so far."""
        with logged() as told:
            play(self.tell(story, fault))
        assert len(told) <= 1, told
        assert told or not fault.struck or isinstance(fault.error, GateError), f"{fault.name} left no line in the log"
        return fault.struck

    async def tell(self, story: Story, fault: Fault) -> None:
        stage = PassStage()
        first = await stage.occupy() if story.waits or story.headers else None
        with fault.installed():
            wire = await story.tell(stage)
        if fault.struck:
            self.check_told_once(stage, story, wire, fault)
        wire.leave()
        stage.set_cap(1)
        if first is not None:
            stage.calls[0].end(LAST)
        await pass_time(1)
        stage.check_empty()
        await self.probe_cap(stage)
        stage.check_over()

    def check_told_once(self, stage: PassStage, story: Story, wire: Wire, fault: Fault) -> None:
        answer = wire.answer
        is_ours = "llmgate-code" in answer.headers or answer.body == UVICORNS_WORDS
        if answer.ended and not is_ours:
            assert answer.body == MORE + LAST, f"{fault.name} made half an answer look whole"
            if story.method == GATED:
                assert stage.outcomes == ["completed" if story.status == 200 else "upstream_error"]
        elif answer.ended:
            assert answer.status >= 400
            assert MORE not in answer.body
            assert "completed" not in stage.outcomes
        else:
            assert wire.gone
            assert "completed" not in stage.outcomes or fault.name in ("wait_sent", "wait_over", "finish")

    async def probe_cap(self, stage: PassStage) -> None:
        """One slot: of two more requests one runs at once, the other one waits, and both are answered."""
        number = len(stage.calls)
        wires = [stage.pass_on(), stage.pass_on()]
        await settle()
        assert (stage.taken, len(stage.calls)) == ((1, 1, 0), number + 1)
        for call_number in (number, number + 1):
            assert len(stage.calls) == call_number + 1
            await stage.begin(stage.calls[call_number])
            stage.calls[call_number].end(LAST)
            await settle()
        assert all(wire.answer.is_whole for wire in wires)
