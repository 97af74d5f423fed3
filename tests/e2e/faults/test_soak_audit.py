"""The auditor of the soak finds what is wrong in an account, and nothing in a right one."""

from collections.abc import Callable

import pytest
from soak_audit import audit, report, slope
from soak_story import Figures, Known, Story, Told

MIB = 1 << 20


def right() -> Story:
    """Three requests: one served, one left while it waited, one found no room."""
    story = Story(caps={"a": 2}, start_files=10, start_threads=1)
    for number, (end, kinds, outcome) in enumerate(
        [
            ("whole", ["admitted", "released"], "completed"),
            ("left", ["queued", "abandoned"], "abandoned"),
            ("QUEUE_FULL", ["refused"], "queue_full"),
        ]
    ):
        story.told.append(Told(f"t{number}", "a", "/v1/messages stream", end, f"req_{number}"))
        story.known[f"req_{number}"] = Known(f"req_{number}", f"t{number}", "a", kinds, [outcome])
    story.read_ledger("a", "start req_0 1\n")
    story.end = {"a waiting": 0, "a running": 0, "a draining": 0, "files": 12}
    story.figures = [Figures(float(at), 50 * MIB, 12, 1) for at in range(0, 1000, 10)]
    story.deeds.update({"reloads": 2, "a killed": 1, "a stood still": 1})
    story.start_tasks.update(["Discovery.run", "Discovery._follow"])
    story.end_tasks.update(["Discovery.run", "Discovery._follow", "run_asgi", "run_asgi"])
    return story


def test_a_right_account_holds_no_finding() -> None:
    assert audit(right()) == []
    text = report(right(), [])
    assert "3 requests" in text
    assert "1 whole, 1 left, 1 QUEUE_FULL" in text
    assert "a saw: 1 requests, at most 1 at once (cap 2)" in text
    assert "0 findings" in text


def test_one_that_left_before_it_was_read_need_not_be_known() -> None:
    story = right()
    story.told.append(Told("t9", "a", "x", "left"))
    assert audit(story) == []


WRONGS: dict[str, tuple[Callable[[Story], object], str]] = {
    "two outcomes": (lambda story: story.known["req_0"].outcomes.append("client_gone"), "had 2 outcomes"),
    "no outcome": (lambda story: story.known["req_1"].outcomes.clear(), "had 0 outcomes"),
    "two requests of one": (
        lambda story: story.known.update(req_9=Known("req_9", "t0", "a", ["refused"], ["completed"])),
        "was 2 requests",
    ),
    "no end": (lambda story: setattr(story.told[0], "end", "nothing"), "saw no end"),
    "a made-up end": (lambda story: setattr(story.told[1], "end", "whole"), "ended as whole"),
    "a word nobody knows": (lambda story: setattr(story.told[1], "end", "500"), "no client should see"),
    "another's id": (lambda story: setattr(story.told[0], "request_id", "req_1"), "was told the id"),
    "never heard of": (lambda story: story.known.pop("req_0"), "never heard of it"),
    "nobody sent it": (lambda story: story.told.pop(), "that no client sent"),
    "seen without a slot": (lambda story: story.started["a"].append("req_1"), "without a slot"),
    "seen twice": (lambda story: story.started["a"].append("req_0"), "2 times"),
    "seen and unknown": (lambda story: story.started["a"].append("req_7"), "does not know"),
    "never seen": (lambda story: story.started["a"].clear(), "never saw it"),
    "above the cap": (lambda story: story.most_running.update(a=3), "its cap is 2"),
    "a slot lost": (lambda story: story.end.update({"a running": 1}), "1 are left: a running"),
    "files left": (lambda story: story.end.update(files=40), "40 files are open"),
    "threads left": (lambda story: story.figures.append(Figures(1000, 50 * MIB, 12, 9)), "9 threads"),
    "tasks left": (lambda story: story.end_tasks.update(["Discovery._follow"] * 3), "3 more tasks than at the start"),
    "files at the limit": (lambda story: story.end.update(files=19), "19 files are open"),
    "no reload": (lambda story: story.deeds.pop("reloads"), "nothing was done of this: reloads"),
    "nobody killed": (lambda story: story.deeds.pop("a killed"), "nothing was done of this: killed"),
    "nobody stood still": (lambda story: story.deeds.pop("a stood still"), "nothing was done of this: stood still"),
    "events missed": (lambda story: setattr(story, "missed_events", 2), "left out 2"),
    "a log line": (lambda story: story.log_errors.append("Traceback"), "the log says"),
    "a leak": (
        lambda story: story.figures.extend(Figures(float(at), at // 50 * MIB, 12, 1) for at in range(1000, 2500, 10)),
        "memory grows",
    ),
}


@pytest.mark.parametrize("wrong", WRONGS.values(), ids=WRONGS.keys())
def test_it_finds_what_is_wrong(wrong: tuple[Callable[[Story], object], str]) -> None:
    spoil, told = wrong
    story = right()
    spoil(story)
    findings = audit(story)
    assert any(told in finding for finding in findings), findings
    assert findings[0] in report(story, findings)


def growing(by: float) -> Story:
    """`by` MiB in ten minutes."""
    story = right()
    story.figures = [Figures(float(at), round((50 + by * at / 600) * MIB), 12, 1) for at in range(0, 1800, 10)]
    return story


def test_the_limit_is_a_mebibyte_in_ten_minutes() -> None:
    assert audit(growing(0.95)) == []
    assert audit(growing(1.05)) == ["memory grows by 1.05 MiB in ten minutes"]


def test_memory_that_comes_in_steps_is_a_leak_too() -> None:
    story = right()
    story.figures = [Figures(float(at), (50 + at // 400) * MIB, 12, 1) for at in range(0, 1800, 10)]
    assert any("memory grows" in finding for finding in audit(story))


def test_what_fills_in_the_first_half_is_none() -> None:
    story = right()
    story.figures = [Figures(float(at), min(50 + at // 60, 62) * MIB, 12, 1) for at in range(0, 1800, 10)]
    assert audit(story) == []


def test_a_slope_is_that_of_ten_minutes_after_the_warm_up() -> None:
    climbing = [Figures(at, (100 if at < 1000 else 50) * MIB + at * MIB // 600, 1, 1) for at in range(0, 2000, 10)]
    assert slope(climbing) == pytest.approx(MIB, rel=0.01)
    assert slope(climbing[:24]) == 0


def test_a_soak_that_is_short_says_nothing_of_a_slope() -> None:
    story = right()
    story.figures = [Figures(float(at), at * MIB, 12, 1) for at in range(0, 1000, 10)]
    assert audit(story) == []
