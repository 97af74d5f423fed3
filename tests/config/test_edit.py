"""Single values of a settings file are changed, and nothing else in it."""

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.config.edit import set_values, with_values
from llmgate.errors import SettingsError

TEXT = """\
# my gate
[server]
listen = "127.0.0.1:8080"  # here

[upstreams.a]
url = "http://127.0.0.1:8000"
max_concurrent = 1   # one GPU
max_queued = 16

[upstreams."b c"]
url = "http://127.0.0.1:8001"
max_concurrent = 2
"""
A = ("upstreams", "a")


def changed(**values: Any) -> str:
    new = with_values(TEXT, A, values)
    assert new is not None
    return new


def test_a_value_is_replaced_and_its_comment_stays() -> None:
    assert changed(max_concurrent=4) == TEXT.replace("max_concurrent = 1   #", "max_concurrent = 4   #")


def test_a_key_that_is_not_there_comes_under_the_header() -> None:
    assert changed(queue_timeout="5m") == TEXT.replace("[upstreams.a]\n", '[upstreams.a]\nqueue_timeout = "5m"\n')


def test_none_takes_the_line_out() -> None:
    assert changed(max_queued=None) == TEXT.replace("max_queued = 16\n", "")
    assert changed(queue_timeout=None) == TEXT


def test_several_at_once() -> None:
    new = tomllib.loads(changed(max_concurrent=3, max_queued=None, queue_timeout="1h"))
    assert new["upstreams"]["a"] == {"url": "http://127.0.0.1:8000", "max_concurrent": 3, "queue_timeout": "1h"}
    assert new["upstreams"]["b c"] == tomllib.loads(TEXT)["upstreams"]["b c"]


def test_a_table_in_quotes() -> None:
    new = with_values(TEXT, ("upstreams", "b c"), {"max_concurrent": 9})
    assert new == TEXT.replace("max_concurrent = 2\n", "max_concurrent = 9\n")


def test_the_old_spellings_are_found_and_replaced_by_ours() -> None:
    text = "[providers.a]\nmaxConcurrent = 1\nqueueTimeoutMs = 1000\nmaxQueued = 3\n"
    new = with_values(text, A, {"max_concurrent": 2, "queue_timeout": "5s", "max_queued": None})
    assert new is not None
    assert tomllib.loads(new) == {"providers": {"a": {"max_concurrent": 2, "queue_timeout": "5s"}}}


@pytest.mark.parametrize(
    "text",
    [
        'upstreams.a = { url = "u", max_concurrent = 1 }\n',
        '[upstreams]\na.url = "u"\na.max_concurrent = 1\n',
        "[upstreams.a]\nmax_concurrent = [\n1,\n]\n",
        '[upstreams.b]\nurl = "u"\n',
        "not toml",
        "",
    ],
)
def test_what_cannot_be_changed_safely_is_left_alone(text: str) -> None:
    assert with_values(text, A, {"max_concurrent": 2, "max_queued": 5}) is None


def test_line_ends_of_windows_stay() -> None:
    text = TEXT.replace("\n", "\r\n")
    new = with_values(text, A, {"max_concurrent": 4})
    assert new == text.replace("max_concurrent = 1 ", "max_concurrent = 4 ")


@given(
    st.dictionaries(
        st.sampled_from(["max_concurrent", "max_queued", "queue_timeout", "url"]),
        st.one_of(st.none(), st.integers(0, 99), st.text(max_size=5)),
    )
)
def test_whatever_is_written_is_what_is_read_back(values: dict[str, Any]) -> None:
    new = with_values(TEXT, A, values)
    assert new is not None
    wanted = tomllib.loads(TEXT)
    for name, value in values.items():
        wanted["upstreams"]["a"].pop(name, None)
        if value is not None:
            wanted["upstreams"]["a"][name] = value
    assert tomllib.loads(new) == wanted
    assert [line for line in new.split("\n") if line.startswith(("#", "[", "listen"))] == [
        line for line in TEXT.split("\n") if line.startswith(("#", "[", "listen"))
    ]


def test_the_file_is_replaced_with_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "llmgate.toml"
    file.write_text(TEXT)
    file.chmod(0o640)
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    set_values(link, A, {"max_concurrent": 7})
    assert file.read_text() == changed(max_concurrent=7)
    assert file.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["link.toml", "llmgate.toml"]


def test_what_cannot_be_changed_is_said_and_the_file_stays(tmp_path: Path) -> None:
    file = tmp_path / "llmgate.toml"
    file.write_text(TEXT)
    with pytest.raises(SettingsError, match=r"\[upstreams\.z\] cannot be changed safely: edit the file by hand"):
        set_values(file, ("upstreams", "z"), {"max_concurrent": 7})
    assert file.read_text() == TEXT


def test_a_file_that_cannot_be_replaced_is_said_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "llmgate.toml"
    file.write_text(TEXT)

    def refuse(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(SettingsError, match="cannot be written: No space left on device"):
        set_values(file, A, {"max_concurrent": 7})
    assert file.read_text() == TEXT
    assert [entry.name for entry in tmp_path.iterdir()] == ["llmgate.toml"]
