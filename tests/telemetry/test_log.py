"""Lines of the log: their form, what never gets into one, and that one which cannot be written stops nobody."""

import io
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.telemetry import log
from llmgate.telemetry.log import JsonLine, TextLine, configure

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture
def _logging_as_it_was() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("llmgate")
    before = root.handlers, root.level, ours.level, logging.raiseExceptions
    yield
    root.handlers, logging.raiseExceptions = before[0], before[3]
    root.setLevel(before[1])
    ours.setLevel(before[2])


def record(message: str, *args: object, name: str = "llmgate", **fields: Any) -> logging.LogRecord:
    return logging.LogRecord(name, logging.INFO, "", 0, message, args, fields.get("exc_info"))


def error(text: str) -> Any:
    """As `sys.exc_info()` gives it."""
    raised = ZeroDivisionError(text)
    return type(raised), raised, None


# ---- text


def test_text_is_the_message_after_the_time() -> None:
    line = TextLine(stamped=True).format(record("%s queued (depth %d)", "ha-llm", 1))
    assert re.fullmatch(STAMP + r" llmgate: ha-llm queued \(depth 1\)", line)


def test_whoever_stamps_himself_gets_no_time() -> None:
    assert TextLine(stamped=False).format(record("started")) == "llmgate: started"


def test_a_library_is_named() -> None:
    assert TextLine(stamped=False).format(record("oops", name="uvicorn.error")) == "uvicorn: oops"


def test_a_traceback_stands_indented_under_its_line() -> None:
    text = TextLine(stamped=False).format(record("request r1 failed", exc_info=error("in\nvain\x1b[31m")))
    first, *rest = text.split("\n")
    assert first == "llmgate: request r1 failed"
    assert rest == ["    ZeroDivisionError: in", "    vain [31m"]


@given(st.text())
def test_one_event_is_one_line_of_printable_text(text: str) -> None:
    line = TextLine(stamped=True).format(record("%s", text))
    assert line.isprintable()
    assert len(line.splitlines()) == 1
    line.encode()


@pytest.mark.parametrize("letter", ["\n", "\r", "\x00", "\x1b", "\x7f", "\x9b", "\x85", "\u2028", "\u202e", "\ud800"])
def test_control_characters_become_blanks(letter: str) -> None:
    hostile = f"a{letter}llmgate: forged"
    assert TextLine(stamped=False).format(record("%s", hostile)) == "llmgate: a llmgate: forged"
    assert json.loads(JsonLine().format(record("%s", hostile)))["message"] == "llmgate: a llmgate: forged"


def test_what_is_printable_stays() -> None:
    assert TextLine(stamped=False).format(record("Größe 漢字 🙂 100%")) == "llmgate: Größe 漢字 🙂 100%"


# ---- json


def test_json_is_one_object_a_line() -> None:
    line = json.loads(JsonLine().format(record("queued (depth %d)", 2, name="llmgate.x")))
    assert re.fullmatch(STAMP, line.pop("at"))
    assert line == {"level": "info", "logger": "llmgate.x", "message": "llmgate: queued (depth 2)"}


def test_json_keeps_the_lines_of_a_traceback_in_its_message() -> None:
    text = JsonLine().format(record("failed", exc_info=error("x")))
    assert "\n" not in text
    assert json.loads(text)["message"] == "llmgate: failed\nZeroDivisionError: x"


@given(st.text())
def test_json_is_printable_and_says_the_same_as_text(text: str) -> None:
    line = JsonLine().format(record("%s", text))
    assert line.isprintable()
    line.encode()
    assert json.loads(line)["message"] == TextLine(stamped=False).format(record("%s", text))


# ---- where to, and in which form


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


FORMS = [
    ("text", io.StringIO, {"container": "docker"}, TextLine),
    ("json", Terminal, {}, JsonLine),
    ("auto", Terminal, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, TextLine),
    ("auto", io.StringIO, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, JsonLine),
    ("auto", io.StringIO, {"container": "podman"}, JsonLine),
    ("auto", io.StringIO, {}, TextLine),
]


@pytest.mark.usefixtures("_logging_as_it_was")
@pytest.mark.parametrize(("form", "stream", "environ", "formatter"), FORMS)
def test_the_form_suits_the_place(
    monkeypatch: pytest.MonkeyPatch, form: str, stream: type[io.StringIO], environ: dict[str, str], formatter: type
) -> None:
    monkeypatch.setattr(log.Path, "exists", lambda _: False)
    configure("info", form, stream=stream(), environ=environ)
    (handler,) = logging.getLogger().handlers
    assert isinstance(handler.formatter, formatter)


@pytest.mark.usefixtures("_logging_as_it_was")
def test_docker_is_known_by_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log.Path, "exists", lambda path: path == Path("/.dockerenv"))
    configure("info", "auto", stream=io.StringIO(), environ={})
    assert isinstance(logging.getLogger().handlers[0].formatter, JsonLine)


@pytest.mark.usefixtures("_logging_as_it_was")
def test_journald_stamps_by_itself() -> None:
    stream = io.StringIO()
    configure("info", "text", stream=stream, environ={"JOURNAL_STREAM": "8:1234"})
    logging.getLogger("llmgate").info("started")
    assert stream.getvalue() == "llmgate: started\n"


@pytest.mark.usefixtures("_logging_as_it_was")
@pytest.mark.parametrize(("level", "written"), [("debug", "diwe"), ("info", "iwe"), ("warning", "we"), ("error", "e")])
def test_levels(level: str, written: str) -> None:
    stream = io.StringIO()
    configure(level, "text", stream=stream, environ={"JOURNAL_STREAM": ""})
    ours, library = logging.getLogger("llmgate"), logging.getLogger("somebody")
    for letter, number in (("d", 10), ("i", 20), ("w", 30), ("e", 40)):
        ours.log(number, letter)
        library.log(number, f"library {letter}")
    lines = stream.getvalue().splitlines()
    assert "".join(line.removeprefix("llmgate: ") for line in lines if line.startswith("llmgate")) == written
    assert [line for line in lines if "library" in line] == ["somebody: library w", "somebody: library e"]


@pytest.mark.usefixtures("_logging_as_it_was")
def test_standard_error_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("JOURNAL_STREAM", "8:1")
    configure("info", "text")
    logging.getLogger("llmgate").info("here")
    assert stream.getvalue() == "llmgate: here\n"


# ---- what cannot be written


@pytest.mark.usefixtures("_logging_as_it_was")
def test_a_line_whose_words_do_not_fit_stops_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    configure("info", "text", stream=stream, environ={"JOURNAL_STREAM": ""})
    logging.getLogger("llmgate").info("%d", "no number")
    logging.getLogger("llmgate").info("next")
    assert stream.getvalue() == "llmgate: next\n"
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("_logging_as_it_was")
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_reader_that_died_stops_nobody(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    configure("info", form, stream=stream, environ={})
    for _ in range(100):
        logging.getLogger("llmgate").info("nobody reads this")
    stream.close()  # nothing is left in it that would fail once more
    assert capsys.readouterr() == ("", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_process_whose_log_is_full_goes_on_and_ends_well() -> None:
    script = (
        "import logging; from llmgate.telemetry.log import configure; configure('info', 'text')\n"
        "for number in range(1000): logging.getLogger('llmgate').info('lost %d', number)\n"
        "print('went on')"
    )
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-c", script]
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, env=environ, check=False)
    assert (ran.returncode, ran.stdout) == (0, b"went on\n")
