"""GET /metrics on an address of its own, for a Prometheus that is not let in where clients are."""

from collections.abc import Callable

from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

Render = Callable[[], tuple[str, bytes]]
"""Content type and text."""


class MetricsApp:
    """An ASGI application that knows one path."""

    def __init__(self, render: Render) -> None:
        self._render = render

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope)(scope, receive, send)

    def _answer(self, scope: Scope) -> Response:
        if scope["path"] != "/metrics":
            return PlainTextResponse("llmgate: metrics are at /metrics\n", 404)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("llmgate: this path takes GET only\n", 405, {"allow": "GET, HEAD"})
        content_type, text = self._render()
        return Response(text, headers={"content-type": content_type})
