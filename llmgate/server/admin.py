"""The operator's side: the admin API on its Unix socket. The paths stand in admin_table.py, the types in adminapi.py.

Who may connect is for the socket's mode to say. Of those some may only look: whose uid is among `read_only_uids`, and
whoever the kernel does not tell. Every error is an adminapi.ErrorAnswer.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Receive, Scope, Send

from llmgate.adminapi import ErrorAnswer, EventsQuery, View, encode
from llmgate.adminapi import Fault as FaultView
from llmgate.errors import GateError
from llmgate.server.admin_events import EventStream
from llmgate.server.admin_openapi import make_document
from llmgate.server.admin_operator import Operator
from llmgate.server.admin_peer import Peer
from llmgate.server.admin_protocol import PEER
from llmgate.server.admin_route import Answer, Call, Fault, MayNot, Route, WrongMethod, find, read_body, read_query
from llmgate.server.admin_table import EVENTS, ROUTES
from llmgate.server.asgi import ClientLeft, headers_of
from llmgate.server.asgi import read_body as read_bytes
from llmgate.telemetry.feed import Feed

logger = logging.getLogger("llmgate")

BODY_LIMIT = 64 * 1024
BODY_SECONDS = 10.0
_MOST_PARAMETERS = 32


class AdminApp:
    """The ASGI application of the admin socket."""

    def __init__(self, operator: Operator, feed: Feed, read_only_uids: Collection[int] = ()) -> None:
        self._operator = operator
        self._feed = feed
        self._read_only = frozenset(read_only_uids)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            route, target = find(ROUTES, scope["method"], scope["path"])
            if route.path == EVENTS:
                query: EventsQuery = self._read_query(route, scope)
                may_act = self._may_act(_peer(scope))
                await EventStream(self._feed, may_act=may_act, events=query.events)(scope, receive, send)
                return
            answer = await self._answer(route, target, scope, receive)
        except ClientLeft:
            return
        except Exception as error:
            answer, headers = _explain(error)
            await _send(send, answer, headers)
        else:
            await _send(send, answer)

    async def _answer(self, route: Route, target: str, scope: Scope, receive: Receive) -> Answer:
        peer = _peer(scope)
        may_act = self._may_act(peer)
        if route.level == "act" and not may_act:
            raise MayNot(f"{await peer.name()} may look here, but not act: see admin.read_only_uids in the settings")
        query, body = self._read_query(route, scope), None
        if route.method != "GET":
            data = await read_bytes(headers_of(scope), receive, BODY_LIMIT, BODY_SECONDS)
            body = read_body(data, route.body) if route.body is not None else None
        if route.handle is None:
            return Answer(self._document())
        by = await peer.name() if route.level == "act" else ""
        call = Call(by=by, may_act=may_act, target=target, query=query, body=body)
        found = await route.handle(self._operator, call)
        return Answer(encode(found)) if isinstance(found, View) else found

    def _may_act(self, peer: Peer) -> bool:
        return peer.uid is not None and peer.uid not in self._read_only

    def _read_query(self, route: Route, scope: Scope) -> Any:
        text = scope["query_string"].decode("latin-1")
        try:
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
        except ValueError:
            raise Fault("there are too many parameters") from None
        return read_query(pairs, route.query)

    def _document(self) -> bytes:
        return msgspec.json.encode(make_document(ROUTES))


def _peer(scope: Scope) -> Peer:
    peer = scope.get("extensions", {}).get(PEER)
    return peer if isinstance(peer, Peer) else Peer(None)


def _explain(error: Exception) -> tuple[Answer, Mapping[str, str]]:
    """The answer to what went wrong, with its headers."""
    if isinstance(error, WrongMethod):
        return _error(error.status, error.code, str(error)), {"allow": ", ".join(error.allowed)}
    if isinstance(error, Fault | GateError):
        return _error(error.status, error.code, str(error)), {}
    logger.error("the admin API failed inside llmgate", exc_info=error)
    return _error(500, "INTERNAL", "an internal error, see the log of llmgate"), {}


def _error(status: int, code: str, message: str) -> Answer:
    return Answer(encode(ErrorAnswer(error=FaultView(code=code, message=message))), status)


async def _send(send: Send, answer: Answer, more: Mapping[str, str] | None = None) -> None:
    headers = {"content-type": answer.content_type, "content-length": str(len(answer.body)), **(more or {})}
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": encoded})
    await send({"type": "http.response.body", "body": answer.body})
