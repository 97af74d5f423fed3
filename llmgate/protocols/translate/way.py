"""The way of an Anthropic Messages request to a server that speaks OpenAI chat completions only."""

from collections.abc import Mapping

from llmgate.protocols.budget import LIMIT
from llmgate.protocols.fault import Hides
from llmgate.protocols.speech import CHAT_PATH
from llmgate.protocols.sse import is_event_stream
from llmgate.protocols.surface import StreamWatch
from llmgate.protocols.translate.answer import answer
from llmgate.protocols.translate.request import Options, translate
from llmgate.protocols.translate.stream import MessageStream

_KEY, _BEARER = b"x-api-key", b"authorization"


class Translated:
    """See Way. `request_id` makes the ids of the message and of calls without one."""

    __slots__ = ("_asked", "_request_id", "body")

    path = CHAT_PATH
    keeps_query = False

    def __init__(self, body: bytes, options: Options, request_id: str) -> None:
        """Raises BadRequest for what cannot be said to such a server."""
        translated = translate(body, options)
        self.body = translated.body
        self._asked = translated.asked
        self._request_id = request_id

    def headers(self, headers: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
        """Anthropic's own stay here; a key goes where OpenAI's servers look for it."""
        sent = {name: value for name, value in headers.items() if not name.startswith(b"anthropic-")}
        key = sent.pop(_KEY, None)
        if key is not None:
            sent.setdefault(_BEARER, b"Bearer " + key)
        return sent

    def is_stream(self, content_type: bytes) -> bool:
        """See Way."""
        return is_event_stream(content_type)

    def watch(self) -> StreamWatch:
        """See Way."""
        return TranslatedWatch(MessageStream(self._asked, self._request_id))

    def whole(self, body: bytes) -> bytes:
        """See Way."""
        return answer(body, self._asked, self._request_id)

    def as_stream(self, body: bytes) -> bytes:
        """As if the whole answer had come in one chunk."""
        self.whole(body)
        stream = MessageStream(self._asked, self._request_id, limit=LIMIT + 2 * len(body))  # all of it is here already
        line = body.translate(_ONE_LINE)
        return b"".join([*stream.feed(b"data: " + line + b"\n\ndata: [DONE]\n\n"), *stream.end()])


_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


class TranslatedWatch:
    """A StreamWatch over a MessageStream, which never passes on half an event."""

    __slots__ = ("_stream", "opened")

    inside_event = False

    def __init__(self, stream: MessageStream) -> None:
        self._stream = stream
        self.opened = False
        """Means nothing here: no byte of the upstream's is passed on."""

    @property
    def complete(self) -> bool:
        """See StreamWatch; so are the others."""
        return self._stream.complete

    @property
    def failed(self) -> bool:
        return self._stream.failed

    @property
    def hides(self) -> Hides:
        return self._stream.hides

    @hides.setter
    def hides(self, hides: Hides) -> None:
        self._stream.hides = hides

    @property
    def started(self) -> bool:
        return self._stream.started

    @property
    def output_tokens(self) -> int:
        return self._stream.output_tokens

    @property
    def input_tokens(self) -> int | None:
        return self._stream.input_tokens

    def feed(self, data: bytes) -> bytes:
        return b"".join(self._stream.feed(data))

    def finish(self) -> bytes:
        return b"".join(self._stream.end())
