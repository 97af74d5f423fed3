"""Which rows a list has (the selection as they change: test_press.py)."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.adminapi import RequestView, UpstreamView
from llmgate.tui.listing import COLUMNS, NEAR, Listing, listing, selected_upstream, settle
from llmgate.tui.model import Lane, View
from llmgate.tui.state import Chosen, Sort, State
from llmgate.tui.waiters import Queue


def ids(view: View, **state: Any) -> list[str]:
    rows = listing(view, State(**state))
    return [rows.id_of(row) for row in rows.rows]


def test_lists(view: View) -> None:
    assert ids(view) == ["ha-llm", "reasoning", "ollama", "vllm-a100"]
    assert ids(view, page="waiting") == ["q-7f3a21", "q-7f3a24", "q-7f3a27", "q-7f3a01"]
    assert ids(view, page="running") == ["q-7f3a1c"]
    assert ids(view, page="events") == ["100", "99", "98", "97"]
    assert ids(view, pane="waiting") == ["q-7f3a21", "q-7f3a24", "q-7f3a27"]
    assert ids(view, pane="waiting", chosen={"upstreams": Chosen("vllm-a100")}) == ["q-7f3a01"]


def test_positions_are_those_of_the_queue_whatever_hides_others(view: View) -> None:
    rows = listing(view, State(page="waiting", filter="!dsh", sorts={"waiting": Sort("#", reverse=True)}))
    assert [(row.position, row.request.id) for row in rows.rows] == [
        (3, "q-7f3a27"),
        (2, "q-7f3a24"),
        (1, "q-7f3a01"),
    ]
    assert rows.total == 4


def test_filters_on_each_list(view: View) -> None:
    assert ids(view, page="running", filter="dsh") == []
    assert ids(view, page="events", filter="client=web") == ["100"]
    assert ids(view, filter="client=web") == ["ha-llm", "reasoning", "ollama", "vllm-a100"]
    assert ids(view, filter="upstream=o") == ["reasoning", "ollama"]


@pytest.mark.parametrize(
    ("sort", "found"),
    [
        (Sort("WAITED"), ["q-7f3a01", "q-7f3a21", "q-7f3a24", "q-7f3a27"]),
        (Sort("WAITED", reverse=True), ["q-7f3a27", "q-7f3a24", "q-7f3a21", "q-7f3a01"]),
        (Sort("CLIENT"), ["q-7f3a24", "q-7f3a21", "q-7f3a01", "q-7f3a27"]),
        (Sort("LEFT"), ["q-7f3a21", "q-7f3a24", "q-7f3a27", "q-7f3a01"]),
        (Sort("", reverse=True), ["q-7f3a01", "q-7f3a27", "q-7f3a24", "q-7f3a21"]),
        (Sort("AURA"), ["q-7f3a21", "q-7f3a24", "q-7f3a27", "q-7f3a01"]),
    ],
)
def test_sorting(view: View, sort: Sort, found: list[str]) -> None:
    assert ids(view, page="waiting", sorts={"waiting": sort}) == found


@pytest.mark.parametrize("holds", list(COLUMNS))
def test_every_column_that_sorts_sorts_every_row(view: View, viewed: Any, sample: Any, holds: Any) -> None:
    bare = sample.request("q-1", "a", state="done")
    full = sample.request("q-2", "a", state="done", outcome="completed", ended_ms=9, dispatched_ms=5, output_tokens=3)
    more = viewed(sample.snapshot([sample.upstream("a")], [bare, full]))
    for column in COLUMNS[holds]:
        for known in (view, more):
            state = State(page="overview" if holds == "upstreams" else holds)
            plain = listing(known, state)
            for reverse in (False, True):
                sorted_ = listing(known, State(page=state.page, sorts={holds: Sort(column.title, reverse)}))
                assert sorted(map(plain.id_of, sorted_.rows)) == sorted(map(plain.id_of, plain.rows))


@given(st.lists(st.integers(0, 20), unique=True), st.integers(0, 20), st.integers(-5, 25))
def test_a_place_is_its_own_row_or_the_one_at_its_height(rows: list[int], wanted: int, index: int) -> None:
    shown = Listing(rows, str, len(rows))
    place = shown.place(Chosen(str(wanted), index))
    if not rows:
        assert place == -1
        assert shown.at(index) == Chosen()
    elif wanted in rows:
        assert rows[place] == wanted
    else:
        assert place == max(0, min(index, len(rows) - 1))
        assert shown.at(place).id == str(rows[place])


@given(st.lists(st.integers(0, 4), max_size=4), st.data())
def test_a_queue_is_the_lanes_one_after_another(sizes: list[int], data: st.DataObject) -> None:
    lanes = [lane(f"up-{n}", size) for n, size in enumerate(sizes)]
    whole = [(index, request.id) for one in lanes for index, request in enumerate(one.waiting, 1)]
    queue = Queue(lanes)
    assert [(waiter.position, waiter.request.id) for waiter in queue] == whole
    assert all(waiter.request.upstream == waiter.upstream.name for waiter in queue)
    assert [(waiter.position, waiter.request.id) for waiter in queue[::-1]] == whole[::-1]
    near = data.draw(st.integers(-5, 25))
    shown = Listing(queue, lambda waiter: waiter.request.id, len(queue))
    assert [shown.find(request_id, near) for _, request_id in whole] == list(range(len(whole)))
    assert shown.find("nobody", near) == -1


@pytest.mark.parametrize("wanted", [0, NEAR - 1, NEAR, 5 * NEAR, 9 * NEAR - 1])
@pytest.mark.parametrize("near", [0, 3 * NEAR, 9 * NEAR])
def test_one_that_is_far_is_found_too(wanted: int, near: int) -> None:
    plain = Listing(range(9 * NEAR), str, 9 * NEAR)
    assert plain.find(str(wanted), near) == wanted
    queue = Queue([lane("a", 4 * NEAR), lane("b", 5 * NEAR)])
    shown = Listing(queue, lambda waiter: waiter.request.id, len(queue))
    assert shown.find(queue[wanted].request.id, near) == wanted
    assert shown.find("nobody", near) == -1


def test_one_that_is_near_is_found_without_a_look_at_all(sample: Any, viewed: Any) -> None:
    asked = []
    shown = Listing(range(10_000), lambda row: asked.append(row) or str(row), 10_000)
    assert shown.find("5003", 5000) == 5003
    assert len(asked) < 10


def lane(name: str, size: int) -> Lane:
    up = UpstreamView(name=name, state="ok", url="", max_concurrent=1)
    requests = [
        RequestView(id=f"{name}-{n}", upstream=name, state="waiting", order=n, model="", api="", path="", stream=True)
        for n in range(size)
    ]
    return Lane(up, tuple(requests))


def test_the_selected_upstream(view: View) -> None:
    assert selected_upstream(view, State()) == "ha-llm"
    assert selected_upstream(view, State(chosen={"upstreams": Chosen("ollama")})) == "ollama"
    assert selected_upstream(view, State(chosen={"upstreams": Chosen("gone", 2)})) == "ollama"
    assert selected_upstream(view, State(filter="upstream=nobody")) == ""


def test_marks_on_upstreams_that_are_not_there_any_more_are_dropped(view: View) -> None:
    state = State(marked_upstreams=frozenset(("ha-llm", "gone")))
    assert settle(state, view).marked_upstreams == {"ha-llm"}
    lost = replace(view, lanes=(), link=replace(view.link, state="lost"))
    assert settle(state, lost).marked_upstreams == {"ha-llm", "gone"}


def test_settling_a_settled_state_changes_nothing(view: View) -> None:
    state = settle(State(page="waiting"), view)
    assert settle(state, view) is state
