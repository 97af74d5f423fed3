"""The clients' side: which path is which surface, and the few paths that llmgate answers by itself.

The surfaces' own paths are looked up in one table in front of Starlette, since they carry all the traffic.
"""

from collections.abc import Awaitable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as Path
from starlette.types import Receive, Scope, Send

from llmgate.core.events import Mode
from llmgate.errors import GateError, MethodNotAllowed, NotFound
from llmgate.protocols.surface import Surface
from llmgate.protocols.surfaces import SURFACES
from llmgate.server.asgi import new_request_id
from llmgate.server.exchange import Exchange
from llmgate.server.services import Services

_CREATED = "1970-01-01T00:00:00Z"
"""What Anthropic's shape wants and nobody knows of a local model."""


class FrontDoor:
    """The ASGI application of the clients' ports."""

    def __init__(self, services: Services, prefixes: tuple[str, ...]) -> None:
        self._services = services
        self._surfaces: dict[str, tuple[Surface, str]] = {
            prefix + path: (surface, path) for prefix in prefixes for path, surface in SURFACES.items()
        }
        self._app = Starlette(
            routes=[*self._own_paths(prefixes)], exception_handlers={404: _answer_not_found, 405: _answer_wrong_method}
        )

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        found = self._surfaces.get(scope["path"]) if scope["type"] == "http" else None
        if found is None:
            return self._app(scope, receive, send)
        surface, path = found
        if scope["method"] != "POST":
            error = MethodNotAllowed("llmgate: this path takes POST only (METHOD_NOT_ALLOWED)")
            return _answer_error(surface, error, {"allow": "POST"})(scope, receive, send)
        return Exchange(self._services, surface, path, scope, receive, send).run()

    def _own_paths(self, prefixes: tuple[str, ...]) -> list[Path]:
        paths = [Path("/healthz", self._get_health), Path("/readyz", self._get_ready)]
        for prefix in prefixes:
            paths.append(Path(prefix + "/v1/models", self._get_models))
            paths.append(Path(prefix + "/v1/models/{model:path}", self._get_model))
        return paths

    async def _get_health(self, _: Request) -> Response:
        """The process lives and its loop turns."""
        return JSONResponse({"status": "ok"})

    async def _get_ready(self, request: Request) -> Response:
        """Whether it takes requests; with `?upstream=NAME` whether that upstream does."""
        name = request.query_params.get("upstream")
        admission = self._services.admission
        names = [name] if name is not None else list(admission.upstreams())
        if name is not None and name not in admission.upstreams():
            return JSONResponse({"ready": False, "checks": {name: "unknown upstream"}}, status_code=404)
        checks = {upstream: admission.gate(upstream).mode.value for upstream in names}
        ready = not self._services.draining and (name is None or checks[name] == Mode.OPEN.value)
        checks["llmgate"] = "draining" if self._services.draining else "listening"
        return JSONResponse({"ready": ready, "checks": checks}, status_code=200 if ready else 503)

    async def _get_models(self, request: Request) -> Response:
        models = self._services.routes.models()
        if "anthropic-version" in request.headers:
            data = [_anthropic_model(name) for name, _ in models]
            ends = {"first_id": data[0]["id"] if data else None, "last_id": data[-1]["id"] if data else None}
            return JSONResponse({"data": data, "has_more": False, **ends})
        return JSONResponse({"object": "list", "data": [_openai_model(name, route.upstream) for name, route in models]})

    async def _get_model(self, request: Request) -> Response:
        wanted = request.path_params["model"]
        for name, route in self._services.routes.models():
            if name == wanted:
                anthropic = "anthropic-version" in request.headers
                return JSONResponse(_anthropic_model(name) if anthropic else _openai_model(name, route.upstream))
        return _answer_error(_surface_of(request), NotFound("llmgate: no such model is listed here (NOT_FOUND)"))


def _anthropic_model(name: str) -> dict[str, str]:
    return {"type": "model", "id": name, "display_name": name, "created_at": _CREATED}


def _openai_model(name: str, upstream: str) -> dict[str, str | int]:
    return {"id": name, "object": "model", "created": 0, "owned_by": upstream}


def _surface_of(request: Request) -> Surface:
    """In whose shape an error is answered where the path does not say it."""
    return SURFACES["/v1/messages" if "anthropic-version" in request.headers else "/v1/chat/completions"]


def _answer_not_found(request: Request, _: Exception) -> Response:
    error = NotFound(
        "llmgate: no such path here; the surfaces are POST /v1/messages and /v1/chat/completions (NOT_FOUND)"
    )
    return _answer_error(_surface_of(request), error)


def _answer_wrong_method(request: Request, error: Exception) -> Response:
    allowed = getattr(error, "headers", None) or {}
    wrong = MethodNotAllowed("llmgate: this path does not take this method (METHOD_NOT_ALLOWED)")
    return _answer_error(_surface_of(request), wrong, {name.lower(): value for name, value in allowed.items()})


def _answer_error(surface: Surface, error: GateError, headers: dict[str, str] | None = None) -> Response:
    request_id = new_request_id()
    return Response(
        surface.error_body(error, request_id),
        error.status,
        {"llmgate-request-id": request_id, "llmgate-code": error.code, **(headers or {})},
        media_type="application/json",
    )
