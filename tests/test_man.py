"""The manual pages against the program: every command, option and error code is there, and none that is not."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer.main

from llmgate import errors
from llmgate.adminapi import LimitsChange, RequestsQuery
from llmgate.cli.app import app
from llmgate.cli.status import HEADER
from llmgate.server.admin_route import Fault
from llmgate.server.admin_table import ROUTES
from llmgate.tui.keys import KEYS

MAN = Path(__file__).parent.parent / "man"
PAGES = sorted(MAN.glob("*.[1-8]"))
LLMGATE = (MAN / "llmgate.1").read_text()
QUEUE = (MAN / "llmgate-queue.7").read_text()
ADMIN = (MAN / "llmgate-admin.7").read_text()


def commands(command: Any = None, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every command that does something, by its full name, from the typer app."""
    command = command or typer.main.get_command(app)
    for name, child in getattr(command, "commands", {}).items():
        full = f"{path} {name}".strip()
        if getattr(child, "commands", None):
            yield from commands(child, full)
        else:
            yield full, child


COMMANDS = dict(commands())


def options_of(command: Any) -> set[str]:
    names = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return {name for name in names if name.startswith("-")}


def options_in(roff: str) -> set[str]:
    """The options that a piece of mdoc lists, as items of a list."""
    found = set()
    for line in re.findall(r"^\.It (Fl .*)$", roff, re.MULTILINE):
        found |= {f"--{name}" for name in re.findall(r"Fl Fl ([a-z-]+)", line)}
        found |= {f"-{name}" for name in re.findall(r"(?<!Fl )Fl ([a-z])\b", line)}
    return found


OWN_PAGES = {"serve": "llmgate-serve.8", "status": "llmgate-status.1", "top": "llmgate-top.1"}


def section(name: str) -> str:
    """The text of one command's subsection in llmgate(1)."""
    found = re.search(rf"^\.Ss llmgate {name}\n(.*?)(?=^\.S[sh] )", LLMGATE, re.MULTILINE | re.DOTALL)
    assert found is not None, f"man/llmgate.1 has no section of {name}"
    return found[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_listed_and_no_other(name: str) -> None:
    text = (MAN / OWN_PAGES[name]).read_text() if name in OWN_PAGES else section(name)
    assert options_in(text) == options_of(COMMANDS[name]) - {"-h", "--help"}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_synopsis_has_the_same_options(name: str) -> None:
    block = next(block for block in synopsis(LLMGATE).split(".Nm\n") if f".Cm {name}\n" in block)
    wanted = {option for option in options_of(COMMANDS[name]) - {"--help"} if option.startswith("--")}
    assert {f"--{option}" for option in re.findall(r"Fl Fl ([a-z-]+)", block)} == wanted


def synopsis(page: str) -> str:
    return page.partition(".Sh SYNOPSIS\n")[2].partition(".Sh ")[0]


@pytest.mark.parametrize(("name", "file"), OWN_PAGES.items())
def test_a_page_of_its_own_has_the_same_synopsis_and_is_referred_to(name: str, file: str) -> None:
    own = synopsis((MAN / file).read_text()).removeprefix(".Nm llmgate\n")
    assert own in synopsis(LLMGATE)
    assert f".Cm {name}\n" in own
    page, number = file.split(".")
    assert f".Xr {page} {number} " in section(name)


def test_status_tells_its_columns_and_states() -> None:
    page = (MAN / OWN_PAGES["status"]).read_text()
    told = re.findall(r"^\.It Cm ([A-Z].*)$", page, re.MULTILINE)
    columns = {word for line in told for word in line.split(" , ")} | {"UPSTREAM", ""}
    assert {*HEADER, "TIMEOUT"} == {column for each in columns for column in each.split(", ")}


ORDER = (
    *("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "ENVIRONMENT", "FILES", "EXIT STATUS", "NOTES", "EXAMPLES"),
    "SEE ALSO",
)
"""Of man-pages(7); but for EXIT STATUS, which mdoc has behind FILES."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_headings_are_the_usual_ones_in_the_usual_order(page: Path) -> None:
    found = re.findall(r"^\.Sh (.+)$", page.read_text(), re.MULTILINE)
    assert set(found) <= set(ORDER)
    assert found == sorted(found, key=ORDER.index)


def test_no_section_of_a_command_that_is_not_there() -> None:
    assert set(re.findall(r"^\.Ss llmgate (.+)$", LLMGATE, re.MULTILINE)) == set(COMMANDS)


def test_every_global_option_is_listed_and_no_other() -> None:
    description = LLMGATE.partition(".Sh DESCRIPTION\n")[2].partition(".Ss ")[0]
    assert options_in(description) == options_of(typer.main.get_command(app)) | {"-h", "--help"}


def error_codes() -> dict[str, int]:
    """Codes that this daemon can send, with their statuses."""
    found = {}
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, errors.GateError) and "code" in vars(value):
            found[value.code] = value.status
    return found


# Never told: the connection of a client that stalls is cut.
UNTOLD = {"CLIENT_STALLED"}


def test_every_error_code_is_in_the_table_with_its_status() -> None:
    rows = dict(re.findall(r"^\.It ([A-Z_]+) Ta (?:414, )?(\d+) Ta ", QUEUE, re.MULTILINE))
    told = {code: str(status) for code, status in error_codes().items() if code not in UNTOLD}
    assert rows == told


def test_ps_tells_every_way_in_which_a_request_can_end() -> None:
    assert set(re.findall(r"^\.It Cm ([a-z_]+)$", section("ps"), re.MULTILINE)) == set(get_args(errors.Outcome))


def test_top_tells_its_keys_and_its_options() -> None:
    page = (MAN / "llmgate-top.1").read_text()
    keys = page.partition(".Ss Keys\n")[2].partition(".Pp\n.Ic p d R\n")[0]
    told = re.findall(r"^(?:\.It )?\.?Ic (.*)$", keys, re.MULTILINE)
    words = {word.removeprefix(r"\&") for line in told for word in line.split()} - {"g", "G"}
    assert words == {word for key in KEYS for word in key.shown.split()}
    assert options_in(page) == options_of(COMMANDS["top"]) - {"-h", "--help"}


def test_every_path_of_the_admin_api_is_listed_with_what_it_needs() -> None:
    rows = re.findall(r"^\.It (look|act) Ta Ql ([A-Z]+) (/\S*) Ta ", ADMIN, re.MULTILINE)
    assert sorted(rows) == sorted((route.level, route.method, route.path) for route in ROUTES)


def test_every_error_of_the_admin_api_is_listed_with_its_status() -> None:
    rows = dict(re.findall(r"^\.It ([A-Z_]+) Ta (\d+) Ta ", ADMIN, re.MULTILINE))
    faults = {fault.code: str(fault.status) for fault in (Fault, *Fault.__subclasses__())}
    bodies = {error.code: str(error.status) for error in (errors.BodyTooLarge, errors.BodyTimeout)}
    assert rows == faults | bodies


@pytest.mark.parametrize(("title", "kind"), [("Limits", LimitsChange), ("Requests", RequestsQuery)])
def test_all_that_the_admin_api_takes_is_listed(title: str, kind: Any) -> None:
    listed = ADMIN.partition(f".Ss {title}\n")[2].partition("\n.El\n")[0]
    names = re.findall(r"^\.It Cm (.+)$", listed, re.MULTILINE)
    assert {name for line in names for name in line.replace(",", "").split()} == set(kind.__struct_fields__)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_mandoc_finds_nothing_to_say(page: Path) -> None:
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed")
    done = subprocess.run(["mandoc", "-T", "lint", page], capture_output=True, text=True, check=False)
    # A page that refers to another one of ours is right before either is installed.
    said = [line for line in done.stdout.splitlines() if "referenced manual not found" not in line]
    assert said == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_our_own_pages_that_are_referred_to_are_there(page: Path) -> None:
    for name, number in re.findall(r"^\.Xr (llmgate\S*) (\d)", page.read_text(), re.MULTILINE):
        assert (MAN / f"{name}.{number}").is_file(), f"{name}({number})"
