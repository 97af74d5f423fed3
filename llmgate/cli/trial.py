"""`llmgate try`: one tiny streaming request through the gate, told step by step as a waiting client sees it."""

import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llmgate.cli.connect.command import base_url_of
from llmgate.cli.connect.target import KEY_VARIABLE, NO_KEY_STATUS, key_advice
from llmgate.cli.context import Context, context_of, print_json, print_lines, say
from llmgate.cli.failure import complain
from llmgate.errors import LlmgateError

if TYPE_CHECKING:
    import httpx

    from llmgate.cli.connect.target import Target

MAX_TOKENS = 32
PROMPT = "Say hello in one short sentence."
CONNECT_SECONDS = 10.0

RATED_SECONDS = 0.05
"""An answer that came in less came all at once: that tells nothing of how fast it was made."""


_CODE = re.compile(r"\(([A-Z_]+)\)")
"""Of ours: it stands at the end of what an error of the gate says, and what we say of it may follow."""


class Failed(LlmgateError):
    """The gate answered with an error; the message has its words. `code` is the gate's own, unless another is given."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        found = _CODE.search(message)
        self.code = code or (found[1] if found else "FAILED")


@dataclass
class Course:
    """What happened, in seconds on the monotonic clock since the request was sent."""

    request_id: str = ""
    positions: list[int] = field(default_factory=list)
    said: tuple[int, str] | None = None
    """The position that was told last, and why nobody moves."""
    waited_ms: int | None = None
    """In the queue, as the gate tells it; None = it does not."""
    started: float | None = None
    """The answer began: the slot was there."""
    first: float | None = None
    """The first piece of text."""
    ended: float = 0.0
    text: str = ""
    pieces: int = 0
    output_tokens: int = 0
    """As the server counts them; 0 = it does not."""

    @property
    def tokens(self) -> int:
        return self.output_tokens or self.pieces

    @property
    def queued_ms(self) -> int:
        """Until there was a slot; where the gate did not tell it, until the answer began."""
        return self.waited_ms if self.waited_ms is not None else (_ms(self.started) or 0) if self.positions else 0

    @property
    def rate(self) -> float | None:
        """Tokens a second from the first piece to the last; None where that was hardly any time."""
        seconds = self.ended - self.first if self.first is not None else 0
        return (self.tokens - 1) / seconds if seconds >= RATED_SECONDS and self.tokens > 1 else None


def try_(
    ctx: typer.Context,
    model: Annotated[str | None, typer.Argument(metavar="MODEL", hidden=True)] = None,
    base_url: Annotated[
        str | None,
        typer.Option(help="Where the gate is, unless the running daemon says it.", parser=base_url_of, metavar="URL"),
    ] = None,
) -> None:
    """Send one tiny request through the gate and time it.

    It asks for MODEL, or for the first that is listed, and tells position by position while it waits. A key is taken
    from LLMGATE_API_KEY. Exit status 1: the request failed.

    \b
    Example:
      llmgate try reasoning
    """
    from llmgate.cli.connect.find import find_running

    context = context_of(ctx)
    target = find_running(context, base_url, model)
    course = Course()
    try:
        _send(target, course, context)
    except Failed as error:
        complain(error.code, str(error), as_json=context.json)
        raise typer.Exit(1) from None
    if course.positions:
        course.waited_ms = _wait_of(course.request_id, context)
    if context.json:
        print_json(_plain(target, course))
    else:
        print_lines(_lines(target, course))


def _wait_of(request_id: str, context: Context) -> int | None:
    """How long it waited: the stream had begun before that was over. None where the daemon of the admin socket does
    not know it."""
    try:
        view = context.client("try").request(request_id).request
    except LlmgateError:
        return None
    return None if view.dispatched_ms is None else view.dispatched_ms - view.arrived_ms


def _send(target: "Target", course: Course, context: Context) -> None:
    import httpx

    from llmgate.cli.trust import trusted

    key = os.environ.get(KEY_VARIABLE)
    headers = {"llmgate-purpose": "try", "llmgate-client": "llmgate"} | (
        {"authorization": f"Bearer {key}"} if key else {}
    )
    body = {
        "model": target.model,
        "max_tokens": MAX_TOKENS,
        "stream": True,
        "messages": [{"role": "user", "content": PROMPT}],
    }
    timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
    started = time.monotonic()
    try:
        with (
            httpx.Client(timeout=timeout, trust_env=False, verify=trusted(target.root, target.fingerprint)) as client,
            client.stream("POST", f"{target.root}/v1/messages", json=body, headers=headers) as answer,
        ):
            _check(answer)
            course.request_id = answer.headers.get("llmgate-request-id", "")
            for name, data in events(answer.iter_lines()):
                _take(course, name, data, time.monotonic() - started, context)
    except httpx.HTTPError as error:
        said = f"llmgate: no whole answer from {target.root}: {str(error) or type(error).__name__}"
        raise Failed(said, "NO_ANSWER") from None
    finally:
        course.ended = course.ended or time.monotonic() - started
    if course.started is None:
        raise Failed("llmgate: the stream ended before the answer began")


def _check(answer: "httpx.Response") -> None:
    if answer.status_code != 200:
        answer.read()
        said = _words(_object(answer.text)) or f"llmgate: the gate answers with status {answer.status_code}"
        raise Failed(said + (key_advice() if answer.status_code == NO_KEY_STATUS else ""))


def events(lines: Iterable[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The events of the stream by name, with their data; comments are no events."""
    name, data = "", ""
    for line in lines:
        label, _, value = line.partition(":")
        if label == "event":
            name = value.strip()
        elif label == "data":
            data += value.strip()
        elif not line and data:
            yield name, _object(data)
            name, data = "", ""


def _object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _words(answer: Mapping[str, Any]) -> str:
    """What an error says, in whichever of the shapes."""
    error = answer.get("error")
    said = error.get("message") if isinstance(error, dict) else error
    return str(said or "")


def _take(course: Course, name: str, data: Mapping[str, Any], seconds: float, context: Context) -> None:
    if name == "queue":
        _note_position(course, data, context)
    elif name == "message_start":
        course.started = seconds
    elif name == "content_block_delta":
        delta = data.get("delta")
        course.first = seconds if course.first is None else course.first
        course.text += str(delta.get("text") or "") if isinstance(delta, dict) else ""
        course.pieces += 1
    elif name == "message_delta":
        usage = data.get("usage")
        told = usage.get("output_tokens") if isinstance(usage, dict) else 0
        course.output_tokens = told if isinstance(told, int) else 0
    elif name == "message_stop":
        course.ended = seconds
    elif name == "error":
        raise Failed(_words(data) or "llmgate: the stream ended with an error that says nothing")


def _note_position(course: Course, data: Mapping[str, Any], context: Context) -> None:
    position, depth = data.get("position"), data.get("depth")
    why = "the upstream is down" if data.get("state") == "upstream_down" else ""
    if not isinstance(position, int) or course.said == (position, why):
        return
    if not course.positions or course.positions[-1] != position:
        course.positions.append(position)
    was_held = course.said is not None and course.said[1]
    course.said = position, why
    if not (context.quiet or context.json):
        why = f": {why}" if why else ": the upstream is back" if was_held else ""
        say(f"waiting: position {position} of {depth}{why}")


def _plain(target: "Target", course: Course) -> dict[str, Any]:
    return {
        "ok": True,
        "url": target.root,
        "model": target.model,
        "positions": course.positions,
        "waited_ms": course.queued_ms,
        "first_token_ms": _ms(course.first),
        "total_ms": _ms(course.ended),
        "output_tokens": course.tokens,
        "tokens_per_second": None if course.rate is None else round(course.rate, 1),
        "text": course.text,
    }


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _lines(target: "Target", course: Course) -> Iterator[str]:
    from llmgate.cli.table import counted, lapse
    from llmgate.tui.cells import clean

    places = f", from position {course.positions[0]}" if course.positions else ""
    yield f"model        {clean(target.model)}, at {target.root}"
    yield f"waited       {lapse(course.queued_ms) if course.positions else 'not at all'}{places}"
    if course.first is not None:
        first = (_ms(course.first) or 0) - course.queued_ms
        yield f"first token  {lapse(first) if first >= 1000 else f'{first} ms'}"
    rate = "" if course.rate is None else f", {course.rate:.1f} tokens/s"
    yield f"answer       {counted(course.tokens, 'token')}{rate}"
    yield f"             {clean(' '.join(course.text.split()))}"
