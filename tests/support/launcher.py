"""Becomes another program that gets files as systemd passes them (sd_listen_fds(3)): `launcher.py 7,9 PROGRAM ...`.

$LISTEN_PID and $LISTEN_FDS, where they are set already, stay as they are.
"""

import fcntl
import os
import sys

FIRST = 3
BEYOND = 100


def main(numbers: list[int], command: list[str]) -> None:
    aside = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, BEYOND) for number in numbers]
    for number in numbers:
        os.close(number)
    for target, number in enumerate(aside, FIRST):
        os.dup2(number, target)
    os.environ.setdefault("LISTEN_PID", str(os.getpid()))
    os.environ.setdefault("LISTEN_FDS", str(len(numbers)))
    os.execvp(command[0], command)  # noqa: S606  it is what this is for


main([int(number) for number in sys.argv[1].split(",")], sys.argv[2:])
