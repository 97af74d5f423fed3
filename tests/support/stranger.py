"""The command line as another user: `python stranger.py SOCKET UID GID` runs `llmgate --socket SOCKET` again and again.

Standard input is a JSON list of command lines, standard output one of [exit status, standard output, standard error].

All that it needs is read first, by running commands that only look, and then root lets go of its rights: the program
may lie where that user may not read. Who is not root stays who he is, and UID and GID are passed over.
"""

import contextlib
import importlib
import io
import json
import os
import pkgutil
import sys
import tempfile

import llmgate
from llmgate.cli.app import main

LOOKING = (("status",), ("ps",), ("top", "--once"))


def read_everything(socket: str) -> None:
    for module in pkgutil.walk_packages(llmgate.__path__, "llmgate."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for words in LOOKING:
        nowhere = io.StringIO()
        with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere), contextlib.suppress(SystemExit):
            main(["--socket", socket, *words])


def run(socket: str, words: list[str], uid: int, gid: int) -> list[int | str]:
    """In a process of its own."""
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
        child = os.fork()
        if child == 0:
            os.dup2(said.fileno(), 1)
            os.dup2(complained.fileno(), 2)
            become(uid, gid)
            main(["--socket", socket, *words])
        _, status = os.waitpid(child, 0)
        for file in (said, complained):
            file.seek(0)
        return [os.waitstatus_to_exitcode(status), said.read().decode(), complained.read().decode()]


def become(uid: int, gid: int) -> None:
    """For good, and in this one group only."""
    if os.getuid() == 0:
        os.setgroups([gid])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)


if __name__ == "__main__":
    path, user, group = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    commands = json.load(sys.stdin)
    read_everything(path)
    answers = [run(path, words, user, group) for words in commands]
    print(json.dumps(answers))
