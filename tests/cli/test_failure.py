"""How errors are told: in sentences for people, in JSON for programs, and never on standard output."""

import json
from typing import Any

import pytest
import typer

from llmgate.cli.failure import code_of, complain_of_start, complain_of_usage, sentence, tell
from llmgate.errors import (
    AdminError,
    AdminRefusal,
    DaemonNotRunning,
    DaemonSilent,
    LlmgateError,
    NotPermitted,
    SettingsError,
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("llmgate: it is so", "llmgate: it is so"),
        ("No daemon answers\n\nLines.", "llmgate: no daemon answers\n\nLines."),
        ("there is no upstream", "llmgate: there is no upstream"),
        ("GET /x is not known", "llmgate: GET /x is not known"),
        ("", "llmgate: "),
    ],
)
def test_a_sentence_begins_with_the_name(text: str, told: str) -> None:
    assert sentence(text) == told


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (AdminRefusal("x", "CONFLICT"), "CONFLICT"),
        (DaemonNotRunning("x"), "NOT_RUNNING"),
        (DaemonSilent("x"), "NO_ANSWER"),
        (SettingsError("x"), "BAD_SETTINGS"),
        (NotPermitted("x"), "NOT_PERMITTED"),
        (AdminError("x"), "FAILED"),
        (LlmgateError("x"), "FAILED"),
    ],
)
def test_each_has_a_word_for_programs(error: LlmgateError, code: str) -> None:
    assert code_of(error) == code


def test_an_error_goes_to_standard_error_in_either_form(capsys: pytest.CaptureFixture[str]) -> None:
    tell(AdminError("llmgate: both ä\nlines"), as_json=False)
    assert capsys.readouterr() == ("", "llmgate: both ä\nlines\n")
    tell(AdminError("llmgate: both ä\nlines"), as_json=True)
    assert capsys.readouterr() == (
        "",
        '{"schema": 1, "error": {"code": "FAILED", "message": "both ä\\nlines"}}\n',
    )


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (LlmgateError("llmgate: x"), 69, "IN_USE"),
        (LlmgateError("llmgate: x"), 77, "NO_PERMISSION"),
        (SettingsError("llmgate: x"), 78, "BAD_SETTINGS"),
    ],
)
def test_a_start_that_is_refused(
    capsys: pytest.CaptureFixture[str], error: LlmgateError, status: int, code: str
) -> None:
    complain_of_start(error, status)
    assert json.loads(capsys.readouterr().err) == {"schema": 1, "error": {"code": code, "message": "x"}}


def test_the_choices_of_a_missing_option_are_one_sentence(run: Any) -> None:
    said = "missing option '--from': choose from litellm, llama-swap, ollama"
    assert run("config", "import").err.splitlines()[-1] == f"llmgate: {said}"
    told = json.loads(run("config", "import", "--json").err)["error"]
    assert told == {"code": "USAGE", "message": said}


def test_a_wrong_line_that_no_command_took(capsys: pytest.CaptureFixture[str]) -> None:
    complain_of_usage(typer.BadParameter("no so"), as_json=False)
    assert capsys.readouterr().err == "llmgate: no so\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("nonsense",), "No such command 'nonsense'."),
        (("stauts",), "No such command 'stauts'. Did you mean 'status'?"),
        (("inspect",), "Missing argument 'ID'."),
        (("move", "x"), "say where to, with --front"),
    ],
)
def test_a_wrong_line_as_text_and_as_json(run: Any, line: tuple[str, ...], said: str) -> None:
    plain = run(*line)
    assert (plain.status, plain.out) == (2, "")
    assert plain.err.startswith("Usage: llmgate")
    assert plain.err.endswith(f"-h' for help.\n\n{sentence(said)}\n")
    told = run(*line, "--json")
    assert (told.status, told.out) == (2, "")
    assert json.loads(told.err) == {
        "schema": 1,
        "error": {"code": "USAGE", "message": sentence(said).removeprefix("llmgate: ")},
    }


@pytest.mark.parametrize("line", [(), ("config",)])
def test_no_command_at_all_gets_the_help(run: Any, line: tuple[str, ...]) -> None:
    shown = run(*line)
    assert (shown.status, shown.out) == (2, "")
    assert "\nCommands:\n" in shown.err
