"""What llmgate itself says to one client: where it stands, that somebody is there, what went wrong.

Said in the words of the client's surface: before the answer is open as status and body, on an open stream as a frame.
A client that asked for no stream hears nothing while it waits, or, where the settings say so, blanks in front of its
JSON; those go out under a 200, so that what goes wrong afterwards is told in the body alone.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from llmgate.admission.base import Place
from llmgate.core.line import Position
from llmgate.errors import BodyTimeout, BodyTooLarge, CodedBody, GateError, KeyLimit, QueueError, Unauthorized
from llmgate.protocols.surface import Opening, Surface
from llmgate.protocols.upstream_error import UpstreamTold
from llmgate.server.asgi import JSON, Header
from llmgate.server.heartbeat import Heartbeat
from llmgate.server.reply import Reply, nothing
from llmgate.server.services import Services
from llmgate.server.wishes import QueueEvents, manner_of

if TYPE_CHECKING:
    from llmgate.server.destination import Destination

STREAM_HEADERS: tuple[Header, ...] = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))
"""X-Accel-Buffering: nginx would hold frames back otherwise."""

_BLANK = b" "


class Voice:
    """Speaks through one exchange's reply."""

    __slots__ = (
        "_arrival",
        "_heartbeat",
        "_id",
        "_opening",
        "_place",
        "_reply",
        "_services",
        "_streams",
        "_surface",
        "_told",
        "destination",
    )

    def __init__(self, services: Services, surface: Surface, reply: Reply, request_id: str) -> None:
        self._services = services
        self._surface = surface
        self._reply = reply
        self._id = request_id
        self.destination: Destination | None = None
        """Of the request, once it is routed."""
        self._place: Place | None = None
        self._streams = False
        self._opening: Opening | None = None
        """Of a stream that is told of its wait; None: no frame of ours is sent before the answer."""
        self._arrival: list[Header] = []
        """Position and depth when it came, where it had to wait."""
        self._told: tuple[int, str] | None = None
        """The position and state that were told last."""
        self._heartbeat: Heartbeat | None = None

    # ---- while it waits

    def take_place(self, place: Place, *, model: str, streams: bool, wish: QueueEvents | None) -> None:
        """The request has its place; from here on the heartbeat beats, if there is to be one."""
        self._place, self._streams = place, streams
        waiting = self._services.settings.waiting
        if streams:
            keepalive = waiting.openai_keepalive if self._surface.follows_keepalive else None
            manner = manner_of(wish, keepalive)
            if manner is not None:
                self._opening = Opening(request_id=self._id, model=model, at=datetime.now(UTC), manner=manner)
        blanks = waiting.nonstream_keepalive == "whitespace" and not streams and wish != "off"
        if self._opening is not None or blanks:
            self._heartbeat = Heartbeat(waiting.heartbeat, lambda: self._reply.last_write, self._beat)
            self._heartbeat.start()

    async def tell_wait(self, place: Place) -> None:
        """Until the slot is there, the client is told where it stands; raises what ends the wait otherwise."""
        position = place.position()
        if position is not None and not place.had_slot:
            at, depth = b"%d" % position.position, b"%d" % position.depth
            self._arrival = [(b"llmgate-position", at), (b"llmgate-depth", depth)]
        if position is None or self._opening is None:
            await place.wait_admitted()
            return
        self._told = None  # one that had a slot, and waits again, has heard otherwise meanwhile
        self._reply.on_writable = lambda: self._tell(place.position())
        async for position in place.positions():
            if not self._reply.started:
                self.open_stream([])
            self._tell(position)
        self._reply.on_writable = nothing

    def _tell(self, position: Position | None) -> None:
        """A slow client is told the newest when it has caught up: its slot does not wait for that."""
        if position is None or self._reply.blocked or self._opening is None:
            return
        told = position.position, position.state
        if told == self._told:
            return
        self._told = told
        if not self._services.settings.waiting.eta:
            position = msgspec.structs.replace(position, eta_ms=None)
        self._services.frames[self._surface.name, "queue"] += 1
        record = self._services.ledger.record(self._id)
        if record is not None:
            record.queue_frames += 1
        self._reply.write(self._surface.queue_frame(position, self._opening))

    def _beat(self) -> None:
        if self._reply.blocked or self._reply.finished or self._place is None:
            return
        if self._opening is None:
            if not self._reply.started:
                self._reply.start(200, [JSON, *self.headers(), *STREAM_HEADERS])
            self._services.frames[self._surface.name, "blank"] += 1
            self._reply.write(_BLANK)
            return
        if not self._reply.started:
            self.open_stream([])
        position = self._place.position()
        self._services.frames[self._surface.name, "heartbeat"] += 1
        self._reply.write(self._surface.heartbeat(position, self._opening))

    def hush(self) -> None:
        """No sign of life any more: the answer speaks for itself."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None

    # ---- the answer's frame

    def open_stream(self, headers: list[Header]) -> None:
        """Status and headers of a stream; `headers` are the upstream's, where its answer opens it."""
        own = [*self.headers(), *STREAM_HEADERS]
        if not any(name == b"content-type" for name, _ in headers):
            own.append((b"content-type", self._surface.stream_type))
        self._reply.start(200, [*headers, *own])

    def answer(self, status: int, headers: list[Header], body: bytes) -> None:
        """An answer that is no stream; its status is lost where blanks went before it."""
        if self._reply.started:
            self._reply.finish(body)
        else:
            self._reply.answer(status, [*headers, *self.headers()], body)

    def headers(self) -> list[Header]:
        """Those of our own that every answer has."""
        headers = [(b"llmgate-request-id", self._id.encode("ascii"))]
        if self.destination is not None:
            headers.append((b"llmgate-upstream", self.destination.name.encode("ascii")))
        if self._place is not None and self._arrival and self._place.position() is None:
            headers.append((b"llmgate-queued-ms", b"%d" % round(self._place.waited * 1000)))
        return headers + self._arrival

    # ---- what went wrong

    def tell_error(self, error: GateError) -> None:
        """As status and body before the stream is open, as an error event after it."""
        if isinstance(error, UpstreamTold):
            self.tell_upstream_error(error.status, [], error.body)
        elif self._reply.started and self._streams:
            self._reply.finish(self._surface.error_frame(error, self._id))
        else:
            self.answer(error.status, [JSON, *self._error_headers(error)], self._surface.error_body(error, self._id))

    def tell_upstream_error(self, status: int, headers: list[Header], body: bytes) -> None:
        """The upstream's own error, with its headers, in the same two ways."""
        if self._reply.started and self._streams:
            self._reply.finish(self._surface.upstream_error_frame(status, body, self._id))
            return
        status, body = self._surface.upstream_error_body(status, body, self._id)
        self.answer(status, [JSON, *((name, value) for name, value in headers if name != b"content-type")], body)

    def _error_headers(self, error: GateError) -> list[Header]:
        headers = [(b"llmgate-code", error.code.encode("ascii"))]
        if isinstance(error, (BodyTooLarge, BodyTimeout, CodedBody)):
            headers.append((b"connection", b"close"))  # the rest of its body is not read
        if isinstance(error, Unauthorized):
            headers.append((b"www-authenticate", b"Bearer"))
        if isinstance(error, KeyLimit):  # the client's own doing: it may well ask again, but not at once
            headers += [(b"retry-after", b"%d" % self._retry_after()), (b"llmgate-limit", b"%d" % error.limit)]
        if isinstance(error, QueueError):
            headers += [(b"x-should-retry", b"false"), (b"retry-after", b"%d" % self._retry_after())]
            if not self._arrival:
                headers.append((b"llmgate-depth", b"%d" % error.depth))
            if error.limit is not None:
                headers.append((b"llmgate-limit", b"%d" % error.limit))
        return headers

    def _retry_after(self) -> int:
        """Seconds until a slot falls free about now: the median run shared by the slots, within 1 and the setting."""
        settings, destination = self._services.settings, self.destination
        if destination is None or not destination.is_there:  # it is not routed yet, or a reload took that away
            return 1
        median = self._services.ledger.figures(destination.name).median_run()
        slots = destination.gate.limits.max_concurrent or 1
        return round(min(max(1.0, median / slots), settings.waiting.retry_after_max))
