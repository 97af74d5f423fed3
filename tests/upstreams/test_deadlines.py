from hypothesis import given
from hypothesis import strategies as st

from llmgate.core.work import Look, Work
from llmgate.errors import UpstreamDown, UpstreamTimeout
from llmgate.upstreams.answer import Timeouts
from llmgate.upstreams.deadlines import LOOK_SECONDS, SLACK, Clock, Deadlines, timeout_error
from llmgate.upstreams.pulse import Pulse

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


def test_what_is_noticed_late_is_asked_again_once():
    """The loop stood still, so that what came meanwhile is not read yet."""
    deadlines = Deadlines(ALL, 0)
    deadlines.connected()
    deadlines.received(1)
    assert not deadlines.wants_reread(11)
    assert deadlines.wants_reread(14)
    assert not deadlines.wants_reread(14.1), "nothing had come"
    deadlines.received(14.1)
    assert deadlines.expired(14.2) is None
    assert deadlines.wants_reread(30), "it stood still again"


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


# ---- where the server can be asked what it does


WATCHED = Timeouts(first_byte=60, idle=10, pulse=Pulse(lambda: True, lambda: None))
STILL, MOVED = Work(1, 64, 0), Work(1, 128, 0)


def watched(timeouts: Timeouts = WATCHED) -> Deadlines:
    deadlines = Deadlines(timeouts, 1000)
    deadlines.connected()
    return deadlines


def look(deadlines: Deadlines, now: float, seen: Work | None, heard: int = 0) -> None:
    """A look at that time; None: nothing could be seen."""
    assert deadlines.wants_look(now)
    deadlines.begin_look(now)
    deadlines.end_look(None if seen is None else Look(now, {0: seen}), heard, now)


def test_the_first_look_is_soon_and_the_next_when_the_clock_is_due():
    deadlines = watched()
    assert deadlines.next_deadline() == 1001
    assert not deadlines.wants_look(1000.9)
    look(deadlines, 1001, STILL)
    assert deadlines.next_deadline() == 1060
    assert not deadlines.wants_look(1059)
    assert deadlines.wants_look(1060)


def test_a_short_clock_is_looked_at_sooner():
    assert watched(Timeouts(first_byte=2, pulse=WATCHED.pulse)).next_deadline() == 1000.5


def test_a_server_that_comes_on_is_not_late():
    deadlines = watched()
    look(deadlines, 1001, STILL)
    look(deadlines, 1060, MOVED)
    assert deadlines.expired(1060) is None
    assert deadlines.next_deadline() == 1120
    look(deadlines, 1120, MOVED)
    assert deadlines.expired(1120) is Clock.FIRST_BYTE


def test_one_that_stands_still_or_cannot_be_seen_is_late():
    for seen in (STILL, None):
        deadlines = watched()
        look(deadlines, 1001, STILL)
        look(deadlines, 1060, seen)
        assert deadlines.expired(1060) is Clock.FIRST_BYTE


def test_what_others_are_heard_of_is_no_life():
    deadlines = watched()
    look(deadlines, 1001, Work(1, 64, 5))
    assert deadlines.look_at == 1001
    look(deadlines, 1060, Work(1, 64, 9), heard=1)
    assert deadlines.expired(1060) is Clock.FIRST_BYTE


def test_without_a_first_look_the_second_one_is_the_first():
    deadlines = watched()
    look(deadlines, 1001, None)
    look(deadlines, 1060, STILL)
    assert deadlines.expired(1060) is None
    look(deadlines, 1120, STILL)
    assert deadlines.expired(1120) is Clock.FIRST_BYTE


def test_each_silence_has_a_first_look_of_its_own():
    deadlines = watched()
    look(deadlines, 1001, STILL)
    deadlines.received(1020)
    assert deadlines.next_deadline() == 1021
    look(deadlines, 1021, MOVED)
    assert deadlines.next_deadline() == 1030
    look(deadlines, 1030, MOVED)
    assert deadlines.expired(1030) is Clock.IDLE


def test_a_piece_that_comes_while_it_is_looked_counts():
    deadlines = watched()
    look(deadlines, 1001, STILL)
    deadlines.begin_look(1060)
    deadlines.received(1060.1)
    deadlines.end_look(None, 0, 1060.2)
    assert deadlines.expired(1060.2) is None


def test_a_look_that_nobody_answers_ends():
    deadlines = watched()
    look(deadlines, 1001, STILL)
    deadlines.begin_look(1060)
    assert not deadlines.wants_look(1061)
    assert deadlines.next_deadline() == 1060 + LOOK_SECONDS
    assert deadlines.expired(1060 + LOOK_SECONDS) is Clock.FIRST_BYTE


def test_the_other_clocks_know_no_mercy():
    deadlines = watched(Timeouts(first_byte=60, total=59, pulse=WATCHED.pulse))
    look(deadlines, 1001, STILL)
    assert not deadlines.wants_look(1060)
    assert deadlines.expired(1060) is Clock.TOTAL


def test_nothing_is_looked_at_while_connecting_or_while_nobody_reads():
    deadlines = Deadlines(WATCHED, 1000)
    assert deadlines.next_deadline() == 1060
    assert not deadlines.wants_look(1060)
    deadlines.connected()
    deadlines.pause(1000)
    assert deadlines.next_deadline() is None
    assert not deadlines.wants_look(2000)


def test_heard_is_who_had_a_piece_and_was_read_all_the_time():
    deadlines = watched()
    assert not deadlines.heard_since(1000)
    deadlines.received(1010)
    assert deadlines.heard_since(1005)
    assert not deadlines.heard_since(1011)
    deadlines.pause(1012)
    assert not deadlines.heard_since(1005)
    deadlines.resume(1014)
    assert not deadlines.heard_since(1005)
    deadlines.received(1020)
    assert deadlines.heard_since(1015)


@given(st.lists(st.booleans(), max_size=8))
def test_it_runs_out_with_the_first_look_that_shows_nothing_new(moves: list[bool]):
    deadlines, now, read = watched(), 1001.0, 0
    look(deadlines, now, Work(1, read, 0))
    for moved in [*moves, False]:
        deadline = deadlines.next_deadline()
        assert deadline is not None
        now, read = deadline, read + moved
        look(deadlines, now, Work(1, read, 0))
        assert (deadlines.expired(now) is None) is moved
        if not moved:
            return
