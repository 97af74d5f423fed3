from hypothesis import given
from hypothesis import strategies as st

from llmgate.errors import UpstreamDown, UpstreamTimeout
from llmgate.upstreams.answer import Timeouts
from llmgate.upstreams.deadlines import SLACK, Clock, Deadlines, timeout_error

ALL = Timeouts(connect=5, first_byte=60, idle=10, total=100)


def test_without_limits_there_is_no_deadline():
    deadlines = Deadlines(Timeouts(), 0)
    assert deadlines.next_deadline() is None
    assert deadlines.expired(1e9) is None


def test_connecting_is_bounded_by_its_own_clock():
    deadlines = Deadlines(ALL, 1000)
    assert deadlines.next_deadline() == 1005
    assert deadlines.expired(1004.9) is None
    assert deadlines.expired(1005) is Clock.CONNECT


def test_first_byte_runs_from_dispatch_even_while_connecting():
    assert Deadlines(Timeouts(connect=5, first_byte=2), 0).expired(2) is Clock.FIRST_BYTE
    deadlines = Deadlines(ALL, 1000)
    deadlines.connected()
    assert deadlines.next_deadline() == 1060
    assert deadlines.expired(1060) is Clock.FIRST_BYTE


def test_idle_runs_from_each_piece():
    deadlines = Deadlines(ALL, 0)
    deadlines.connected()
    assert deadlines.received(50) is True
    assert deadlines.next_deadline() == 60
    assert deadlines.received(59) is False
    assert deadlines.expired(68.9) is None
    assert deadlines.expired(69) is Clock.IDLE


def test_total_runs_from_dispatch():
    deadlines = Deadlines(ALL, 0)
    deadlines.connected()
    deadlines.received(95)
    assert deadlines.next_deadline() == 100
    assert deadlines.expired(100) is Clock.TOTAL


def test_back_pressure_stops_idle_and_keeps_what_had_run():
    deadlines = Deadlines(ALL, 0)
    deadlines.connected()
    deadlines.received(10)
    deadlines.pause(14)
    deadlines.pause(30)
    assert deadlines.next_deadline() == 100
    assert deadlines.expired(99) is None
    deadlines.resume(50)
    deadlines.resume(55)
    assert deadlines.next_deadline() == 56


def test_a_piece_that_was_read_before_the_pause_counts_from_its_arrival():
    deadlines = Deadlines(ALL, 0)
    deadlines.connected()
    deadlines.received(10)
    deadlines.pause(12)
    deadlines.received(13)
    deadlines.resume(40)
    assert deadlines.next_deadline() == 50


def test_total_runs_through_back_pressure():
    deadlines = Deadlines(ALL, 0)
    deadlines.pause(0)
    assert deadlines.expired(101) is Clock.CONNECT
    deadlines.connected()
    assert deadlines.expired(101) is Clock.TOTAL


def test_what_ran_out_first_is_named():
    deadlines = Deadlines(Timeouts(first_byte=5, total=4), 0)
    deadlines.connected()
    assert deadlines.expired(100) is Clock.TOTAL


def test_only_a_connection_in_time_is_down():
    assert isinstance(timeout_error(Clock.CONNECT), UpstreamDown)
    for clock in (Clock.FIRST_BYTE, Clock.IDLE, Clock.TOTAL):
        assert isinstance(timeout_error(clock), UpstreamTimeout)
        assert not any(letter.isdigit() for letter in str(timeout_error(clock)))


seconds = st.none() | st.floats(0.01, 100)


@given(
    st.builds(Timeouts, seconds, seconds, seconds, seconds),
    st.lists(st.tuples(st.sampled_from(["connected", "received", "pause", "resume"]), st.floats(0, 50)), max_size=20),
)
def test_something_has_expired_exactly_from_the_next_deadline_on(timeouts, steps):
    now = 0.0
    deadlines = Deadlines(timeouts, now)
    for step, passed in steps:
        now += passed
        if step == "connected":
            deadlines.connected()
        else:
            getattr(deadlines, step)(now)
        due = deadlines.next_deadline()
        if due is None:
            assert deadlines.expired(now + 1e9) is None
        else:
            assert deadlines.expired(due) is not None
            assert deadlines.expired(due - 2 * SLACK - 1e-6) is None
