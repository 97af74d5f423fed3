"""The first two lines."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from typing import Any

import msgspec
import pytest

from llmgate.tui.cells import plain
from llmgate.tui.furniture import Look
from llmgate.tui.model import View
from llmgate.tui.picture import picture
from llmgate.tui.state import State

After = Callable[..., State]


def head(view: View, state: State, width: int = 80) -> list[str]:
    return [plain(line) for line in picture(view, Look(width, 24, UTC), state)[:2]]


def test_a_plain_view_has_a_plain_rule(view: View, after: After) -> None:
    assert head(view, after(view))[1] == "─" * 80


@pytest.mark.parametrize(
    ("keys", "note"),
    [
        (["/", *"client=dsh", "enter"], "filter client=dsh"),
        (["/", *"a(b", "enter"], "filter a(b (a(b taken as text)"),
        ([" ", "2", " "], "2 marked"),
        (["s"], "by UPSTREAM"),
        (["s", "S"], "by UPSTREAM, reversed"),
        (["S"], "by place, reversed"),
    ],
)
def test_what_is_unlike_the_plain_view_is_told(view: View, after: After, keys: list[str], note: str) -> None:
    assert head(view, after(view, *keys))[1].startswith(f"── {note} ─")


def test_refused_and_failed_are_counted_where_there_are_any(viewed: Any, sample: Any, after: After) -> None:
    def figures(**counts: int) -> str:
        view = viewed(sample.snapshot([sample.upstream("a", **counts), sample.upstream("b", **counts)]))
        return "full" + head(view, after(view), 120)[0].partition("full")[2].rpartition(" ")[0].rstrip()

    assert figures(queue_full=1, queue_timeout=2) == "full 2  timeout 4"
    assert figures(refused=1, failed=2) == "full 0  timeout 0  refused 2  failed 4"


def test_slots_of_a_server_that_is_down_are_not_there_whatever_an_operator_does(
    viewed: Any, sample: Any, after: After
) -> None:
    for state in ("down", "draining", "drained"):
        down = sample.upstream("b", state=state, up=False, max_concurrent=1)
        view = viewed(sample.snapshot([sample.upstream("a", max_concurrent=2, running=1), down]))
        assert "running 1/2 " in head(view, after(view), 120)[0], state


@pytest.mark.parametrize(("uptime_ms", "forms"), [(15_000, {"up 0:15"}), (274_320_000, {"up 3d 04:12", "up 3d"})])
def test_how_long_it_has_been_up_is_written_in_one_way(
    viewed: Any, sample: Any, after: After, uptime_ms: int, forms: set[str]
) -> None:
    """At whatever width: "up 0:15" does not become "up 15s" when a longer word takes the room."""
    view = viewed(sample.snapshot([sample.upstream("a", failed=99_999)], uptime_ms=uptime_ms))
    found = {
        match[0].rstrip()
        for width in range(60, 200)
        if (match := re.search(r"up \S+( \d\S+)?", head(view, after(view), width)[0]))
    }
    assert found == forms


def test_who_may_not_act(view: View, after: After) -> None:
    assert view.status is not None
    assert head(view, after(view, read_only=True))[1].startswith("── read-only ─")
    looking = replace(view, status=msgspec.structs.replace(view.status, may_act=False))
    assert head(looking, after(looking))[1].startswith("── may look, not act ─")


def test_a_frozen_picture_has_its_title_and_its_age(view: View, after: After) -> None:
    later = replace(view, at=view.at + 33, now_ms=view.now_ms + 33_000)
    first, second = head(later, after(view, "P"))
    assert "○ FROZEN" in first
    assert first.endswith("14:03:04")
    assert second.startswith("── FROZEN: picture of 14:02:31, 33 s old; P goes on ─")
    assert "● live" in head(later, after(view, "P", "P"))[0]


def test_the_path_to_an_open_request(view: View, after: After) -> None:
    assert head(view, after(view, "2", "enter"))[0] == " llmgate ▸ ha-llm ▸ q-7f3a21".ljust(72) + "14:02:31"
    assert head(view, after(view, detail="q-none"))[0].startswith(" llmgate ▸ q-none ")


def test_states_have_their_words(view: View, after: After) -> None:
    for error, word in (("Permission denied on /x", "no permission"), ("No daemon", "not connected")):
        lost = replace(view, link=replace(view.link, state="lost", error=error))
        assert f"○ {word}" in head(lost, after(lost))[0]
        assert f"○ {word}" in head(lost, after(lost, "2", detail="q-7f3a21"))[0]


def test_many_notes_stay_on_the_line(view: View, after: After) -> None:
    state = after(view, " ", "/", *"x" * 90, "enter", "s", "P", read_only=True)
    assert len(head(view, state)[1]) == 80
    assert len(head(view, state, 200)[1]) == 200


def test_hostile_filters_are_made_harmless(view: View, after: After) -> None:
    assert "\x1b" not in "".join(head(view, replace(after(view), filter="\x1b[2J")))


def test_a_daemon_of_which_nothing_is_known(viewed: Any) -> None:
    assert head(viewed(), State())[0] == " llmgate  ○ connecting"
