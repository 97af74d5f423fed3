"""How the parts of the overview share its rows."""

from dataclasses import replace
from datetime import UTC
from typing import Any

import msgspec
import pytest

from llmgate.adminapi import FeedItem
from llmgate.tui.cells import plain
from llmgate.tui.columns import Frame
from llmgate.tui.furniture import Look
from llmgate.tui.model import Model
from llmgate.tui.sections import sections, upstream_lines
from llmgate.tui.state import Sort


def view(sample: Any, *items: FeedItem) -> Frame:
    model = Model()
    for item in items or (sample.documented(),):
        model.apply(item, 1.0)
    seen = model.view(1.0)
    return Frame(seen, selected=seen.lanes[0].upstream.name)


def texts(frame: Frame, look: Look, room: int) -> list[str]:
    return [plain(line) for line in sections(frame, look, room)]


def test_only_the_selected_upstreams_requests_below_34_rows(sample: Any) -> None:
    said = "\n".join(texts(view(sample), Look(80, 33, zone=UTC), 30))
    assert "waiting on ha-llm" in said
    assert "vllm-a100 ─" not in said


@pytest.mark.parametrize("pane", ["waiting", "running", "events"])
def test_an_order_of_one_s_own_is_told_wherever_the_selection_is(sample: Any, pane: str) -> None:
    frame = view(sample)
    frame = replace(frame, state=replace(frame.state, sorts={pane: Sort("CLIENT", reverse=True)}))
    (head,) = [line for line in texts(frame, Look(80, 24, zone=UTC), 20) if "by CLIENT, reversed" in line]
    assert head.startswith(f"── {pane}")


def test_all_upstreams_waiters_from_34_rows_on(sample: Any) -> None:
    lines = texts(view(sample), Look(80, 34, zone=UTC), 30)
    heads = [line for line in lines if "waiting on" in line]
    assert [line.split()[3] for line in heads] == ["ha-llm", "vllm-a100"]
    assert sum("  MODEL" in line for line in lines) == 2
    assert "   connection refused, next probe in 5 s" in lines


def test_the_titles_stand_above_the_first_rows(sample: Any) -> None:
    frame = view(sample)
    other = Frame(frame.view, selected="ollama")
    lines = texts(other, Look(80, 40, zone=UTC), 30)
    assert lines[0].startswith("── waiting on ollama")
    assert lines[1] == "   nobody waits"
    assert lines[2].startswith("── waiting on ha-llm")
    assert "WAITED" in lines[3]
    assert lines[4].startswith("     1")


def test_what_is_hidden_is_counted(sample: Any) -> None:
    many = [sample.request(f"q-{n}", "a", order=n) for n in range(2000)]
    frame = view(sample, sample.snapshot([sample.upstream("a", waiting=2000)], many))
    lines = texts(frame, Look(80, 24, zone=UTC), 12)
    shown = [line for line in lines if "qwen" in line]
    assert f"   … {2000 - len(shown):,} more" in lines
    assert [line.split()[0] for line in shown] == [str(n + 1) for n in range(len(shown))]


def test_who_waits_gets_more_room_than_who_runs(sample: Any) -> None:
    requests = [sample.request(f"q-{n}", "a", order=n, client="waits") for n in range(50)]
    requests += [sample.request(f"r-{n}", "a", state="running", client="runs") for n in range(50)]
    said = "\n".join(texts(view(sample, sample.snapshot([sample.upstream("a")], requests)), Look(80, 24), 20))
    assert said.count("waits") > said.count("runs") + 2


def test_only_rows_that_are_seen_are_made(sample: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [sample.request(f"q-{n}", "a", order=n) for n in range(10_000)]
    frame = view(sample, sample.snapshot([sample.upstream("a", waiting=10_000)], many))
    made = []
    real = Frame.clean
    monkeypatch.setattr(Frame, "clean", lambda self, text: made.append(text) or real(self, text))
    sections(frame, Look(120, 50, zone=UTC), 45)
    assert 0 < len(made) < 45 * 10


def test_alarms_stand_where_an_upstream_that_is_down_says_why(sample: Any) -> None:
    said = sample.upstream("a", detail="gpu2 is down", alarms=["stalled: requests wait", "mismatch: one slot"])
    lines = texts(view(sample, sample.snapshot([said])), Look(80, 24, zone=UTC), 20)
    assert lines[1] == "   gpu2 is down; stalled: requests wait; mismatch: one slot"


def test_draining_stands_below_running(sample: Any) -> None:
    requests = [
        sample.request("q-1", "a", state="draining", client="one", dispatched_ms=sample.NOW),
        sample.request("q-2", "a", state="running", client="two", dispatched_ms=sample.NOW),
    ]
    lines = texts(view(sample, sample.snapshot([sample.upstream("a")], requests)), Look(80, 24, zone=UTC), 20)
    running = [line for line in lines if "qwen" in line]
    assert "two" in running[0]
    assert "one" in running[1]
    assert running[1].endswith("draining")


class TestUpstreams:
    def lines(self, sample: Any, count: int, selected: int, most: int) -> list[str]:
        frame = view(sample, sample.snapshot([sample.upstream(f"up-{n}") for n in range(count)]))
        chosen = Frame(frame.view, selected=f"up-{selected}")
        return [plain(line) for line in upstream_lines(chosen, 80, most)]

    def test_all_when_they_fit(self, sample: Any) -> None:
        assert len(self.lines(sample, 5, 0, 5)) == 6

    @pytest.mark.parametrize("selected", [0, 3, 10, 19])
    def test_a_part_around_the_selected_one(self, sample: Any, selected: int) -> None:
        lines = self.lines(sample, 20, selected, 5)
        assert len(lines) == 6
        assert sum(line.startswith(f" ▸ up-{selected} ") for line in lines) == 1
        assert lines[-1].endswith("of 20 upstreams")

    def test_the_part_is_told_rightly(self, sample: Any) -> None:
        lines = self.lines(sample, 20, 19, 5)
        assert lines[-1] == "   … 17 to 20 of 20 upstreams"
        assert lines[1].startswith("   up-16 ")


class TestEvents:
    def lines(self, sample: Any, width: int, **event: Any) -> list[str]:
        told = msgspec.structs.replace(
            sample.event(5, "queued", "ha-llm", "queued (depth 3)", request_id="q-1"), **event
        )
        frame = view(sample, sample.snapshot([sample.upstream("ha-llm")], [], [told]))
        return texts(frame, Look(width, 24, zone=UTC), 20)

    def test_newest_first(self, sample: Any) -> None:
        lines = texts(view(sample), Look(80, 24, zone=UTC), 20)
        at = next(index for index, line in enumerate(lines) if "events" in line)
        assert [line.split()[1] for line in lines[at + 1 : at + 5]] == ["queued", "dispatched", "down", "QUEUE_FULL"]

    def test_narrow_and_wide(self, sample: Any) -> None:
        assert " 14:02:28 queued         ha-llm    depth 3" in self.lines(sample, 80)
        assert " 14:02:28 queued         ha-llm    q-1           depth 3" in self.lines(sample, 120)

    def test_who_it_was(self, sample: Any) -> None:
        told = {"client": "dsh", "session": "a3f9c0d1-77c1", "purpose": "compaction"}
        assert " 14:02:28 queued         ha-llm    depth 3  dsh  a3f9..c1  compaction" in self.lines(sample, 80, **told)
        assert " 14:02:28 dreamt         ha-llm    dsh" in self.lines(sample, 80, text="dreamt", client="dsh")

    def test_texts_of_every_shape_and_a_bad_time(self, sample: Any) -> None:
        assert " -        limits         ha-llm    a=1 (was 2)" in self.lines(
            sample, 80, text="limits a=1 (was 2)", word="limits", at="teatime"
        )
        assert " 14:02:28 dreamt         ha-llm" in self.lines(sample, 80, kind="dreamt", text="dreamt")

    @pytest.mark.parametrize(
        ("word", "text", "line"),
        [
            ("down", "down: it broke", "down           ha-llm    it broke"),
            ("down", "down http://gpu2: it broke", "down           ha-llm    http://gpu2: it broke"),
            ("down", "down", "down           ha-llm"),
            ("requeued", "requeued, nothing of it was sent", "requeued       ha-llm    nothing of it was sent"),
            ("alarm", "alarm stalled: requests wait", "alarm          ha-llm    stalled: requests wait"),
            ("alarm", "alarm stalled no more", "alarm          ha-llm    stalled no more"),
        ],
    )
    def test_what_is_wrong_is_told_as_a_sentence(self, sample: Any, word: str, text: str, line: str) -> None:
        assert f" 14:02:28 {line}" in self.lines(sample, 80, word=word, text=text)

    def test_an_alarm_and_a_server_that_is_down_are_red(self, sample: Any) -> None:
        told = [
            sample.event(5, kind, "a", f"{word} it is", word=word)
            for kind, word in (("alarm_raised", "alarm"), ("alarm_cleared", "alarm"), ("endpoint_changed", "down"))
        ]
        lines = sections(view(sample, sample.snapshot([sample.upstream("a")], [], told)), Look(80, 24, zone=UTC), 20)
        styles = [span.style for line in lines for span in line if span.text.startswith(("alarm", "down"))]
        assert styles == ["bad", "", "bad"]

    def test_a_hostile_text(self, sample: Any) -> None:
        lines = self.lines(sample, 60, text="\x1b[2J\r\n " + "界" * 99)
        assert any(line.endswith("…") and " ?[2J?? " in line for line in lines)

    def test_none(self, sample: Any) -> None:
        frame = view(sample, sample.snapshot([sample.upstream("a")]))
        assert "   nothing has happened yet" in texts(frame, Look(80, 24), 20)
