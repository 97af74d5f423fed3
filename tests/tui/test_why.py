"""Why it waits, in sentences."""

from typing import Any

import pytest

from llmgate.adminapi import EndpointView
from llmgate.tui.state import Why
from llmgate.tui.why import why_request, why_text, why_upstream


@pytest.fixture
def why(sample: Any, viewed: Any) -> Any:
    """Why q-2, the second of two, waits on an upstream like that."""

    def ask(running: int = 1, told: Any = None, **fields: Any) -> str:
        now = sample.NOW
        waiting = [
            sample.request("q-1", "a", order=1, arrived_ms=now - 9000),
            sample.request("q-2", "a", order=2, arrived_ms=now - 8000, deadline_ms=now + 60_000),
        ]
        runs = [
            sample.request(f"r-{n}", "a", state="running", client="dsh", dispatched_ms=now - 65_000)
            for n in range(running)
        ]
        starts = [now + 2000, now + 5000]
        up = sample.upstream("a", **{"state": "full", "running": running, "waiting": 2, "starts_ms": starts} | fields)
        view = viewed(sample.snapshot([up], [*waiting, *runs], **told or {}))
        return why_request(view, view.request("q-2"))

    return ask


BEGIN = "q-2 has been waiting for 0:08, at position 2 of 2. "
END = " It gets a slot in about 0:05, by the last runs. It gives up in 1:00 (queue_timeout)."


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({}, "The only slot of a is taken. The longest, r-0 (dsh), has been running for 1:05. 1 stands before it."),
        ({"max_concurrent": 2, "running": 2}, "All 2 slots of a are taken."),
        ({"running": 3}, "3 have a slot though max_concurrent is 1 now: 3 must end for the next one."),
        ({"running": 3, "max_concurrent": 2}, "3 have a slot though max_concurrent is 2 now: 2 must end for the next"),
        ({"draining": 1, "running": 0}, "1 of them: over for the client, the server is not yet known to be free."),
        ({"max_concurrent": 3}, "A slot is free: it goes to the first of the 1 before it."),
        ({"max_concurrent": 0}, "a is not gated: it gets a slot at once."),
        ({"state": "down", "detail": "it takes no connection"}, "a is down: it takes no connection. Its queue is kept"),
        ({"state": "down"}, "a is down. Its queue is kept, and goes on by itself as soon as a server answers."),
        ({"state": "down", "holds": False}, 'a is down. Its queue is not kept (on_down = "fail"): requests fail with'),
        ({"state": "paused"}, "An operator has paused a: nobody gets a slot until it is resumed (R)."),
        ({"state": "draining"}, "a is draining: it takes nobody new, and those that are there are served to the end."),
        ({"state": "drained"}, "a is drained: it takes nobody new, and nobody is left there."),
        ({"told": {"state": "stopping"}}, "The daemon is stopping"),
        ({"alarms": ["hidden wait: the server itself makes requests wait"]}, "hidden wait: the server itself makes"),
    ],
)
def test_causes(why: Any, fields: dict[str, Any], cause: str) -> None:
    said = why(**fields)
    assert said.startswith(BEGIN)
    assert cause in said
    assert said.endswith(END)


def test_servers_that_are_down(why: Any) -> None:
    endpoints = [EndpointView(name="gpu1", up=True), EndpointView(name="gpu2", up=False)]
    assert "Of its 2 servers these are down: gpu2." in why(max_concurrent=3, endpoints=endpoints)


def test_the_first_with_a_free_slot(sample: Any, viewed: Any) -> None:
    first = sample.request("q-1", "a", arrived_ms=sample.NOW)
    view = viewed(sample.snapshot([sample.upstream("a", waiting=1)], [first]))
    assert why_request(view, first).endswith("A slot is free: it is next.")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"state": "running", "dispatched_ms": -9000}, "does not wait: it has had a slot of a for 0:09. No byte"),
        ({"state": "running", "dispatched_ms": -900}, "q does not wait: it has had a slot of a for 0:00."),
        ({"state": "running", "dispatched_ms": -900, "first_byte_ms": 0, "output_tokens": 1204}, "1,204 tokens have"),
        ({"state": "draining", "outcome": "client_gone"}, "q is over for its client (client_gone), but a is not yet"),
        ({"state": "done", "outcome": "completed"}, "q waits for nothing: it ended (completed)."),
        (
            {"state": "done", "outcome": "upstream_error", "reason": "it broke off"},
            "q waits for nothing: it ended (upstream_error: it broke off).",
        ),
    ],
)
def test_who_does_not_wait(sample: Any, viewed: Any, fields: dict[str, Any], said: str) -> None:
    given = {key: sample.NOW + value if key.endswith("_ms") else value for key, value in fields.items()}
    one = sample.request("q", "a", **given)
    assert said in why_request(viewed(sample.snapshot([sample.upstream("a")], [one])), one)


def test_an_upstream_that_is_gone(sample: Any, viewed: Any) -> None:
    assert "not known here any more" in why_request(viewed(sample.snapshot([])), sample.request("q", "a"))


def test_upstreams(sample: Any, viewed: Any) -> None:
    def ask(requests: list[Any] | None = None, **fields: Any) -> str:
        view = viewed(sample.snapshot([sample.upstream("a", **fields)], requests))
        return why_upstream(view, view.lanes[0])

    assert ask() == "Nobody waits on a."
    assert ask(state="paused").startswith("Nobody waits on a. An operator has paused a")
    assert ask([sample.request("q", "a")], running=1).startswith("1 wait on a. The only slot of a is taken.")
    assert ask(alarms=["mismatch: the server has 1 slot"]) == "Nobody waits on a. mismatch: the server has 1 slot."


def test_what_is_gone_is_told(sample: Any, viewed: Any) -> None:
    view = viewed(sample.snapshot([sample.upstream("a")]))
    assert why_text(view, Why("request", "q-1")) == "q-1 is over, and no longer kept here."
    assert why_text(view, Why("upstream", "b")) == "There is no upstream b any more."
    assert why_text(view, Why("upstream", "a")) == "Nobody waits on a."
