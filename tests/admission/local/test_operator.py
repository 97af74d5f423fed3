"""What an operator has done at an admission: modes, one request out of the line, one that has a slot, one moved."""

import asyncio
from collections.abc import Callable

import pytest
from virtual_loop import run, turns

from llmgate.admission.local import LocalAdmission
from llmgate.core.events import Limits, Mode
from llmgate.core.gate import Gate
from llmgate.errors import Cancelled, Refused
from tests.admission.hall import UPSTREAM, Hall


def by(hall: Hall) -> list[tuple[str, str]]:
    """Kind and who, of the events that say who."""
    return [(type(event).__name__, who) for event in hall.events if (who := getattr(event, "by", ""))]


PAUSE, RESUME, DRAIN = LocalAdmission.pause, LocalAdmission.resume, LocalAdmission.drain


@pytest.mark.parametrize(
    ("calls", "mode"),
    [
        ([PAUSE], Mode.PAUSED),
        ([DRAIN], Mode.CLOSED),
        ([PAUSE, DRAIN], Mode.CLOSED),
        ([DRAIN, PAUSE], Mode.PAUSED),
        ([PAUSE, RESUME], Mode.OPEN),
        ([DRAIN, RESUME], Mode.OPEN),
        ([PAUSE, DRAIN, RESUME], Mode.OPEN),
    ],
    ids=lambda it: str(it) if isinstance(it, Mode) else "-".join(call.__name__ for call in it),
)
def test_the_last_word_of_the_operator_counts(calls: list[Callable[..., None]], mode: Mode) -> None:
    async def main() -> None:
        hall = Hall(Limits(1))
        for call in calls:
            call(hall.admission, UPSTREAM, by="me")
        assert hall.gate.mode is mode
        assert by(hall) == [("ModeChanged", "me")] * len(calls)
        hall.admission.stop()

    run(main())


def test_from_drained_to_paused_nobody_slips_through() -> None:
    """Neither is a newcomer let in between, nor one who waits admitted."""

    async def main() -> None:
        hall = Hall(Limits(2))
        hall.admission.pause(UPSTREAM)
        await hall.take("a")
        hall.admission.drain(UPSTREAM)
        assert (hall.gate.depth, hall.gate.statistics().running) == (0, 1)
        with pytest.raises(Refused):
            await hall.take("b")
        hall.admission.pause(UPSTREAM)
        await hall.take("c")
        assert (hall.gate.depth, hall.gate.statistics().running) == (1, 1)
        hall.admission.resume(UPSTREAM)
        assert (hall.gate.depth, hall.gate.statistics().running) == (0, 2)
        hall.admission.stop()

    run(main())


def test_limits_say_by_whom() -> None:
    async def main() -> None:
        hall = Hall(Limits(1))
        hall.admission.set_limits(UPSTREAM, Limits(2), by="me")
        assert by(hall) == [("LimitsChanged", "me")]

    run(main())


def test_dismissed_by_an_operator_one_hears_of_it_where_it_waits() -> None:
    async def main() -> None:
        hall = Hall(Limits(1))
        await hall.take("a")
        place = hall.place("b")
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(wait(place))
            await turns()
            assert hall.admission.dismiss(UPSTREAM, "b", by="me")
            await waiting
        assert not hall.admission.dismiss(UPSTREAM, "b", by="me")
        assert not hall.admission.dismiss(UPSTREAM, "a", by="me"), "that one runs"
        assert by(hall) == [("Dismissed", "me")]
        assert hall.outcomes() == {"b": ["cancelled"]}
        hall.admission.stop()

    async def wait(place: object) -> None:
        with pytest.raises(Cancelled, match=r"an operator cancelled this request at upstream reasoning \(CANCELLED\)"):
            async with place:  # type: ignore[attr-defined]
                await place.wait_admitted()  # type: ignore[attr-defined]

    run(main())


@pytest.mark.parametrize("drains", [False, True])
def test_who_cancelled_one_that_runs_is_told_at_its_end(drains: bool) -> None:
    async def main() -> None:
        hall = Hall(Limits(1))
        place = await hall.take("a")
        over = hall.admission.note_cancel(UPSTREAM, "a", by="first")
        assert hall.admission.note_cancel(UPSTREAM, "a", by="me") is over
        assert not over.done()
        if drains:
            place.drain("cancelled", None)
        else:
            place.leave("cancelled")
        assert over.done()
        place.leave("completed")
        assert by(hall) == [("Drained" if drains else "Released", "me")]
        assert hall.desk._cancels == {}
        hall.admission.stop()

    run(main())


@pytest.mark.parametrize("drains", [False, True])
def test_an_end_of_another_kind_is_not_the_operators(drains: bool) -> None:
    async def main() -> None:
        hall = Hall(Limits(1))
        place = await hall.take("a")
        over = hall.admission.note_cancel(UPSTREAM, "a", by="me")
        over.cancel()
        if drains:
            place.drain("client_gone", 0.0)
        else:
            place.leave("completed")
        assert by(hall) == []
        assert hall.desk._cancels == {}
        hall.admission.stop()

    run(main())


def test_nobody_else_is_looked_at_for_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands may wait, and a script may act on each of them."""

    def look(_: Gate) -> None:
        raise AssertionError("all who wait were looked at")

    async def main() -> None:
        hall = Hall(Limits(1))
        for name in "abc":
            await hall.take(name)
        monkeypatch.setattr(Gate, "waiting", look)
        admission = hall.admission
        assert admission.move_to_front(UPSTREAM, "c")
        assert admission.position(UPSTREAM, "c") is not None
        assert admission.dismiss(UPSTREAM, "c")
        assert not admission.dismiss(UPSTREAM, "c")
        assert admission.dismiss(UPSTREAM, "b")
        assert hall.desk._waiting == {}
        monkeypatch.undo()
        hall.admission.stop()

    run(main())


def test_moved_to_the_front() -> None:
    async def main() -> None:
        hall = Hall(Limits(1))
        for name in "abc":
            await hall.take(name)
        place = hall.admission.position(UPSTREAM, "c")
        assert place is not None
        assert (place.position, place.depth) == (2, 2)
        assert hall.admission.move_to_front(UPSTREAM, "c", by="me")
        moved = hall.admission.position(UPSTREAM, "c")
        assert moved is not None
        assert moved.position == 1
        assert not hall.admission.move_to_front(UPSTREAM, "a", by="me")
        assert not hall.admission.move_to_front(UPSTREAM, "x", by="me")
        assert hall.admission.position(UPSTREAM, "a") is None
        assert by(hall) == [("Moved", "me")]
        hall.admission.stop()

    run(main())
