"""Those who wait: filtered, sorted, and each at its position."""

from operator import attrgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.adminapi import RequestView, UpstreamView
from llmgate.tui import listing, waiters
from llmgate.tui.filter import parse
from llmgate.tui.furniture import Look
from llmgate.tui.listing import settle
from llmgate.tui.model import Lane
from llmgate.tui.picture import picture
from llmgate.tui.press import press
from llmgate.tui.state import State
from llmgate.tui.waiters import Queue, Waiter, kept

CLIENTS = st.lists(st.lists(st.sampled_from(["dsh", "web", "opencode"]), max_size=6), max_size=4)


def lane(number: int, clients: list[str]) -> Lane:
    name = f"up-{number}"
    requests = [
        RequestView(
            id=f"{name}-{order}", upstream=name, state="waiting", order=order, model="", api="", path="", stream=True,
            client=client,
        )
        for order, client in enumerate(clients)
    ]  # fmt: skip
    return Lane(UpstreamView(name=name, state="ok", url="", max_concurrent=1), tuple(requests))


def plain(lanes: list[Lane]) -> list[Waiter]:
    """The same without any art."""
    return [Waiter(index, request, one.upstream) for one in lanes for index, request in enumerate(one.waiting, 1)]


@given(CLIENTS, st.booleans())
def test_sorted_and_filtered_as_a_list_would_be(clients: list[list[str]], reverse: bool) -> None:
    lanes = [lane(number, names) for number, names in enumerate(clients)]
    every, queue = plain(lanes), Queue(lanes)
    assert [*queue] == every
    by_client = sorted(every, key=lambda waiter: waiter.request.client, reverse=reverse)
    assert [*queue.sorted(attrgetter("client"), reverse=reverse)] == by_client
    by_position = sorted(every, key=lambda waiter: waiter.position, reverse=reverse)
    assert [*queue.by_position(reverse=reverse)] == by_position
    left = queue.filtered(parse("!client=web"))
    assert [*left] == [waiter for waiter in every if waiter.request.client != "web"]
    again = left.sorted(attrgetter("client"), reverse=reverse)
    assert [*again] == [waiter for waiter in by_client if waiter.request.client != "web"]
    assert [*again.ids()] == [waiter.request.id for waiter in again]
    assert [*again[::-1]] == [*again][::-1]
    assert [*again[1:3]] == [*again][1:3]


def test_the_requests_that_a_filter_leaves() -> None:
    requests = lane(0, ["dsh", "web", "dsh"]).waiting
    assert kept(requests, parse("")) == [*requests]
    assert kept(requests, parse("dsh")) == [requests[0], requests[2]]


@pytest.mark.parametrize("keys", ["2", "2ss", "2ssS", "2SG", "2/client=dsh\r", "2/!web\rsss"])
def test_rows_that_nobody_sees_are_not_made_and_a_list_is_made_once_for_a_key(
    sample: Any, viewed: Any, monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    many, look, made, listed = 10_000, Look(120, 40), list[int](), list[object]()
    requests = [
        sample.request(f"q-{number}", "a", order=number, client=("dsh", "web")[number % 2]) for number in range(many)
    ]
    view = viewed(sample.snapshot([sample.upstream("a", waiting=many)], requests))
    state = settle(State(), view)
    for key in keys:
        state = settle(press(state, "enter" if key == "\r" else key, view, look.height).state, view)
    whole = listing._listing
    monkeypatch.setattr(waiters, "Waiter", lambda *fields: made.append(1) or Waiter(*fields))
    monkeypatch.setattr(listing, "_listing", lambda *given: listed.append(1) or whole(*given))
    later = viewed(sample.snapshot([sample.upstream("a", waiting=many)], requests))
    picture(later, look, settle(press(state, "j", later, look.height).state, later))
    assert 30 < len(made) < 300
    assert len(listed) == 1
