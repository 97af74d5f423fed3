"""Answers an error of ours to a request that is no exchange, in the shape of a surface."""

from collections.abc import Mapping

from starlette.responses import Response

from llmgate.errors import BodyTimeout, BodyTooLarge, CodedBody, GateError, Unauthorized
from llmgate.protocols.surface import Surface
from llmgate.server.asgi import new_request_id


def refuse(
    surface: Surface, error: GateError, headers: Mapping[str, str] | None = None, request_id: str = ""
) -> Response:
    """The connection is closed where the rest of the request's body was not read. Whoever has no key gets the same
    bytes every time, so without an id.
    """
    own = {"llmgate-code": error.code}
    if isinstance(error, Unauthorized):
        own["www-authenticate"] = "Bearer"
    else:
        own["llmgate-request-id"] = request_id = request_id or new_request_id()
    if isinstance(error, (BodyTooLarge, BodyTimeout, CodedBody)):
        own["connection"] = "close"
    body = surface.error_body(error, request_id)
    return Response(body, error.status, {**own, **(headers or {})}, media_type="application/json")
