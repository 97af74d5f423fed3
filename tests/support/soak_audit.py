"""The auditor of a soak: holds the three accounts against each other, and writes what it finds as a text.

Each finding is a sentence. None means: every request had exactly one end, and all three accounts say the same one;
nobody who waited in vain reached a server; no cap was exceeded; nothing is left over.
"""

from collections import Counter
from collections.abc import Iterator

from soak_story import Figures, Known, Story, Told

WAITED_IN_VAIN = {"abandoned", "queue_full", "queue_timeout", "refused"}
FAILED = {"upstream_error", "upstream_timeout", "upstream_down"}
OUTCOMES_OF = {
    "QUEUE_FULL": {"queue_full"},
    "QUEUE_TIMEOUT": {"queue_timeout"},
    "UPSTREAM_DOWN": {"upstream_down"},
    "UPSTREAM_ERROR": {"upstream_error"},
    "UPSTREAM_TIMEOUT": {"upstream_timeout"},
    "429": {"upstream_error", "completed"},
    "503": {"upstream_error", "completed"},
    "error": FAILED,
    "whole": {"completed"},
    "cut": FAILED | {"client_stalled"},
    "left": {"abandoned", "client_gone", "completed", "queue_full", "queue_timeout", "client_stalled"} | FAILED,
}
"""What the daemon may call a request that ended so for its client."""

SLOPE_SECONDS = 600.0
"""Over less time a slope of memory says nothing."""
MOST_SLOPE = 1 << 20
"""Bytes in ten minutes."""
WARM_SECONDS = 240.0
"""The first half of a soak, and no less than this, is warming up: histories fill, the allocator finds its size."""
TASKS_LEEWAY = 2
"""Of each kind: a question of our own or of the test's may be under way when they are counted."""
FILES_LEEWAY = 8
"""Kept connections to the servers are open files, and not left over."""


def audit(story: Story) -> list[str]:
    """What is wrong, a sentence each."""
    return [
        *_one_end_each(story),
        *_accounts_agree(story),
        *_servers_saw_the_right_ones(story),
        *_nothing_is_left(story),
        *_memory_is_flat(story.figures),
        *_something_was_done(story),
    ]


def _one_end_each(story: Story) -> Iterator[str]:
    for known in story.known.values():
        if len(known.outcomes) != 1:
            yield f"{known.request_id} had {len(known.outcomes)} outcomes: {known.kinds} {known.outcomes}"
    for tag, count in Counter(known.tag for known in story.known.values()).items():
        if count > 1:
            yield f"the client's request {tag} was {count} requests to the daemon"
    for told in story.told:
        if told.end == "nothing":
            yield f"the client of {told.tag} ({told.sent}) saw no end at all"
    if story.missed_events:
        yield f"the feed left out {story.missed_events} events"


def _accounts_agree(story: Story) -> Iterator[str]:
    by_tag = {known.tag: known for known in story.known.values()}
    for told in story.told:
        known = by_tag.pop(told.tag, None)
        yield from _same_end(told, known)
    for tag in by_tag:
        yield f"the daemon knows a request {tag!r} that no client sent"


def _same_end(told: Told, known: Known | None) -> Iterator[str]:
    who = f"{told.tag} ({told.sent}, {told.upstream})"
    if known is None:
        if told.end != "left":
            yield f"{who} ended as {told.end} for its client, and the daemon never heard of it"
        return
    if told.request_id and told.request_id != known.request_id:
        yield f"{who} was told the id {told.request_id}, and is {known.request_id}"
    if told.end not in OUTCOMES_OF:
        yield f"{who} ended as {told.end}, which no client should see here; the daemon says {known.outcomes}"
    elif not set(known.outcomes) <= OUTCOMES_OF[told.end]:
        yield f"{who} ended as {told.end} for its client, and as {known.outcomes} for the daemon"


def _servers_saw_the_right_ones(story: Story) -> Iterator[str]:
    for upstream, ids in story.started.items():
        for request_id, count in Counter(ids).items():
            known = story.known.get(request_id)
            if known is None:
                yield f"{upstream} saw {request_id}, which the daemon does not know"
            elif set(known.outcomes) & WAITED_IN_VAIN:
                yield f"{upstream} saw {request_id}, which ended as {known.outcomes} without a slot"
            if count > 1:
                yield f"{upstream} saw {request_id} {count} times"
        yield from _completed_were_seen(story, upstream, set(ids))
    for upstream, most in story.most_running.items():
        if most > story.caps[upstream]:
            yield f"{upstream} had {most} requests at once, its cap is {story.caps[upstream]}"


def _completed_were_seen(story: Story, upstream: str, ids: set[str]) -> Iterator[str]:
    whole = {told.tag for told in story.told if told.end == "whole"}
    for known in story.known.values():
        if known.upstream == upstream and known.tag in whole and known.request_id not in ids:
            yield f"{known.request_id} was answered whole, and {upstream} never saw it"


def _nothing_is_left(story: Story) -> Iterator[str]:
    for name, count in story.end.items():
        if name != "files" and count:
            yield f"{count} are left: {name}"
    if story.end.get("files", 0) > story.start_files + FILES_LEEWAY:
        yield f"{story.end['files']} files are open, {story.start_files} were at the start"
    if story.figures and story.figures[-1].threads > story.start_threads + 2:
        yield f"{story.figures[-1].threads} threads run, {story.start_threads} did at the start"
    for name, count in (story.end_tasks - story.start_tasks).items():
        if count > TASKS_LEEWAY:
            yield f"{count} more tasks than at the start: {name}"
    for line in story.log_errors:
        yield f"the log says: {line}"


def settled(figures: list[Figures]) -> list[Figures]:
    """Those after the warm-up."""
    return [one for one in figures if one.at >= max(WARM_SECONDS, figures[-1].at / 2)]


def slope(figures: list[Figures]) -> float:
    """Bytes in ten minutes, by the straight line that fits best after the warm-up; 0 where there is too little."""
    seen = settled(figures)
    if len(seen) < 2:
        return 0.0
    mean_at = sum(one.at for one in seen) / len(seen)
    mean_memory = sum(one.memory for one in seen) / len(seen)
    spread = sum((one.at - mean_at) ** 2 for one in seen)
    return 600 * sum((one.at - mean_at) * (one.memory - mean_memory) for one in seen) / spread


def _memory_is_flat(figures: list[Figures]) -> Iterator[str]:
    seen = settled(figures)
    if seen and seen[-1].at - seen[0].at >= SLOPE_SECONDS and slope(figures) > MOST_SLOPE:
        yield f"memory grows by {slope(figures) / (1 << 20):.2f} MiB in ten minutes"


def _something_was_done(story: Story) -> Iterator[str]:
    """A long soak without reloads or killed servers is none."""
    if not story.figures or story.figures[-1].at < SLOPE_SECONDS:
        return
    for deed in ("reloads", "killed", "stood still"):
        if not any(deed in done for done in story.deeds):
            yield f"nothing was done of this: {deed}"


def report(story: Story, findings: list[str]) -> str:
    """All of it for people."""
    ends = Counter(told.end for told in story.told)
    outcomes = Counter(outcome for known in story.known.values() for outcome in known.outcomes)
    last = story.figures[-1] if story.figures else Figures(0, 0, 0, 0)
    lines = [
        f"Soak of {last.at:.0f} s: {len(story.told)} requests.",
        "",
        "What clients saw: " + _counts(ends),
        "What the daemon said: " + _counts(outcomes),
        *(
            f"What {name} saw: {len(ids)} requests, at most {story.most_running[name]} at once (cap {story.caps[name]})"
            for name, ids in story.started.items()
        ),
        "What was done: " + _counts(story.deeds),
        "",
        f"Memory: {_memory(story.figures)}",
        f"Memory by the minute, in MiB: {_by_the_minute(story.figures)}",
        f"Open files: {story.start_files} at the start, {story.end.get('files')} at the end",
        f"Threads: {story.start_threads} at the start, {last.threads} at the end",
        f"Tasks: {story.start_tasks.total()} at the start, {story.end_tasks.total()} at the end",
        f"At the end: {story.end}",
        "",
        f"{len(findings)} findings" + (":" if findings else ": every request had one end, and all accounts agree."),
        *findings,
    ]
    return "\n".join(lines) + "\n"


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common()) or "nothing"


def _memory(figures: list[Figures]) -> str:
    if not figures:
        return "nobody looked"
    first, last = (f"{one.memory / (1 << 20):.1f} MiB" for one in (figures[0], figures[-1]))
    growth = f"{slope(figures) / (1 << 20):+.2f} MiB in ten minutes"
    return f"{first} at the start, {last} at the end; after the warm-up {growth}"


def _by_the_minute(figures: list[Figures]) -> str:
    """The lowest of each, which an answer that is just passing does not raise."""
    minutes: dict[int, int] = {}
    for one in figures:
        minute = int(one.at // 60)
        minutes[minute] = min(one.memory, minutes.get(minute, one.memory))
    return " ".join(f"{memory / (1 << 20):.1f}" for memory in minutes.values())
