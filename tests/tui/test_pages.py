"""The pages that are one list each, and the log."""

from collections.abc import Callable
from datetime import UTC
from typing import Any

from llmgate.tui.cells import plain
from llmgate.tui.furniture import Look
from llmgate.tui.model import Model, View
from llmgate.tui.picture import picture
from llmgate.tui.state import State

After = Callable[..., State]


def drawn(view: View, state: State, width: int = 80, height: int = 24) -> list[str]:
    return [plain(line) for line in picture(view, Look(width, height, UTC), state)]


def test_all_that_wait(view: View, after: After) -> None:
    lines = drawn(view, after(view, "2", "j"))
    assert lines[2].startswith("── waiting on all upstreams ──")
    assert lines[3].split() == ["UPSTREAM", "#", "WAITED", "ETA", "MODEL", "CLIENT", "SESSION"]
    assert lines[5].startswith(" ▸ ha-llm         2    0:18 ~0:18  qwen2.5:3b-instruct ")
    assert lines[7].split()[:2] == ["vllm-a100", "1"]


def test_all_that_run(view: View, after: After) -> None:
    lines = drawn(view, after(view, "3"), 120)
    assert lines[3].split()[:6] == ["UPSTREAM", "ID", "RUN", "WAITED", "TTFT", "MODEL"]
    assert lines[4].split()[:6] == ["▸", "ha-llm", "q-7f3a1c", "0:09", "5.7s", "0.4s"]


def test_those_that_ended(sample: Any, after: After) -> None:
    now = sample.NOW
    model = Model()
    model.apply(sample.documented(), 1.0)
    model.remember(
        [
            sample.request("q-1", "ha-llm", state="done", outcome="completed", arrived_ms=now - 20_000, client="dsh",
                           dispatched_ms=now - 18_000, first_byte_ms=now - 17_000, ended_ms=now - 7000,
                           output_tokens=50),
            sample.request("q-2", "ollama", state="done", outcome="queue_timeout", arrived_ms=now - 90_000,
                           ended_ms=now - 60_000),
            sample.request("q-3", "ollama", state="done", outcome="upstream_error", reason="it broke off",
                           arrived_ms=now - 90_000, dispatched_ms=now - 90_000, ended_ms=now - 70_000),
        ]
    )  # fmt: skip
    view = model.view(1.0)
    lines = drawn(view, after(view, "4"), 120)
    assert lines[3].split()[:7] == ["AGO", "ID", "UPSTREAM", "OUTCOME", "WAITED", "RAN", "MODEL"]
    assert lines[4].split()[:7] == ["▸", "0:07", "q-1", "ha-llm", "completed", "2.0s", "11.0s"]
    assert lines[4].split()[-2:] == ["50", "5.0"]
    assert not any("it broke off" in line for line in lines)
    assert any(line == " q-3 upstream_error: it broke off" for line in drawn(view, after(view, "4", "G"), 80))
    wide = drawn(view, after(view, "4"), 150)
    assert wide[3].split()[-1] == "REASON"
    assert wide[6].endswith("it broke off")
    assert lines[5].split()[:6] == ["1:00", "q-2", "ollama", "queue_timeout", "30.0s", "-"]


def test_events_newest_first(view: View, after: After) -> None:
    lines = drawn(view, after(view, "5"))
    assert [line.split()[1] for line in lines[3:7]] == ["queued", "dispatched", "down", "QUEUE_FULL"]
    assert lines[3].startswith("▸14:02:28")


def test_nothing_and_nothing_found_are_two_things(view: View, viewed: Any, sample: Any, after: After) -> None:
    empty = viewed(sample.snapshot([sample.upstream("a")]))
    said = [drawn(empty, after(empty, key))[3].strip() for key in "2345"]
    assert said == ["nobody waits", "nothing runs", "no request has ended yet", "nothing has happened yet"]
    assert drawn(view, after(view, "2", "/", *"zzz", "enter"))[3].strip() == "the filter hides all 4"
    assert any("the filter hides all 3" in line for line in drawn(view, after(view, "/", *"zzz", "enter")))


def test_notes_of_a_list(view: View, after: After) -> None:
    assert drawn(view, after(view, "2", "/", *"claude|web", "enter", "s"))[2].endswith("2 of 4 ─── by # ──────")


def test_of_a_long_list_the_rows_around_the_selection(sample: Any, viewed: Any, after: After) -> None:
    requests = [sample.request(f"q-{n}", "a", order=n) for n in range(9999)]
    many = viewed(sample.snapshot([sample.upstream("a")], requests))
    first = drawn(many, after(many, "2"))
    assert first[4].split()[2] == "1"
    assert "9,982 more" in first[-3]
    last = drawn(many, after(many, "2", "end"))
    assert last[-4].startswith(" ▸ a")
    assert last[-3].split()[1:] == ["9,983", "to", "9,999", "of", "9,999"]
    middle = drawn(many, after(many, "2", *["pagedown"] * 30))
    assert sum(line.startswith(" ▸ a") for line in middle) == 1


def test_the_log_is_of_what_is_selected(view: View, after: After) -> None:
    lines = drawn(view, after(view, "l"))
    begin = next(index for index, line in enumerate(lines) if line.startswith("── log of ha-llm ─"))
    assert lines[begin + 1 : -2] == [
        " 14:01:02 llmgate: ha-llm queue_full (depth 16)",
        " 14:02:22 llmgate: ha-llm session=ses_dd49 dispatched after 5730ms",
        " 14:02:28 llmgate: ha-llm purpose=session-title queued (depth 3)",
    ]
    short = drawn(view, after(view, "l"), 60, 15)
    assert [line for line in short if "llmgate: " in line][-1].startswith(" 14:02:28 "), "the newest are kept"
    of_request = drawn(view, after(view, "3", "l"))
    assert of_request[-4].startswith("── log of q-7f3a1c ─")
    assert of_request[-3] == " 14:02:22 llmgate: ha-llm session=ses_dd49 dispatched after 5730ms"
    assert "   no line yet, of those that are still kept" in drawn(view, after(view, "j", "l"))
