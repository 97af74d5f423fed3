"""A client that leaves, at whatever moment: who waited is forgotten, who ran gives its slot back."""

import pytest
from rawclient import post

from tests.server.stage import Stage, pass_time, play, settle
from tests.server.states import (
    RUNNING,
    WAITING,
    State,
    connecting,
    ended,
    finish_first,
    just_granted,
    parametrize,
)


class TestClientGone:
    @pytest.mark.parametrize("error", [None, ConnectionResetError()], ids=["fin", "rst"])
    @parametrize(WAITING)
    def test_while_it_waits(self, state: State, error: Exception | None) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await state(stage)
            wire.leave(error)
            await settle()
            assert (stage.taken, stage.outcomes, len(stage.calls)) == ((0, 1, 0), ["abandoned"], 1)
            await finish_first(stage, wire)
            stage.check_over()

        play(main())

    def test_in_the_turn_in_which_it_got_its_slot(self) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await just_granted(stage)
            wire.leave()
            await settle()
            assert (stage.taken, stage.outcomes) == ((0, 1, 0), ["client_gone"])
            assert not any(call.sent for call in stage.calls[1:])
            await finish_first(stage, wire)
            stage.check_over()

        play(main())

    def test_while_connecting_the_slot_is_back_at_once(self) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await connecting(stage)
            wire.leave()
            await settle()
            assert (stage.taken, stage.outcomes) == ((0, 0, 0), ["client_gone"])
            stage.check_over()

        play(main())

    @pytest.mark.parametrize("error", [None, ConnectionResetError()], ids=["fin", "rst"])
    @parametrize(RUNNING)
    def test_while_it_runs_the_slot_drains(self, state: State, error: Exception | None) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await state(stage)
            running = stage.figures.running
            wire.leave(error)
            await settle()
            assert (stage.taken, stage.outcomes) == ((0, running - 1, 1), ["client_gone"])
            await pass_time(0.019)
            assert stage.figures.draining == 1
            await pass_time(0.002)
            assert stage.figures.draining == 0
            await finish_first(stage, wire)
            stage.check_over()

        play(main())

    def test_after_the_end_it_is_complete_and_drains_not(self) -> None:
        async def main() -> None:
            stage = Stage()
            wire = await ended(stage)
            wire.leave()
            await settle()
            assert (stage.taken, stage.outcomes) == ((0, 0, 0), ["completed"])
            stage.check_over()

        play(main())

    def test_before_its_body_is_here_nothing_happened(self) -> None:
        async def main() -> None:
            stage = Stage()
            wire = stage.connect()
            wire.send(post("/v1/messages", b"x" * 100)[:-50])
            await settle()
            wire.leave()
            await settle()
            assert stage.events == []
            stage.check_over()

        play(main())
