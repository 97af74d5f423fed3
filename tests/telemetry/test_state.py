"""The state in the log: a line for each upstream and each live request, and no more than there is room for."""

from llmgate.adminapi import RequestView, Status, UpstreamView
from llmgate.telemetry.state import MOST_REQUESTS, state_lines

BUSY = UpstreamView(
    name="a", state="full", url="http://h", max_concurrent=1, max_queued=8, running=1, waiting=3, alarms=["stalled: x"]
)
FREE = UpstreamView(name="b", state="idle", url="http://h", max_concurrent=0)


def status(*upstreams: UpstreamView) -> Status:
    return Status(
        version="1",
        pid=1,
        started_at="",
        uptime_ms=61_000,
        now_at="",
        now_ms=61_000,
        state="running",
        listen=[],
        config="",
        socket="",
        upstreams=list(upstreams),
    )


def request(number: int) -> RequestView:
    return RequestView(
        id=f"r{number}",
        upstream="a",
        state="waiting",
        order=number,
        model="m",
        api="messages",
        path="/v1/messages",
        stream=True,
        session="s1",
        arrived_ms=60_000,
    )


def test_a_line_for_each() -> None:
    assert list(state_lines(status(BUSY, FREE), [request(1)])) == [
        "state: llmgate 1 running, up 61s, 1 requests live",
        "state: a full, running 1, draining 0, slots 1, waiting 3, limit 8, served 0: stalled: x",
        "state: b idle, running 0, draining 0, slots not gated, waiting 0, limit none, served 0",
        "state: a waiting r1 for 1000ms model=m session=s1",
    ]


def test_it_is_bounded() -> None:
    lines = list(state_lines(status(), [request(number) for number in range(5000)]))
    assert len(lines) == MOST_REQUESTS + 2
    assert lines[-1] == f"state: and {5000 - MOST_REQUESTS} requests more"
