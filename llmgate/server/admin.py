"""The operator's side: the admin API on its Unix socket (types in adminapi.py). This issue's paths only look."""

import asyncio
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from llmgate.adminapi import REQUEST_STATES, Requests, RequestView, Status, encode
from llmgate.server.asgi import CONNECTION
from llmgate.server.listener import Listener
from llmgate.telemetry.feed import Feed

ALIVE_SECONDS = 5.0
_ALIVE = b": alive\n\n"


class Looking:
    """What the admin API shows, as functions of now."""

    def __init__(
        self, *, status: Callable[[], Status], requests: Callable[[bool], list[RequestView]], now_ms: Callable[[], int]
    ) -> None:
        """`requests(recent)` gives the live ones in dispatch order, with `recent` also those that ended."""
        self.status = status
        self.requests = requests
        self.now_ms = now_ms


def admin_app(looking: Looking, feed: Feed) -> Starlette:
    """The ASGI application of the admin socket."""

    async def get_status(_: Request) -> Response:
        return _json(encode(looking.status()))

    async def get_requests(request: Request) -> Response:
        state, upstream = request.query_params.get("state"), request.query_params.get("upstream")
        if state not in (None, "all", *REQUEST_STATES):
            raise HTTPException(400, f"state is one of all, {', '.join(REQUEST_STATES)}")
        if upstream is not None and upstream not in {view.name for view in looking.status().upstreams}:
            raise HTTPException(404, f"there is no upstream {upstream!r}")
        views = looking.requests(state in ("all", "done"))
        found = [
            view
            for view in views
            if (state in (None, "all") or view.state == state) and upstream in (None, view.upstream)
        ]
        return _json(encode(Requests(now_ms=looking.now_ms(), requests=found)))

    async def get_health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    return Starlette(
        routes=[
            Route("/v1/status", get_status),
            Route("/v1/requests", get_requests),
            Route("/v1/events", EventStream(feed)),
            Route("/healthz", get_health),
        ],
        exception_handlers={HTTPException: _answer_error},
    )


class EventStream:
    """GET /v1/events: an endless event stream, written item by item; a watcher that is cut is closed."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            await _error(405, "this path takes GET only")(scope, receive, send)
            return
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(self._write(send))
            with Listener(receive, writing.cancel):
                await asyncio.wait([writing])
        scope["extensions"][CONNECTION].abort()

    async def _write(self, send: Send) -> None:
        """Until it is cancelled: because the watcher left, or does not keep up."""
        task = asyncio.current_task()
        watcher = self._feed.watch(task.cancel if task is not None else _nothing)
        try:
            headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            while True:
                item = await watcher.wait_next(ALIVE_SECONDS)
                body = _ALIVE if item is None else b"id: %d\ndata: %b\n\n" % item
                await send({"type": "http.response.body", "body": body, "more_body": True})
        finally:
            self._feed.leave(watcher)


def _nothing() -> None:
    """Nobody to cancel."""


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def _error(status: int, message: str) -> Response:
    code = {400: "BAD_REQUEST", 404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}.get(status, "ERROR")
    return JSONResponse({"error": {"code": code, "message": message}}, status)


def _answer_error(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return _error(error.status_code, str(error.detail))
