"""Finding the socket, and what importing the client costs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from llmgate.adminclient import find_socket


class TestFindSocket:
    def test_the_first_that_exists(self, tmp_path: Path) -> None:
        first, second, third = (tmp_path / name for name in "abc")
        second.touch()
        third.touch()
        assert find_socket([first, second, third]) == second

    def test_the_first_when_there_is_none(self, tmp_path: Path) -> None:
        assert find_socket([tmp_path / "a", tmp_path / "b"]) == tmp_path / "a"

    def test_one_that_we_may_not_see_counts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        hidden = tmp_path / "b"
        real = Path.stat

        def stat(path: Path) -> os.stat_result:
            if path == hidden:
                raise PermissionError
            return real(path)

        monkeypatch.setattr(Path, "stat", stat)
        assert find_socket([tmp_path / "a", hidden]) == hidden


def test_importing_it_is_light() -> None:
    code = "import sys, llmgate.adminclient; print([m for m in sys.modules if m in sys.argv])"
    heavy = ["httpx", "uvicorn", "textual", "starlette", "pydantic", "rich"]
    ran = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
