"""F31, F32: whatever is raised, and wherever, everybody is told once, and every slot comes back once."""

from collections.abc import Callable

import pytest
from hands import STOP

from llmgate.errors import GateError
from tests.server.faults import CALLED_BACK, ERROR, ERRORS, HOOKS, LATE, STORIES, Fault, Foreign, Story
from tests.server.house import UPSTREAM, logged
from tests.server.stage import Stage, Wire, pass_time, play, settle
from tests.server.states import begin_first

ENDS = (STOP, ERROR, b'event: message_stop\ndata: {"type":"message_stop"}\n\n', b"}")
"""Of what is whole; the last one without a stream."""


async def probe_cap(stage: Stage) -> None:
    """One slot: of two more requests one runs at once, the other one waits, and both are answered."""
    stage.set_cap(1)
    number = len(stage.calls)
    wires = [stage.ask(), stage.ask()]
    await settle()
    assert (stage.taken, len(stage.calls)) == ((1, 1, 0), number + 1)
    for call_number in (number, number + 1):
        assert len(stage.calls) == call_number + 1
        call = stage.calls[call_number]
        call.connect()
        await settle()
        call.head()
        await settle()
        call.end(call.spoken.start + call.spoken.rest)
        await settle()
    assert all(wire.answer.is_whole for wire in wires)


def check_told_once(stage: Stage, wire: Wire, fault: Fault) -> None:
    """One answer, with one error; or a connection that broke off and holds nothing that looks whole."""
    answer = wire.answer
    if answer.is_whole:
        assert answer.body.endswith(ENDS)
        assert fault.name in ("wait_sent", "wait_over"), "it came when all was said"
        assert stage.outcomes == ["completed"]
    elif answer.ended:
        assert answer.errors == 1
    else:
        assert wire.gone
        assert answer.errors == 0


class TestFaults:
    """F31, F32: whatever is raised, and wherever."""

    @pytest.mark.parametrize("error", ERRORS, ids=lambda make: type(make()).__name__)
    @pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name.replace(" ", "-"))
    def test_f31_f32_everywhere(self, story: Story, error: Callable[[], BaseException]) -> None:
        struck = 0
        for owner, name in HOOKS:
            if name in CALLED_BACK and not isinstance(error(), Exception):
                continue
            for late in (False, True) if name in LATE else (False,):
                fault = Fault(owner, name, error(), late=late)
                while self.strike(story, fault):
                    struck += 1
                    fault = fault.next(error())
        assert struck >= 12

    def strike(self, story: Story, fault: Fault) -> bool:
        """Whether the story came so far."""
        with logged() as told:
            play(self.tell(story, fault))
        assert len(told) <= 1, told
        assert told or not fault.struck or isinstance(fault.error, GateError), f"{fault.name} left no line in the log"
        return fault.struck

    async def tell(self, story: Story, fault: Fault) -> None:
        stage = Stage(upstream={"kind": story.kind, "on_down": "hold"})
        if story.waits:
            await begin_first(stage)
        with fault.installed():
            wire = await story.tell(stage)
        if fault.struck:
            check_told_once(stage, wire, fault)
            assert "upstream_timeout" not in stage.outcomes or isinstance(fault.error, Foreign)
        wire.leave()
        stage.set_cap(1)
        if story.waits:
            stage.calls[0].end(stage.calls[0].spoken.rest)
        await pass_time(1)
        stage.services.admission.set_endpoint(UPSTREAM, UPSTREAM, up=True)
        stage.check_empty()
        await probe_cap(stage)
        stage.check_over()
