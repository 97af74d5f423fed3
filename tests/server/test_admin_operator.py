"""What an operator may look at and do over the admin socket: each answer, each refusal, and what the gate then does."""

from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from llmgate.core.events import Mode
from llmgate.errors import Refused
from llmgate.server import admin_operator
from llmgate.server.admin_peer import user_name
from tests.server.desk import ME, AdminDesk

WHO = f"uid {ME} ({user_name(ME)})"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[AdminDesk]:
    async with AdminDesk(tmp_path) as made:
        yield made


# ---- looking


async def test_the_whole_state_and_single_upstreams(desk: AdminDesk) -> None:
    assert [view["name"] for view in (await desk.get("/v1/status"))["upstreams"]] == ["a", "b"]
    assert [view["name"] for view in (await desk.get("/v1/upstreams"))["upstreams"]] == ["a", "b"]
    one = await desk.get("/v1/upstreams/b")
    assert (one["upstream"]["name"], one["now_ms"], one["changed"]) == ("b", 77, False)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/upstreams/reasonin"),
        ("PATCH", "/v1/upstreams/aa"),
        ("POST", "/v1/upstreams/aa/pause"),
        ("GET", "/v1/requests?upstream=aa"),
        ("GET", "/readyz?upstream=aa"),
    ],
)
async def test_an_unknown_upstream_is_told_with_those_that_there_are(desk: AdminDesk, method: str, path: str) -> None:
    status, code, message = await desk.refusal(method, path, b'{"max_queued":1}' if method == "PATCH" else None)
    assert (status, code) == (404, "UNKNOWN_UPSTREAM")
    assert message.endswith("there are: a, b")


async def test_the_nearest_name_is_told(desk: AdminDesk) -> None:
    assert (await desk.refusal("GET", "/v1/upstreams/aa"))[2] == (
        "there is no upstream 'aa'; did you mean a? there are: a, b"
    )


REQUESTS = [
    ("", ["w1", "w2", "r1", "r2"]),
    ("?state=live", ["w1", "w2", "r1", "r2"]),
    ("?state=all", ["w1", "w2", "r1", "r2", "d2", "d1"]),
    ("?state=done", ["d2", "d1"]),
    ("?state=waiting", ["w1", "w2"]),
    ("?state=running", ["r1", "r2"]),
    ("?state=draining", []),
    ("?upstream=b", ["r2"]),
    ("?client=dsh", ["w2"]),
    ("?session=a61e", ["w1"]),
    ("?model=m2&state=all", ["d1"]),
    ("?limit=1", ["w1"]),
    ("?limit=5&state=all", ["w1", "w2", "r1", "r2", "d2"]),
]


@pytest.mark.parametrize(("query", "ids"), REQUESTS)
async def test_requests_and_their_filters(desk: AdminDesk, query: str, ids: list[str]) -> None:
    for name, model in (("d1", "m2"), ("d2", "m")):
        (await desk.enter(name, model=model))._place.leave("completed")
    await desk.enter("r1")
    await desk.enter("w1", session="a61e6e40")
    await desk.enter("w2", client="dsh")
    await desk.enter("r2", "b")
    answer = await desk.get("/v1/requests" + query)
    assert [view["id"] for view in answer["requests"]] == ids


async def test_one_request_with_its_journey_and_its_session(desk: AdminDesk) -> None:
    first = await desk.enter("r1", session="s")
    await desk.enter("w1", session="s")
    await desk.enter("w2", session="t")
    await desk.enter("w3")
    found = await desk.get("/v1/requests/w2")
    assert (found["request"]["id"], found["position"], found["depth"], found["eta_ms"]) == ("w2", 2, 3, None)
    assert [(step["kind"], step["position"]) for step in found["journey"]] == [("queued", 2)]
    assert found["of_session"] == []
    first._place.leave("completed")
    found = await desk.get("/v1/requests/w1")
    assert (found["position"], found["request"]["state"]) == (None, "running")
    assert [view["id"] for view in found["of_session"]] == ["r1"]
    ended = await desk.get("/v1/requests/r1")
    assert (ended["request"]["outcome"], [view["id"] for view in ended["of_session"]]) == ("completed", ["w1"])
    assert (await desk.get("/v1/requests/w3"))["of_session"] == [], "no session is nobody's"


async def test_an_unknown_request(desk: AdminDesk) -> None:
    for method, path in (("GET", "/v1/requests/x"), ("DELETE", "/v1/requests/x"), ("POST", "/v1/requests/x/move")):
        status, code, message = await desk.refusal(method, path)
        assert (status, code) == (404, "UNKNOWN_REQUEST")
        assert message.startswith("there is no request 'x', or it ended too long ago")


async def test_what_others_have_made(desk: AdminDesk) -> None:
    assert (await desk.get("/v1/config"))["file"] == "/etc/x"
    metrics = await desk.ask("GET", "/metrics")
    assert (metrics.text, metrics.headers["content-type"]) == ("# metrics\n", "text/plain; version=0.0.4")
    assert (await desk.act("POST", "/v1/reload"))["warnings"] == ["odd"]
    assert desk.reloads == 1


async def test_health_and_readiness(desk: AdminDesk) -> None:
    """In the shape in which the front door says it."""
    for path in ("/healthz", "/health"):
        assert await desk.get(path) == {"status": "ok"}
    both = {"a": "open", "b": "open", "llmgate": "listening"}
    assert await desk.get("/readyz") == {"ready": True, "checks": both}
    assert await desk.get("/readyz?upstream=a") == {"ready": True, "checks": {"a": "open", "llmgate": "listening"}}
    desk.admission.pause("a")
    assert await desk.get("/readyz") == {"ready": True, "checks": both | {"a": "paused"}}
    paused = await desk.ask("GET", "/readyz?upstream=a")
    assert (paused.status_code, paused.json()) == (
        503,
        {"ready": False, "checks": {"a": "paused", "llmgate": "listening"}},
    )
    desk.state = "stopping"
    for query in ("", "?upstream=a", "?upstream=b"):
        stopping = await desk.ask("GET", "/readyz" + query)
        assert (stopping.status_code, stopping.json()["ready"]) == (503, False)
        assert stopping.json()["checks"]["llmgate"] == "stopping"
    assert await desk.get("/healthz") == {"status": "ok"}


# ---- acting on an upstream


async def test_pause_resume_and_drain(desk: AdminDesk) -> None:
    async def change(how: str) -> tuple[str, bool]:
        answer = await desk.act("POST", f"/v1/upstreams/a/{how}")
        return answer["upstream"]["state"], answer["changed"]

    assert await change("pause") == ("paused", True)
    assert await change("pause") == ("paused", False)
    await desk.enter("w")
    assert desk.admission.gate("a").depth == 1
    assert await change("drain") == ("draining", True)
    assert desk.admission.gate("a").depth == 0, "who waited is served"
    assert await change("pause") == ("paused", True)
    assert await change("resume") == ("full", True)
    assert await change("resume") == ("full", False)
    assert desk.told_by() == [("ModeChanged", WHO)] * 4
    modes = [(event.old, event.new) for event in desk.events if hasattr(event, "old")]  # type: ignore[attr-defined]
    assert modes == [
        (Mode.OPEN, Mode.PAUSED),
        (Mode.PAUSED, Mode.CLOSED),
        (Mode.CLOSED, Mode.PAUSED),
        (Mode.PAUSED, Mode.OPEN),
    ]


async def test_limits_old_and_new(desk: AdminDesk) -> None:
    answer = await desk.act("PATCH", "/v1/upstreams/a", {"max_concurrent": 3, "queue_timeout": 60})
    assert (answer["upstream"], answer["note"]) == ("a", "")
    assert answer["old"] == {"max_concurrent": 1, "max_queued": None, "queue_timeout": None}
    assert answer["new"] == {"max_concurrent": 3, "max_queued": None, "queue_timeout": 60.0}
    again = await desk.act("PATCH", "/v1/upstreams/a", answer["old"])
    assert (again["old"], again["new"]) == (answer["new"], answer["old"]), "an answer can be sent back"
    forever = await desk.act("PATCH", "/v1/upstreams/a", {"queue_timeout": 0})
    assert forever["new"]["queue_timeout"] is None
    assert desk.told_by() == [("LimitsChanged", WHO)] * 2


async def test_limits_that_stand_in_the_settings_too(desk: AdminDesk) -> None:
    await desk.act("PATCH", "/v1/upstreams/a", {"max_queued": 3})
    assert desk.written == []
    told = await desk.act("PATCH", "/v1/upstreams/a", {"max_queued": 4, "persisted": True})
    assert desk.written == [("a", {"max_queued"})]
    assert (told["old"], told["new"]["max_queued"]) == (told["new"], 3), "whoever set it since is not overruled"


async def test_the_servers_own_slots(desk: AdminDesk) -> None:
    answer = await desk.act("PATCH", "/v1/upstreams/a", {"max_concurrent": "auto", "max_queued": 3})
    assert (answer["new"]["max_concurrent"], answer["new"]["max_queued"]) == (7, 3)
    assert (answer["was_auto"], answer["is_auto"], desk.slots.followed) == (False, True, {"a"})
    queue_only = await desk.act("PATCH", "/v1/upstreams/a", {"max_queued": 4})
    assert (queue_only["was_auto"], queue_only["is_auto"]) == (True, True), "only its own limit ends it"
    number = await desk.act("PATCH", "/v1/upstreams/a", {"max_concurrent": 7})
    assert (number["was_auto"], number["is_auto"], desk.slots.followed) == (True, False, set())


BOUNDS_ALL = "max_concurrent bounds all 2 endpoints together, each of which keeps its own limit"


@pytest.mark.parametrize(
    ("upstream", "change", "note"),
    [
        (
            "b",
            {"max_concurrent": 1},
            "max_concurrent bounds all 2 endpoints together, each of which keeps its own limit",
        ),
        ("b", {"max_queued": 1}, ""),
        ("a", {"max_queued": 1}, "2 wait and keep their places; nobody may join them until fewer do"),
        ("a", {"queue_timeout": 5}, "who waits already keeps the queue_timeout with which it came"),
        ("a", {"max_queued": 2}, ""),
    ],
)
async def test_what_does_not_follow_from_the_numbers(
    desk: AdminDesk, upstream: str, change: dict[str, int], note: str
) -> None:
    for name in ("r", "w1", "w2"):
        await desk.enter(name)
    assert (await desk.act("PATCH", f"/v1/upstreams/{upstream}", change))["note"] == note


async def test_a_lower_cap_kills_nobody(desk: AdminDesk) -> None:
    await desk.act("PATCH", "/v1/upstreams/a", {"max_concurrent": 2})
    await desk.enter("r1")
    await desk.enter("r2")
    answer = await desk.act("PATCH", "/v1/upstreams/a", {"max_concurrent": 1})
    assert answer["note"] == "2 run on; nobody is sent until fewer do"
    assert desk.admission.gate("a").statistics().running == 2


async def test_an_upstream_with_another_name_now_is_told_by_it(desk: AdminDesk) -> None:
    desk.renamed = {"old": "a"}
    said = "there is no upstream 'old' any more: a reload calls it a"
    assert await desk.refusal("GET", "/v1/upstreams/old") == (404, "UNKNOWN_UPSTREAM", said)


async def test_while_it_stops_nothing_is_changed_any_more(desk: AdminDesk) -> None:
    desk.state = "stopping"
    body = b'{"max_concurrent":2}'
    for method, path in (
        ("PATCH", "/v1/upstreams/a"),
        ("POST", "/v1/upstreams/a/pause"),
        ("POST", "/v1/upstreams/a/resume"),
        ("POST", "/v1/upstreams/a/drain"),
        ("POST", "/v1/reload"),
    ):
        refused = await desk.refusal(method, path, body if method == "PATCH" else None)
        assert refused == (409, "CONFLICT", "llmgate is stopping: nothing can be changed any more")
    assert desk.events == []


@pytest.mark.parametrize("how", ["/pause", "/resume", "/drain", ""])
async def test_one_that_a_reload_took_away_is_not_changed_any_more(desk: AdminDesk, how: str) -> None:
    desk.leaving = frozenset({"a"})
    method, body = ("POST", None) if how else ("PATCH", b'{"max_concurrent":2}')
    status, code, message = await desk.refusal(method, f"/v1/upstreams/a{how}", body)
    assert (status, code) == (409, "CONFLICT")
    assert message.endswith("to keep it put it back there, then: llmgate reload")
    assert desk.events == []


# ---- acting on a request


async def test_cancel_one_that_waits(desk: AdminDesk) -> None:
    await desk.enter("r")
    waits = await desk.enter("w")
    answer = await desk.act("DELETE", "/v1/requests/w")
    assert (answer["request"]["state"], answer["request"]["outcome"]) == ("done", "cancelled")
    assert answer["journey"][-1]["text"].endswith(f"by {WHO}")
    assert waits.errors == [], "it hears of it where it waits"
    assert desk.told_by() == [("Dismissed", WHO)]


async def test_a_cancelled_one_is_told_though_nothing_is_kept_of_what_ended(desk: AdminDesk) -> None:
    desk.ledger._recent = deque(maxlen=0)
    await desk.enter("r")
    await desk.enter("w")
    answer = await desk.act("DELETE", "/v1/requests/w")
    assert (answer["request"]["outcome"], answer["position"]) == ("cancelled", None)


async def test_cancel_one_that_runs(desk: AdminDesk) -> None:
    runs = await desk.enter("r")
    await desk.enter("w")
    answer = await desk.act("DELETE", "/v1/requests/r")
    assert (answer["request"]["state"], answer["request"]["outcome"]) == ("done", "cancelled")
    assert [str(error) for error in runs.errors] == [
        "llmgate: an operator cancelled this request at upstream a (CANCELLED)"
    ]
    assert desk.told_by() == [("Released", WHO)]
    assert desk.admission.gate("a").depth == 0


async def test_a_cancel_that_is_overtaken_by_the_end_is_not_its_outcome(
    desk: AdminDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_operator, "CANCEL_SECONDS", 0.01)
    runs = await desk.enter("r")
    runs.hangs = True
    for _ in range(2):
        answer = await desk.act("DELETE", "/v1/requests/r")
        assert (answer["request"]["state"], answer["request"]["outcome"]) == ("running", None)
    runs._place.leave("completed")
    assert desk.told_by() == []
    assert desk.admission._desks["a"]._cancels == {}


async def test_what_is_over_can_not_be_cancelled(desk: AdminDesk) -> None:
    ended, drains = await desk.enter("d"), await desk.enter("e", "b")
    ended._place.leave("completed")
    drains._place.drain("client_gone", None)
    assert await desk.refusal("DELETE", "/v1/requests/d") == (409, "CONFLICT", "request d is over: completed")
    assert await desk.refusal("DELETE", "/v1/requests/e") == (409, "CONFLICT", "request e is over: client_gone")


async def test_one_that_nobody_holds_any_more(desk: AdminDesk) -> None:
    runs = await desk.enter("r")
    desk.running.discard(runs)
    assert (await desk.refusal("DELETE", "/v1/requests/r"))[2] == "request r is just about to end"


async def test_move_to_the_front(desk: AdminDesk) -> None:
    for name in ("r", "w1", "w2"):
        await desk.enter(name)
    answer = await desk.act("POST", "/v1/requests/w2/move")
    assert (answer["position"], answer["depth"]) == (1, 2)
    assert [ticket.caller.id for ticket in desk.admission.gate("a").waiting()] == ["w2", "w1"]
    assert desk.told_by() == [("Moved", WHO)]
    other = await desk.get("/v1/requests/w1")
    assert [(step["kind"], step["position"], step["text"]) for step in other["journey"]] == [
        ("queued", 1, "queued (depth 1)"),
        ("position", 2, "w2 moved"),
    ]


async def test_only_who_waits_can_be_moved(desk: AdminDesk) -> None:
    await desk.enter("r")
    assert await desk.refusal("POST", "/v1/requests/r/move") == (
        409,
        "CONFLICT",
        "request r does not wait, so it can not be moved: it is running",
    )


async def test_of_an_upstream_that_is_gone_its_requests_can_still_be_seen(desk: AdminDesk) -> None:
    """A reload took it away; they stay in the list of those that are over."""
    (await desk.enter("r")).stop(Refused("llmgate: cut (REFUSED)"))
    desk.admission.remove("a")
    answer = await desk.get("/v1/requests/r")
    assert (answer["request"]["state"], answer["position"], answer["depth"]) == ("done", None, 0)
    assert await desk.refusal("POST", "/v1/requests/r/move") == (
        409,
        "CONFLICT",
        "request r does not wait, so it can not be moved: it is done",
    )
