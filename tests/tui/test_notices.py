"""What stands there when there is nothing to show."""

from typing import Any

import pytest

from llmgate.tui.cells import plain
from llmgate.tui.columns import Frame
from llmgate.tui.model import Model
from llmgate.tui.notices import base_origin, disconnected, no_traffic, no_upstream, wrapped


def text(lines: list[Any]) -> str:
    return "\n".join(plain(line) for line in lines)


def lost(at: float, model: Model | None = None) -> str:
    model = model or Model()
    model.lost("No daemon answers on /x\n\nBecause\x1b.", 6, 10.0, 12.0)
    view = model.view(at)
    return text(disconnected(view, Frame(view), 80))


def test_what_is_indented_goes_on_below_itself() -> None:
    assert wrapped("  as that user    sudo -u root llmgate", 24) == ["  as that user    sudo", "    -u root llmgate"]
    assert wrapped("one two three", 8) == ["one two", "three"]
    assert wrapped("", 8) == [""]


def test_the_error_with_the_next_attempt() -> None:
    assert "      No daemon answers on /x\n\n      Because?.\n" in lost(10.1)
    assert "Trying again in 2 s (attempt 7).\n" in lost(10.1)
    assert "Trying again in 1 s" in lost(11.5)
    assert "Trying again now" in lost(12.5)


def test_a_line_to_copy_is_not_wrapped_for_its_margin() -> None:
    line = "  start it now          llmgate serve --upstream NAME=http://127.0.0.1:8000"
    model = Model()
    model.lost(f"No daemon answers on /x\n\n{line}", 6, 10.0, 12.0)
    view = model.view(10.0)
    assert f"\n     {line}\n" in text(disconnected(view, Frame(view), 80))


def test_a_long_path_is_not_cut_off() -> None:
    model = Model()
    model.lost("What answers on /" + "x" * 90 + " does not speak as llmgate does.", 1, 10.0, 12.0)
    view = model.view(10.0)
    lines = [plain(line) for line in disconnected(view, Frame(view), 60)]
    assert max(map(len, lines)) <= 60
    assert "does not speak as llmgate does." in " ".join(line.strip() for line in lines)


def test_what_was_last_seen_stays(sample: Any) -> None:
    model = Model()
    model.apply(sample.documented(), 1.0)
    assert "What was last seen stays below." in lost(10.0, model)
    assert "last seen" not in lost(10.0)


@pytest.mark.parametrize(
    ("listen", "origin"),
    [
        (["127.0.0.1:8080"], "http://127.0.0.1:8080"),
        (["http://127.0.0.1:8080/"], "http://127.0.0.1:8080"),
        (["unix:/x", "[::1]:9"], "http://[::1]:9"),
        (["0.0.0.0:80"], "http://127.0.0.1:80"),
        (["[::]:80"], "http://[::1]:80"),
        (["unix:/x"], "http://localhost"),
        ([], "http://localhost"),
    ],
)
def test_base_origin(listen: list[str], origin: str) -> None:
    assert base_origin(listen) == origin


def quiet(sample: Any, *upstreams: Any) -> list[Any]:
    model = Model()
    model.apply(sample.snapshot(list(upstreams)), 1.0)
    view = model.view(1.0)
    return no_traffic(view, Frame(view), 80)


def test_no_traffic_names_the_base_urls(sample: Any) -> None:
    said = text(quiet(sample))
    assert "  Anthropic, Ollama     http://127.0.0.1:8080/llm\n" in said
    assert "  OpenAI                http://127.0.0.1:8080/llm/v1\n" in said


def test_an_upstream_that_is_down_says_why_even_before_the_first_request(sample: Any) -> None:
    said = text(quiet(sample, sample.upstream("gpu2", state="down", detail="it takes no connection")))
    assert "gpu2: it takes no connection" in said


def test_only_commands_that_exist_are_named(sample: Any) -> None:
    said = text(quiet(sample)) + text(no_upstream(80))
    commands = {part.split()[0] for part in said.split("llmgate ")[1:]}
    assert commands == {"connect", "demo", "probe", "serve"}


def test_a_notice_fits_eighty_columns(sample: Any) -> None:
    lines = no_upstream(80) + quiet(sample)
    assert max(len(plain(line)) for line in lines) <= 80
