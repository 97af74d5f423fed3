"""GET /metrics on an address of its own, for a Prometheus that is not let in where clients are.

No key is asked, but pages are kept out as they are at the clients' ports: by Host and Origin.
"""

from collections.abc import Callable

from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from llmgate.errors import NotAllowed
from llmgate.server.door import Door

Render = Callable[[], tuple[str, bytes]]
"""Content type and text."""


class MetricsApp:
    """An ASGI application that knows one path."""

    def __init__(self, render: Render, door: Door) -> None:
        self._render = render
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope)(scope, receive, send)

    def _answer(self, scope: Scope) -> Response:
        try:
            self._door.enter(scope)
        except NotAllowed as error:
            return PlainTextResponse(f"{error}\n", error.status)
        if scope["path"] != "/metrics":
            return PlainTextResponse("llmgate: metrics are at /metrics\n", 404)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("llmgate: this path takes GET only\n", 405, {"allow": "GET, HEAD"})
        content_type, text = self._render()
        return Response(text, headers={"content-type": content_type})
