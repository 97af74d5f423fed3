"""Every deliberate error, with the stable code that clients, logs and metrics see.

    GateError                 code            status  outcome
    ├── BadRequest            BAD_REQUEST     400     -            the request itself is at fault
    │   ├── BodyTooLarge      BODY_TOO_LARGE  413     -
    │   ├── BodyTimeout       BODY_TIMEOUT    408     -
    │   ├── CodedBody         CODED_BODY      415     -            compressed, which nobody here takes apart
    │   ├── HeadTooLarge      HEAD_TOO_LARGE  431     -            414 where it is the request line
    │   ├── HeadTimeout       HEAD_TIMEOUT    408     -
    │   └── MethodNotAllowed  METHOD_NOT_ALLOWED 405  -
    ├── NotAllowed            NOT_ALLOWED     403     refused      who asks may not
    │   ├── Unauthorized      UNAUTHORIZED    401     refused      no key, or none that counts
    │   ├── HostNotAllowed    HOST_NOT_ALLOWED 421    refused      asked under a name that is not ours
    │   ├── OriginNotAllowed  ORIGIN_NOT_ALLOWED 403  refused      a page of another site asks
    │   └── ModelNotAllowed   MODEL_NOT_ALLOWED 403   refused      not with this key
    ├── KeyLimit              KEY_LIMIT       429     refused      the key has as many requests as it may
    ├── TooManyConnections    TOO_MANY_CONNECTIONS 503 -           of clients, all together
    ├── TooManyBodies         TOO_MANY_BODIES 503     -            more bytes of requests than are held in memory
    ├── NotFound              NOT_FOUND       404     -            no such path
    │   └── UnknownModel      UNKNOWN_MODEL   404     -
    ├── QueueFull             QUEUE_FULL      503     queue_full
    ├── QueueTimeout          QUEUE_TIMEOUT   504     queue_timeout
    ├── Cancelled             CANCELLED       503     cancelled    by an operator
    ├── Refused               REFUSED         503     refused      paused-and-closed, draining, shut down
    ├── UpstreamDown          UPSTREAM_DOWN   503     upstream_down   no connection: nothing was sent
    ├── UpstreamTimeout       UPSTREAM_TIMEOUT 504    upstream_timeout
    ├── UpstreamFailed        UPSTREAM_ERROR  502     upstream_error  it answered badly, or broke off
    └── ClientStalled         CLIENT_STALLED  -       client_stalled  the client stopped reading

The message is what a person reads. Apart from names that people gave (of upstreams, of models) it holds no number and
not the word "quota": some clients sort errors by words.
"""

import re
from typing import ClassVar, Final, Literal

Outcome = Literal[
    "completed",
    "queue_full",
    "queue_timeout",
    "abandoned",
    "client_gone",
    "cancelled",
    "upstream_error",
    "upstream_timeout",
    "upstream_down",
    "client_stalled",
    "refused",
]
"""How a request ended, in exactly one word: abandoned = the client left while waiting, client_gone = while running."""

EXPLAINED: Final[frozenset[Outcome]] = frozenset({"upstream_error", "upstream_timeout", "upstream_down", "refused"})
"""Those that do not say all: with them an operator is told a reason."""

OWN_FAULT: Final = "a fault inside llmgate, see its log"


_FRAME = re.compile(r"^llmgate: |\s*\([A-Z_]+\)$")


class LlmgateError(Exception):
    """Anything llmgate raises on purpose; `str(error)` is one sentence for a person."""


class GateError(LlmgateError):
    """An error that ends one request; the request's surface turns it into bytes."""

    code: ClassVar[str] = "INTERNAL"
    status: int = 500
    outcome: Outcome = "upstream_error"

    @property
    def reason(self) -> str:
        """The message for an operator, who sees beside it whose it is: without our name and its code, with what the
        system said."""
        cause = self.__cause__
        said = cause.strerror if isinstance(cause, OSError) else None
        return ": ".join(filter(None, [_FRAME.sub("", str(self)), said]))


class BadRequest(GateError):
    code, status, outcome = "BAD_REQUEST", 400, "refused"

    @property
    def reason(self) -> str:
        """None of its message, which may quote the request: only a translation is refused after its place is taken."""
        return "its request cannot be translated for this server"


class BodyTooLarge(BadRequest):
    code, status = "BODY_TOO_LARGE", 413


class BodyTimeout(BadRequest):
    code, status = "BODY_TIMEOUT", 408


class CodedBody(BadRequest):
    code, status = "CODED_BODY", 415


class HeadTooLarge(BadRequest):
    code, status = "HEAD_TOO_LARGE", 431


class HeadTimeout(BadRequest):
    code, status = "HEAD_TIMEOUT", 408


class MethodNotAllowed(BadRequest):
    code, status = "METHOD_NOT_ALLOWED", 405


class NotAllowed(GateError):
    """Who asks may not do this."""

    code, status, outcome = "NOT_ALLOWED", 403, "refused"


class Unauthorized(NotAllowed):
    """The same for no key, a wrong one and one that is disabled: nobody learns which keys there are."""

    code, status = "UNAUTHORIZED", 401


class HostNotAllowed(NotAllowed):
    code, status = "HOST_NOT_ALLOWED", 421


class OriginNotAllowed(NotAllowed):
    code = "ORIGIN_NOT_ALLOWED"


class ModelNotAllowed(NotAllowed):
    code = "MODEL_NOT_ALLOWED"


class KeyLimit(GateError):
    """The client's own limit, which is no fullness of a queue. `limit` goes out as a header."""

    code, status, outcome = "KEY_LIMIT", 429, "refused"

    def __init__(self, message: str, *, limit: int = 0) -> None:
        super().__init__(message)
        self.limit = limit


class TooManyConnections(GateError):
    code, status, outcome = "TOO_MANY_CONNECTIONS", 503, "refused"


class TooManyBodies(GateError):
    code, status, outcome = "TOO_MANY_BODIES", 503, "refused"


class NotFound(GateError):
    code, status, outcome = "NOT_FOUND", 404, "refused"


class UnknownModel(NotFound):
    code = "UNKNOWN_MODEL"


class QueueError(GateError):
    """An end in the queue: the client must not try again by itself. `depth` and `limit` go out as headers."""

    def __init__(self, message: str, *, depth: int = 0, limit: int | None = None) -> None:
        super().__init__(message)
        self.depth = depth
        self.limit = limit


class QueueFull(QueueError):
    code, status, outcome = "QUEUE_FULL", 503, "queue_full"


class QueueTimeout(QueueError):
    code, status, outcome = "QUEUE_TIMEOUT", 504, "queue_timeout"


class Cancelled(QueueError):
    code, status, outcome = "CANCELLED", 503, "cancelled"


class Refused(QueueError):
    code, status, outcome = "REFUSED", 503, "refused"


class UpstreamDown(GateError):
    code, status, outcome = "UPSTREAM_DOWN", 503, "upstream_down"


class UpstreamTimeout(GateError):
    code, status, outcome = "UPSTREAM_TIMEOUT", 504, "upstream_timeout"


class UpstreamFailed(GateError):
    code, status = "UPSTREAM_ERROR", 502
    outcome: Outcome = "upstream_error"


class ClientStalled(GateError):
    code, outcome = "CLIENT_STALLED", "client_stalled"


class SettingsError(LlmgateError):
    """Settings that cannot be used; the message names file, line and key."""


class AdminError(LlmgateError):
    """The admin socket did not give what was asked; the message says what to do next."""


class AdminRefusal(AdminError):
    """The daemon does not do what was asked; `code` is its word for why, such as UNKNOWN_UPSTREAM."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class NotPermitted(AdminError):
    """The system does not let this user reach the admin socket."""


class DaemonSilent(AdminError):
    """Somebody listens on the admin socket, and did not answer in time."""


class DaemonNotRunning(AdminError):
    """Nobody listens on the admin socket."""
