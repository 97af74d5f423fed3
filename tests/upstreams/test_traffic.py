"""Who is at a server, and for whom it has begun to answer."""

from hypothesis import given
from hypothesis import strategies as st

from llmgate.upstreams.traffic import Traffic


def test_from_being_sent_to_its_end() -> None:
    traffic = Traffic()
    assert (traffic.with_head(), traffic.oldest_without_head()) == (frozenset(), None)
    traffic.sent("a", 1.0)
    traffic.sent("b", 2.0)
    assert (traffic.with_head(), traffic.oldest_without_head()) == (frozenset(), 1.0)
    traffic.answered("a")
    assert (traffic.with_head(), traffic.oldest_without_head()) == ({"a"}, 2.0)
    traffic.over("b")
    assert (traffic.with_head(), traffic.oldest_without_head()) == ({"a"}, None)
    traffic.over("a")
    assert traffic.with_head() == frozenset()


def test_what_was_seen_before_stays_as_it_was() -> None:
    """It is compared with what is there after a question."""
    traffic = Traffic()
    traffic.sent("a", 1.0)
    traffic.answered("a")
    before = traffic.with_head()
    traffic.over("a")
    assert (before, traffic.with_head()) == ({"a"}, frozenset())


def test_asked_in_another_way_it_has_no_head_again() -> None:
    traffic = Traffic()
    traffic.sent("a", 1.0)
    traffic.answered("a")
    traffic.sent("a", 2.0)
    assert (traffic.with_head(), traffic.oldest_without_head()) == (frozenset(), 2.0)


def test_an_answer_to_what_is_over_is_nobodys() -> None:
    traffic = Traffic()
    traffic.over("a")
    traffic.answered("a")
    assert (traffic.with_head(), traffic.oldest_without_head()) == (frozenset(), None)


STEPS = st.lists(st.tuples(st.sampled_from(["sent", "answered", "over"]), st.sampled_from("abc")), max_size=30)


@given(STEPS)
def test_whatever_the_order(steps: list[tuple[str, str]]) -> None:
    traffic, states, since = Traffic(), dict[str, str](), dict[str, float]()
    for now, (step, name) in enumerate(steps):
        if step == "sent":
            traffic.sent(name, now)
            states[name], since[name] = "sent", now
        elif step == "answered":
            traffic.answered(name)
            if states.get(name) == "sent":
                states[name] = "answered"
        else:
            traffic.over(name)
            states.pop(name, None)
        waiting = [since[one] for one, state in states.items() if state == "sent"]
        assert traffic.with_head() == {one for one, state in states.items() if state == "answered"}
        assert traffic.oldest_without_head() == min(waiting, default=None)
