"""How a person types the program that is running now: `llmgate` where PATH leads to it, else its path from here."""

import os
import shlex
import shutil
import sys
from pathlib import Path

NAME = "llmgate"


def program() -> str:
    """What to type in this folder to run the same llmgate again, ready for a shell."""
    script, found = Path(sys.argv[0]), shutil.which(NAME)
    if script.name != NAME or not script.is_file():  # started as python -m llmgate
        if found is not None and _names(Path(found), sys.executable):
            return NAME
        for folder in (*Path(sys.prefix).parents[1:2], Path(sys.prefix)):  # PREFIX of PREFIX/lib/llmgate; a venv
            if _names(folder / "bin" / NAME, sys.executable):
                return shlex.quote(from_here(str(folder / "bin" / NAME)))
        return f"{shlex.quote(from_here(sys.executable))} -m {NAME}"
    if found is not None and os.path.samefile(found, script):
        return NAME
    return shlex.quote(from_here(os.path.abspath(script)))


def _names(script: Path, interpreter: str) -> bool:
    """Whether it is a script that runs this interpreter, as those do that pip and `make install` write."""
    try:
        with script.open("rb") as file:
            return os.fsencode(interpreter) in file.read(4096)
    except OSError:
        return False


def from_here(path: str) -> str:
    """The path from the working folder where it lies below it, else the path as it is."""
    try:
        here = os.path.relpath(path)
    except (OSError, ValueError):
        return path
    if here.startswith(os.pardir):
        return path
    return here if os.sep in here else os.path.join(os.curdir, here)
