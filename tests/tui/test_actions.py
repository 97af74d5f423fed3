"""What is asked of the daemon, and the words for what became of it."""

from typing import Any

import pytest

from llmgate.errors import AdminError
from llmgate.tui.actions import Action, perform, question

PAUSE, DRAIN, RESUME = Action("pause", "a"), Action("drain", "a"), Action("resume", "a")
CANCEL, MOVE, SET = Action("cancel", "q-1"), Action("move", "q-1"), Action("set", "a", 3)


@pytest.mark.parametrize(
    ("action", "asked", "said"),
    [
        (PAUSE, ("pause", "a"), "a: paused: what comes waits until R resumes it"),
        (RESUME, ("resume", "a"), "a: resumed"),
        (DRAIN, ("drain", "a"), "a: draining: it takes no new request, and those that are there are served"),
        (SET, ("set", "a", 3), "a: max_concurrent is 3"),
        (CANCEL, ("cancel", "q-1"), "q-1: cancelled"),
        (MOVE, ("move", "q-1"), "q-1: moved to the front"),
    ],
)
async def test_each(recorder: Any, action: Action, asked: tuple[object, ...], said: str) -> None:
    assert await perform(recorder, (action,)) == (said, False)
    assert recorder.asked == [asked]


async def test_several_are_done_in_their_order(recorder: Any) -> None:
    many = (CANCEL, Action("cancel", "q-2"))
    assert await perform(recorder, many) == ("2 of them: cancelled", False)
    assert [asked[1] for asked in recorder.asked] == ["q-1", "q-2"]


async def test_what_the_daemon_remarks_is_told(recorder: Any) -> None:
    recorder.note, recorder.changed = "the server has 2 slots", False
    assert (await perform(recorder, (SET,)))[0] == "a: max_concurrent is 3 (the server has 2 slots)"
    assert (await perform(recorder, (RESUME,)))[0] == "a: resumed (a was so already)"


async def test_one_failure_does_not_keep_the_others_from_being_done(recorder: Any) -> None:
    real, recorder.cancel = recorder.cancel, None

    async def cancel(request_id: str) -> object:
        if request_id == "q-1":
            raise AdminError("There is no request q-1\n\nIt has ended.")
        return await real(request_id)

    recorder.cancel = cancel
    said = await perform(recorder, (CANCEL, Action("cancel", "q-2")))
    assert said == ("There is no request q-1 (1 of 2 done)", True)
    assert recorder.asked == [("cancel", "q-2")]
    assert await perform(recorder, (CANCEL,)) == ("There is no request q-1", True)


def test_questions() -> None:
    assert question((CANCEL,)) == "Cancel q-1?"
    assert question((PAUSE, PAUSE)) == "Pause 2 upstreams?"
    assert question((CANCEL, CANCEL, CANCEL)) == "Cancel 3 requests?"
