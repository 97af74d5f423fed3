"""Answers an error of ours to a request that is no exchange, in the shape of a surface."""

from collections.abc import Mapping

from starlette.responses import Response

from llmgate.errors import BodyTimeout, BodyTooLarge, GateError
from llmgate.protocols.surface import Surface
from llmgate.server.asgi import new_request_id


def refuse(
    surface: Surface, error: GateError, headers: Mapping[str, str] | None = None, request_id: str = ""
) -> Response:
    """The connection is closed where the rest of the request's body was not read."""
    request_id = request_id or new_request_id()
    own = {"llmgate-request-id": request_id, "llmgate-code": error.code}
    closing = {"connection": "close"} if isinstance(error, (BodyTooLarge, BodyTimeout)) else {}
    body = surface.error_body(error, request_id)
    return Response(body, error.status, {**own, **closing, **(headers or {})}, media_type="application/json")
