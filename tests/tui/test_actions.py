"""What is asked of the daemon, and the words for what became of it."""

from pathlib import Path
from typing import Any

import pytest

from llmgate.adminapi import ConfigChange, Reloaded
from llmgate.errors import AdminError, DaemonSilent
from llmgate.tui.actions import Action, perform, question

PAUSE, DRAIN, RESUME = Action("pause", "a"), Action("drain", "a"), Action("resume", "a")
CANCEL, MOVE, SET = Action("cancel", "q-1"), Action("move", "q-1"), Action("set", "a", (("max_concurrent", 3),))
RELOAD = Action("reload", "settings")
LIMITS = Action("set", "a", (("max_queued", None), ("queue_timeout", 300.0)))


@pytest.mark.parametrize(
    ("action", "asked", "said"),
    [
        (PAUSE, ("pause", "a"), "a: paused: what comes waits until R resumes it"),
        (RESUME, ("resume", "a"), "a: resumed"),
        (DRAIN, ("drain", "a"), "a: draining: takes no new request, serves those that are there"),
        (SET, ("set", "a", {"max_concurrent": 3}), "a: max_concurrent is 3"),
        (LIMITS, ("set", "a", dict(LIMITS.limits)), "a: max_queued is none, queue_timeout is 5m"),
        (CANCEL, ("cancel", "q-1"), "q-1: cancelled"),
        (MOVE, ("move", "q-1"), "q-1: moved to the front"),
        (RELOAD, ("reload",), "settings: read again (nothing changed)"),
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


async def test_a_reload_tells_what_is_new_and_what_is_wrong(recorder: Any) -> None:
    changes = [ConfigChange(key="a.b", reload="live"), ConfigChange(key="c", reload="restart")]
    recorder.reloaded = Reloaded(changed=changes)
    assert await perform(recorder, (RELOAD,)) == ("settings: read again (a.b, c after a restart)", False)
    recorder.reloaded = Reloaded(warnings=["a.b stays 2", "odd"])
    assert (await perform(recorder, (RELOAD,)))[0] == "settings: read again (nothing changed); a.b stays 2; odd"
    recorder.reloaded = Reloaded(error="llmgate: /x: no such key\nand more")
    assert await perform(recorder, (RELOAD,)) == ("llmgate: /x: no such key", True)


async def test_limits_are_written_down_once_they_hold(recorder: Any, tmp_path: Path) -> None:
    file = tmp_path / "llmgate.toml"
    file.write_text("[upstreams.a]\nmax_concurrent = 1\n")
    action = Action("set", "a", (("max_concurrent", 3), ("queue_timeout", 300.0)), str(file))
    said = f"a: max_concurrent is 3, queue_timeout is 5m, written to {file}"
    assert await perform(recorder, (action,)) == (said, False)
    assert file.read_text() == '[upstreams.a]\nqueue_timeout = "5m"\nmax_concurrent = 3\n'
    limits = dict(action.limits)
    assert recorder.asked == [("set", "a", limits), ("set", "a", limits | {"persisted": True})]
    assert (await perform(recorder, (Action("set", "b", action.limits, str(file)),)))[1]
    recorder.error = AdminError("no")
    before = file.read_text()
    await perform(recorder, (Action("set", "a", (("max_concurrent", 9),), str(file)),))
    assert file.read_text() == before


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


async def test_who_gets_no_answer_is_told_that_it_may_still_be_done(recorder: Any) -> None:
    recorder.error = DaemonSilent("nothing was heard")
    said, is_bad = await perform(recorder, (PAUSE,))
    assert (said, is_bad) == ("The daemon did not answer in time; it may still do this when it goes on", True)


def test_questions() -> None:
    assert question((CANCEL,)) == "Cancel q-1?"
    assert question((PAUSE, PAUSE)) == "Pause 2 upstreams?"
    assert question((CANCEL, CANCEL, CANCEL)) == "Cancel 3 requests?"
