"""Turns the event stream of OpenAI chat completions into that of Anthropic Messages.

- What `feed` and `end` return, joined, depends on the bytes of the stream alone, never on how they were cut.
- message_start goes out with the first content, or at the end: until then the gate's own signs of life may go out.
- message_delta is held back until [DONE] or the end of the stream, since the usage comes after the finish_reason.
- A stream that breaks off, that cannot be read or that tells an error ends with the event `error`, and no byte follows.
  It is never given an end that the upstream did not give it.
- The memory is bounded: twice LIMIT, for an unfinished event and for the blocks that wait.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from llmgate.errors import UpstreamFailed
from llmgate.protocols.anthropic import MessagesSurface
from llmgate.protocols.budget import LIMIT, Budget
from llmgate.protocols.document import read_object
from llmgate.protocols.events import DONE, Event, EventCutter, without_half_a_line
from llmgate.protocols.fault import Hides, fault_status, is_fault, nothing_hidden, without_secrets
from llmgate.protocols.seam import whole
from llmgate.protocols.translate.asked import Asked
from llmgate.protocols.translate.blocks import Blocks
from llmgate.protocols.translate.frames import message_end, message_start
from llmgate.protocols.translate.ids import message_id
from llmgate.protocols.translate.piece import called, first_choice, spoken
from llmgate.protocols.translate.reason import Finish
from llmgate.protocols.translate.usage import Usage

_NO_END = "llmgate: the upstream ended its stream before the answer was complete (UPSTREAM_ERROR)"
_SURFACE = MessagesSurface()


class MessageStream:
    """One answer on its way to the client. Its attributes are those of a StreamWatch."""

    __slots__ = (
        "_asked",
        "_blocks",
        "_cutter",
        "_finish",
        "_model",
        "_request_id",
        "_usage",
        "complete",
        "failed",
        "hides",
        "started",
    )

    def __init__(self, asked: Asked, request_id: str, *, limit: int = LIMIT) -> None:
        """`request_id` makes the ids of the message and of calls without one; it must be unique."""
        self.complete = self.failed = self.started = False
        self.hides: Hides = nothing_hidden
        self._asked = asked
        self._request_id = request_id
        self._model = asked.model
        self._cutter = EventCutter(Budget(limit))
        self._blocks = Blocks(request_id, limit)
        self._finish = Finish(asked.stop_sequences)
        self._usage = Usage()

    @property
    def output_tokens(self) -> int:
        """An estimate until the upstream told its own number."""
        return self._usage.produced

    @property
    def input_tokens(self) -> int | None:
        """Those from a cache included; None until the upstream told them."""
        return self._usage.prompt

    def feed(self, data: bytes) -> list[bytes]:
        """Whole frames. Never raises; whatever comes after the end is ignored."""
        out: list[bytes] = []
        if not self._over:
            self._take_all(self._cutter.feed(data), out)
        return out

    def end(self) -> list[bytes]:
        """At the end of the answer's bytes: what is still to be said."""
        out: list[bytes] = []
        if not self._over:
            self._take_all(map(without_half_a_line, self._cutter.end()), out)
        if not self._over:
            self._take_all(self._missing_end(), out)
        return out

    @property
    def _over(self) -> bool:
        return self.complete or self.failed

    def _take_all(self, events: Iterable[Event], out: list[bytes]) -> None:
        try:
            for event in events:
                self._take(event, out)
                if self._over:
                    return
        except UpstreamFailed as error:
            self._fail(_SURFACE.error_frame(error, self._request_id), out)

    def _missing_end(self) -> Iterator[Event]:
        """What stands for the [DONE] that did not come."""
        if not self._finish.known:
            raise UpstreamFailed(_NO_END)
        yield b"", DONE

    def _take(self, event: Event, out: list[bytes]) -> None:
        name, data = event[0], event[1].strip()
        if data == DONE:
            self._close(out)
        elif name == b"error":
            self._pass_fault(read_object(data) or {}, data, out)
        elif (document := read_object(data)) is not None:
            self._read(document, data, out)
        elif b"\n" in data:  # several events without a blank line between them
            self._take_all([(name, line) for line in data.split(b"\n")], out)
        elif data:
            raise UpstreamFailed("llmgate: the upstream sent a chunk that is no JSON object (UPSTREAM_ERROR)")

    def _read(self, document: dict[str, Any], data: bytes, out: list[bytes]) -> None:
        if is_fault(document):
            self._pass_fault(document, data, out)
            return
        if not self._model and isinstance(model := document.get("model"), str):
            self._model = model
        self._usage.read(document.get("usage"))
        if choice := first_choice(document):
            self._usage.read(choice.get("usage"))  # Moonshot
            delta = choice.get("delta") or choice.get("message")  # some servers send all they have in one chunk
            if isinstance(delta, dict):
                self._read_delta(delta, out)
            self._finish.read(choice)

    def _read_delta(self, delta: dict[str, Any], out: list[bytes]) -> None:
        for said in spoken(delta):
            self._start(out)
            self._usage.count(said.text)
            self._finish.refused |= said.refusal
            self._blocks.say(said, out)
        for piece in called(delta):
            self._start(out)
            self._usage.count(piece.arguments)
            self._blocks.call(piece, out)

    def _start(self, out: list[bytes]) -> None:
        if not self.started:
            self.started = True
            model = whole(self._model)
            out.append(message_start(message_id(self._request_id), model, self._asked.input_estimate))

    def _close(self, out: list[bytes]) -> None:
        """The regular end."""
        self._start(out)
        self._blocks.end(out, cut_short=self._finish.cut_short)
        stop = self._finish.decide(calls=self._blocks.calls > 0)
        out += message_end(stop, self._usage.render(self._asked.input_estimate))
        self.complete = True

    def _pass_fault(self, document: dict[str, Any], data: bytes, out: list[bytes]) -> None:
        """The upstream's own error."""
        said = without_secrets(document, data, self.hides)
        self._fail(_SURFACE.upstream_error_frame(fault_status(document), said, self._request_id), out)

    def _fail(self, frame: bytes, out: list[bytes]) -> None:
        out.append(frame)
        self.failed = self.started = True
