"""Has `llmgate doctor` look, as a program of its own, and lays out what it found."""

import asyncio
import contextlib
import os
from collections.abc import Sequence

from llmgate.tui.cells import Line, width_of, wrap
from llmgate.tui.columns import Frame
from llmgate.tui.furniture import Look
from llmgate.tui.sheet import sheet_lines

SECONDS = 60.0
"""The doctor waits some seconds for each of what does not answer."""
COMMAND = ": llmgate "
HANG = " " * 6
"""As far in as the doctor writes what goes on on another line."""


async def examine(command: Sequence[str], seconds: float = SECONDS) -> str:
    """What the command writes. Never fails: that it could not look is told in place of what it found."""
    if not command:
        return "llmgate doctor cannot be run from here: run it in another terminal."
    process = None
    try:
        async with asyncio.timeout(seconds):
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, "NO_COLOR": "1"},
            )
            written, _ = await process.communicate()
    except TimeoutError:  # which is an OSError, too
        return f"llmgate doctor found nothing out in {seconds:.0f} s: run it in another terminal."
    except OSError as error:
        return f"llmgate doctor cannot be run: {error.strerror}"
    finally:
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return written.decode(errors="replace").strip() or "llmgate doctor found nothing to tell."


def report_lines(frame: Frame, look: Look, report: str, scrolled: int) -> list[Line]:
    """Exactly the screen."""
    texts = [part for line in report.split("\n") for part in _parts(frame.clean(line), look.width - 3)]
    return sheet_lines(frame, look, "llmgate doctor", [f" {text}" for text in texts], scrolled)


def _parts(text: str, width: int) -> list[str]:
    """A command at the end of a text that needs several lines stays in one piece where it can: it is to be copied."""
    lead, before, command = text.rpartition(COMMAND)
    whole = f"llmgate {command}"
    if not before or width_of(text) <= width or width_of(whole) > width - len(HANG):
        return _hung(text, width)
    *lines, last = _hung(f"{lead}:", width)
    if width_of(last) + 1 + width_of(whole) <= width:
        return [*lines, f"{last} {whole}"]
    return [*lines, last, HANG + whole]


def _hung(text: str, width: int) -> list[str]:
    first, *rest = wrap(text, width)
    if not rest:
        return [first]
    below = wrap(text[len(first) :].lstrip(), max(2, width - len(HANG)))
    return [first, *(HANG + part for part in below)]
