"""Which server takes the next request: rule by rule, and then any mixture of them against plain lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.core import endpoints as endpoints_module
from llmgate.core.endpoints import Endpoints, EndpointStatistics


def three(*, holds: bool = True, **caps: int) -> Endpoints:
    return Endpoints(caps or {"a": 2, "b": 2, "c": 2}, holds=holds)


def take(endpoints: Endpoints, *sessions: str) -> str:
    """Where these requests go, one letter each; "-" for one that finds no room."""
    return "".join(endpoints.take(session) or "-" for session in sessions)


# ---- the least busy


def test_the_first_named_among_equals():
    assert take(three(), *[""] * 7) == "abcabc-"


def test_busy_is_in_flight_over_cap():
    assert take(three(a=1, b=4), *[""] * 6) == "abbbb-"


def test_a_returned_slot_is_the_least_busy_one():
    endpoints = three()
    take(endpoints, *[""] * 6)
    endpoints.give_back("b")
    assert take(endpoints, "", "") == "b-"


def test_without_a_cap_of_their_own_they_take_turns():
    assert take(three(a=0, b=0), *[""] * 6) == "ababab"


def test_a_single_one_takes_as_many_as_its_cap():
    assert take(three(a=2), "", "s", "s") == "aa-"
    assert take(three(a=0), *[""] * 9) == "a" * 9


# ---- sessions


def test_a_session_goes_where_it_went_last():
    endpoints = three(a=3, b=3)
    assert take(endpoints, "s", "", "s", "s") == "abaa"


def test_but_not_where_there_is_no_room():
    endpoints = three()
    assert take(endpoints, "s", "s", "s") == "aab"
    endpoints.give_back("a")
    assert take(endpoints, "s") == "b", "since then its prompt lies there"


def test_nor_where_the_server_is_down():
    endpoints = three()
    take(endpoints, "s")
    endpoints.set_up("a", False, "gone")
    assert take(endpoints, "s") == "b"


def test_no_session_is_no_session():
    endpoints = three()
    assert take(endpoints, "", "") == "ab"
    assert len(endpoints._sessions) == 0


def test_nothing_is_kept_where_there_is_no_choice():
    endpoints = three(a=0)
    take(endpoints, "s", "t")
    assert len(endpoints._sessions) == 0


def test_the_session_that_was_away_longest_is_forgotten(monkeypatch):
    monkeypatch.setattr(endpoints_module, "_SESSIONS_KEPT", 2)
    endpoints = three(a=0, b=0)
    assert take(endpoints, "s", "t", "s", "u") == "abab", "u makes t forgotten, not s"
    assert list(endpoints._sessions.items()) == [("s", "a"), ("u", "b")]


def test_many_sessions_do_not_grow_without_a_bound():
    endpoints = three(a=0, b=0)
    for number in range(10_000):
        endpoints.give_back(endpoints.take(str(number)))
    assert len(endpoints._sessions) == 4096


# ---- up and down


def test_one_that_is_down_takes_nothing_until_it_is_back():
    endpoints = three()
    assert endpoints.set_up("a", False, "it takes no connection")
    assert (take(endpoints, *[""] * 5), endpoints.held) == ("bcbc-", False)
    assert endpoints.set_up("a", True, "")
    assert take(endpoints, *[""] * 3) == "aa-"


@pytest.mark.parametrize(("holds", "expected"), [(True, "----"), (False, "abab")])
def test_all_down_nobody_is_let_in_or_all_are_tried(holds, expected):
    endpoints = three(holds=holds, a=2, b=2)
    endpoints.set_up("a", False, "")
    endpoints.set_up("b", False, "")
    assert endpoints.held is holds
    assert take(endpoints, *[""] * 4) == expected
    endpoints.set_up("b", True, "")
    assert not endpoints.held
    assert take(endpoints, "") == ("b" if holds else "-")


def test_only_a_change_is_one_and_the_first_reason_stays():
    endpoints = three(a=1)
    assert not endpoints.set_up("a", True, "")
    assert endpoints.set_up("a", False, "first")
    assert not endpoints.set_up("a", False, "second")
    assert endpoints.statistics()["a"] == EndpointStatistics(1, up=False, in_flight=0, reason="first")
    assert not endpoints.is_up("a")
    assert endpoints.set_up("a", True, "why ever")
    assert endpoints.statistics()["a"] == EndpointStatistics(1, up=True, in_flight=0, reason="")
    assert endpoints.is_up("a")


# ---- caps that change


def test_a_higher_cap_makes_room_and_a_lower_one_ends_nothing():
    endpoints = three(a=1)
    take(endpoints, "")
    assert endpoints.set_cap("a", 2)
    assert take(endpoints, "", "") == "a-"
    assert endpoints.set_cap("a", 1)
    assert not endpoints.set_cap("a", 1)
    assert endpoints.statistics()["a"].in_flight == 2
    endpoints.give_back("a")
    assert take(endpoints, "") == "-"
    endpoints.give_back("a")
    assert take(endpoints, "") == "a"


def test_statistics_are_in_the_order_of_the_settings():
    endpoints = three(z=1, a=0)
    take(endpoints, "")
    assert list(endpoints.statistics().items()) == [
        ("z", EndpointStatistics(1, in_flight=1)),
        ("a", EndpointStatistics()),
    ]


# ---- any mixture

NAMES = ["a", "b", "c"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.sampled_from(["", "s", "t", "u"]), st.none()),
        st.tuples(st.just("back"), st.integers(0, 20), st.none()),
        st.tuples(st.just("up"), st.integers(0, 2), st.booleans()),
        st.tuples(st.just("cap"), st.integers(0, 2), st.integers(0, 3)),
    ),
    max_size=120,
)


@given(caps=st.lists(st.integers(0, 3), min_size=1, max_size=3), holds=st.booleans(), steps=STEPS)
def test_any_schedule(caps, holds, steps):
    names = NAMES[: len(caps)]
    endpoints, caps = Endpoints(dict(zip(names, caps, strict=True)), holds=holds), dict(zip(names, caps, strict=True))
    there: list[str] = []
    down: set[str] = set()
    went: dict[str, str] = {}
    for what, which, value in steps:
        tried = [name for name in names if name not in down] or ([] if holds else names)
        free = [name for name in tried if not caps[name] or there.count(name) < caps[name]]
        if what == "take":
            chosen = endpoints.take(which)
            if chosen is None:
                assert not free
                continue
            assert chosen in free
            assert went.get(which) in {chosen, None} or went[which] not in free, "a session stays where it has room"
            if which == "" or went.get(which) not in free:
                assert there.count(chosen) / (caps[chosen] or 1) == min(
                    there.count(it) / (caps[it] or 1) for it in free
                )
            there.append(chosen)
            if which and len(names) > 1:
                went[which] = chosen
        elif what == "back" and there:
            endpoints.give_back(there.pop(which % len(there)))
        elif what == "up":
            name = names[which % len(names)]
            assert endpoints.set_up(name, value, "why") is ((name in down) is value)
            down = down - {name} if value else down | {name}
        elif what == "cap":
            name = names[which % len(names)]
            assert endpoints.set_cap(name, value) is (caps[name] != value)
            caps[name] = value
        assert endpoints.held is (holds and len(down) == len(names))
        assert endpoints.statistics() == {
            it: EndpointStatistics(caps[it], it not in down, there.count(it), "why" if it in down else "")
            for it in names
        }
