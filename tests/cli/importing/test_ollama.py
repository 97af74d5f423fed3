"""Ollama's environment as settings of ours."""

import pytest

from llmgate.cli.importing.ollama import read, read_lines, url_of
from tests.cli.importing.test_draft import loaded


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8000", "http://127.0.0.1:8000"),
        (":9000", "http://127.0.0.1:9000"),
        ("gpu1", "http://gpu1:11434"),
        ("https://gpu1", "https://gpu1:443"),
        ("http://gpu1/base", "http://gpu1:80/base"),
        ("[::1]:7000", "http://[::1]:7000"),
        ("[::]", "http://127.0.0.1:11434"),
        ('"gpu1:1"', "http://gpu1:1"),
    ],
)
def test_the_url_is_where_it_is_asked(host: str, url: str) -> None:
    assert url_of(host) == url


def test_limits_are_carried_over() -> None:
    environ = {"OLLAMA_HOST": "gpu1", "OLLAMA_NUM_PARALLEL": "4", "OLLAMA_MAX_QUEUE": "0", "OLLAMA_KEEP_ALIVE": "5m"}
    text = read(environ).text()
    upstream = loaded(text).settings.upstreams["ollama"]
    assert (upstream.max_concurrent, upstream.max_queued, upstream.kind) == (4, 0, "ollama")
    assert "# NOT CARRIED OVER: OLLAMA_KEEP_ALIVE\n" in text


def test_without_a_limit_it_is_told_what_to_say() -> None:
    text = read({}).text()
    assert "OLLAMA_NUM_PARALLEL is not set" in text
    assert loaded(text).settings.upstreams["ollama"].max_concurrent == "auto"


@pytest.mark.parametrize("host", ["a b", "gpu1:port", "http://[::1"])
def test_a_host_that_is_none_is_told(host: str) -> None:
    assert "No server was found" in read({"OLLAMA_HOST": host}).text()


def test_a_file_of_variables_is_read() -> None:
    text = (
        '[Service]\nEnvironment="OLLAMA_HOST=gpu1"\nexport OLLAMA_NUM_PARALLEL=2\n#OLLAMA_X=1\nOLLAMA_MAX_QUEUE="3"\n'
    )
    assert read_lines(text) == {"OLLAMA_HOST": "gpu1", "OLLAMA_NUM_PARALLEL": "2", "OLLAMA_MAX_QUEUE": "3"}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('Environment="OLLAMA_HOST=a" "OLLAMA_NUM_PARALLEL=4"', {"OLLAMA_HOST": "a", "OLLAMA_NUM_PARALLEL": "4"}),
        ("Environment=OLLAMA_A=24h OLLAMA_B=1", {"OLLAMA_A": "24h", "OLLAMA_B": "1"}),
        ("Environment='OLLAMA_A=b c' PATH=/x", {"OLLAMA_A": "b c"}),
        ("OLLAMA_A='b  # no comment'", {"OLLAMA_A": "b  # no comment"}),
        ("OLLAMA_A=b  # a comment", {"OLLAMA_A": "b"}),
        ('OLLAMA_A="b', {"OLLAMA_A": "b"}),
        ("OLLAMA_A", {}),
    ],
)
def test_a_line_may_set_several(line: str, found: dict[str, str]) -> None:
    assert read_lines(line) == found
