"""A storm of like lines: a few are written, the rest is counted and told once the window is over."""

from llmgate.telemetry.repeats import _MOST_KINDS, MOST_IN_WINDOW, WINDOW_SECONDS, Repeats


def test_a_few_are_written_and_the_rest_is_counted() -> None:
    repeats = Repeats()
    admitted = [repeats.admit(f"a upstream_down after {ms}ms", 0.0) for ms in range(30)]
    assert admitted == [True] * MOST_IN_WINDOW + [False] * (30 - MOST_IN_WINDOW)
    assert repeats.take_over(WINDOW_SECONDS - 0.1) == []
    (told,) = repeats.take_over(WINDOW_SECONDS)
    assert told == "20 more lines like this one were not written: a upstream_down after 0ms"
    assert repeats.take_over(99.0) == []


def test_a_new_window_writes_again() -> None:
    repeats = Repeats()
    for _ in range(MOST_IN_WINDOW + 1):
        repeats.admit("x", 0.0)
    repeats.take_over(WINDOW_SECONDS)
    assert repeats.admit("x", WINDOW_SECONDS)


def test_lines_of_another_kind_have_a_count_of_their_own() -> None:
    repeats = Repeats()
    for _ in range(MOST_IN_WINDOW + 1):
        repeats.admit("a is down", 0.0)
    assert repeats.admit("b is down", 0.0)


def test_what_is_kept_is_bounded() -> None:
    repeats = Repeats()
    for index in range(3 * _MOST_KINDS):
        repeats.admit("kind " + "x" * (index % 190) + "abc"[index // 190 % 3] * 3 + "y" * (index // 570), 0.0)
        repeats.take_over(0.0)
    assert len(repeats._kinds) <= _MOST_KINDS
