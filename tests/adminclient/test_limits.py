"""Limits as they are typed and read."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.adminclient.limits import LIMITS, limit_text, parse_limit, write_limits
from llmgate.config.settings import UpstreamSettings
from llmgate.config.units import NO_LIMIT, BadValue
from llmgate.errors import SettingsError


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("max_concurrent=2", ("max_concurrent", 2)),
        ("max_concurrent=0", ("max_concurrent", 0)),
        ("max_concurrent=AUTO", ("max_concurrent", "auto")),
        ("max_queued=16", ("max_queued", 16)),
        ("max_queued=0", ("max_queued", 0)),
        ("max_queued=None", ("max_queued", None)),
        ("queue_timeout=5m", ("queue_timeout", 300.0)),
        ("queue_timeout=90", ("queue_timeout", 90.0)),
        ("queue_timeout=unlimited", ("queue_timeout", None)),
        ("queue_timeout=0", ("queue_timeout", None)),
    ],
)
def test_what_is_allowed(text: str, limit: tuple[str, float | None]) -> None:
    assert parse_limit(text) == limit


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_concurrent", "must be LIMIT=VALUE, and LIMIT one of max_concurrent, max_queued, queue_timeout"),
        ("slots=2", "slots=2: must be LIMIT=VALUE"),
        ("max_concurrent=none", "max_concurrent must be a whole number, 0 (not gated) or more, or auto"),
        ("max_concurrent=-1", "max_concurrent must be a whole number, 0 (not gated) or more, or auto"),
        ("max_queued=auto", "max_queued must be a whole number, 0 (refuse at once when busy) or more, or none"),
        (
            "queue_timeout=soon",
            'queue_timeout must be a number of seconds, or text such as "250ms", "90s", "5m" or "1h", or "none"',
        ),
    ],
)
def test_what_is_not(text: str, said: str) -> None:
    with pytest.raises(BadValue) as caught:
        parse_limit(text)
    assert said in str(caught.value)


@given(st.sampled_from(LIMITS), st.none() | st.integers(1, 10**8))
def test_what_is_told_can_be_typed(name: str, value: int | None) -> None:
    wanted = 1 if value is None and name == "max_concurrent" else value
    assert parse_limit(f"{name}={limit_text(name, wanted)}") == (name, wanted)


def test_what_0_means_is_told() -> None:
    assert [limit_text(name, 0) for name in LIMITS] == ["0 (not gated)", "0", "0s"]
    assert limit_text("max_concurrent", "auto") == "auto"


def test_they_are_written_as_a_settings_file_has_them(tmp_path: Path) -> None:
    file = tmp_path / "llmgate.toml"
    file.write_text("[upstreams.a]\nmax_queued = 3  # why\n")
    write_limits(file, "a", {"queue_timeout": 300.0, "max_queued": None, "max_concurrent": "auto"})
    assert file.read_text() == '[upstreams.a]\nqueue_timeout = "5m"\nmax_concurrent = "auto"\n'
    with pytest.raises(SettingsError):
        write_limits(file, "b", {"max_queued": 1})


@pytest.mark.parametrize("word", NO_LIMIT)
@pytest.mark.parametrize("name", ["max_queued", "queue_timeout"])
def test_no_limit_is_said_in_the_same_words_here_and_in_the_settings(name: str, word: str) -> None:
    settings = UpstreamSettings.model_validate({"url": "http://h", "max_concurrent": 1, name: word})
    assert parse_limit(f"{name}={word}") == (name, getattr(settings, name)) == (name, None)
