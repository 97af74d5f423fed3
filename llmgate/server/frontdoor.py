"""The clients' side: which path is which surface, and the few paths that llmgate answers by itself.

The surfaces' own paths are looked up in one table in front of Starlette, since they carry all the traffic.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route as Path
from starlette.types import Receive, Scope, Send

from llmgate import __version__
from llmgate.errors import BadRequest, GateError, MethodNotAllowed, NotAllowed, NotFound
from llmgate.protocols.counting import COUNT_PATH
from llmgate.protocols.surface import Surface
from llmgate.protocols.surfaces import CHAT, MESSAGES, OLLAMA_CHAT, SURFACES
from llmgate.server import models
from llmgate.server.asgi import INTERNAL, ClientLeft, access_of, check_coding, headers_of, read_body
from llmgate.server.count import TokenCount
from llmgate.server.door import Door
from llmgate.server.exchange import Exchange
from llmgate.server.metrics_app import Render
from llmgate.server.passages import Passages
from llmgate.server.permission import find_route
from llmgate.server.readiness import readiness
from llmgate.server.refusal import refuse
from llmgate.server.services import Services

_POST_ONLY = "llmgate: this path takes POST only (METHOD_NOT_ALLOWED)"


class _Show(msgspec.Struct):
    """The body of POST /api/show; older clients say `name`."""

    model: str = ""
    name: str = ""


class FrontDoor:
    """The ASGI application of the clients' ports."""

    def __init__(self, services: Services, prefixes: tuple[str, ...], metrics: Render | None = None) -> None:
        """`metrics`: what /metrics answers; None: there is no such path here."""
        self._services = services
        self._prefixes = prefixes
        self._metrics = metrics
        self._surfaces: dict[str, tuple[Surface, str]] = {
            prefix + path: (surface, path) for prefix in prefixes for path, surface in SURFACES.items()
        }
        self._passages = Passages(services, prefixes)
        self._door = Door(services)
        self._app = Starlette(
            routes=[*self._own_paths()],
            exception_handlers={
                404: self._answer_not_found,
                405: self._answer_wrong_method,
                Exception: self._answer_failure,
            },
        )
        self._app.router.redirect_slashes = False  # a redirect is no answer that a client of ours reads

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Everything that is checked before a byte of the body is read: key, Host, Origin, path, method. The body's
        size is, where it is read."""
        if scope["type"] != "http":
            return self._app(scope, receive, send)
        send = self._door.marked(scope, send)
        try:
            instead = self._door.enter(scope)
        except NotAllowed as error:
            return self._refuse(error, scope)(scope, receive, send)
        if instead is not None:
            return instead(scope, receive, send)
        found = self._surfaces.get(scope["path"])
        if found is None:
            return (self._passages.find(scope) or self._app)(scope, receive, send)
        surface, path = found
        if scope["method"] != "POST":
            return self._refuse(MethodNotAllowed(_POST_ONLY), scope, {"allow": "POST"})(scope, receive, send)
        return Exchange(self._services, surface, path, scope, receive, send).run()

    def _own_paths(self) -> list[Path]:
        paths = [Path(path, self._get_health) for path in ("/healthz", "/health")] + [Path("/readyz", self._get_ready)]
        if self._metrics is not None:
            paths.append(Path("/metrics", self._get_metrics))
        roots = {root for prefix in self._prefixes for root in (prefix or "/", prefix + "/")}
        paths += [Path(root, self._get_root) for root in sorted(roots)]
        for prefix in self._prefixes:
            for end in ("", "/"):  # a list is a list with a slash, too
                paths += [
                    Path(prefix + "/v1/models" + end, self._get_models),
                    Path(prefix + "/api/tags" + end, self._get_list(models.ollama_tags)),
                    Path(prefix + "/api/ps" + end, self._get_list(models.ollama_ps)),
                ]
            paths += [
                Path(prefix + "/v1/models/{model:path}", self._get_model),
                Path(prefix + "/api/version", self._get_version),
                Path(prefix + "/api/show", self._show_model, methods=["POST"]),
                Path(prefix + COUNT_PATH, self._count_tokens, methods=["POST"]),
            ]
        return paths

    # ---- its own health

    async def _get_root(self, _: Request) -> Response:
        """Clients look here first whether anybody is there."""
        return PlainTextResponse("llmgate is running")

    async def _get_health(self, _: Request) -> Response:
        """The process lives and its loop turns."""
        return JSONResponse({"status": "ok"})

    async def _get_metrics(self, _: Request) -> Response:
        """For Prometheus, where the settings say so."""
        content_type, text = self._metrics() if self._metrics is not None else ("text/plain", b"")
        return Response(text, headers={"content-type": content_type})

    async def _get_ready(self, request: Request) -> Response:
        """Whether it takes requests; with `?upstream=NAME` whether that upstream does."""
        name = request.query_params.get("upstream")
        admission = self._services.admission
        if name is not None and name not in admission.upstreams():
            return JSONResponse({"ready": False, "checks": {name: "unknown upstream"}}, status_code=404)
        view = readiness(admission, name, stopping=self._services.draining)
        return JSONResponse({"ready": view.ready, "checks": view.checks}, status_code=200 if view.ready else 503)

    # ---- models

    async def _get_models(self, request: Request) -> Response:
        render = models.anthropic_models if _is_anthropic(request.scope) else models.openai_models
        return JSONResponse(render(self._list(request.scope)))

    async def _get_model(self, request: Request) -> Response:
        try:
            name: str = request.path_params["model"].replace("%2F", "/")  # see http_protocol
            model = self._find(name, request.scope)
        except GateError as error:
            return refuse(self._surface_of(request.scope), error)
        return JSONResponse((models.anthropic_model if _is_anthropic(request.scope) else models.openai_model)(model))

    def _get_list(self, render: Callable[[models.Models], Any]) -> Callable[[Request], Awaitable[Response]]:
        async def get(request: Request) -> Response:
            return JSONResponse(render(self._list(request.scope)))

        return get

    def _list(self, scope: Scope) -> models.Models:
        """Those that may be asked for with this key."""
        key = access_of(scope).key
        listed = models.list_models(self._services)
        return [model for model in listed if key is None or key.may_use(model.name, model.route.model)]

    def _find(self, name: str, scope: Scope) -> models.Model:
        find_route(self._services, access_of(scope), name)
        return models.find_model(name, self._services)

    async def _get_version(self, _: Request) -> Response:
        return JSONResponse({"version": models.OLLAMA_VERSION, "llmgate": __version__})

    async def _show_model(self, request: Request) -> Response:
        server = self._services.settings.server
        try:
            check_coding(headers_of(request.scope))
            body = await read_body(headers_of(request.scope), request.receive, server.max_body, server.body_timeout)
            model = self._find(_read_show(body), request.scope)
        except ClientLeft:
            return Response()
        except GateError as error:
            return refuse(OLLAMA_CHAT, error)
        return JSONResponse(models.ollama_show(model))

    async def _count_tokens(self, request: Request) -> Response:
        return await TokenCount(self._services, request.scope, request.receive).answer()

    # ---- everything else

    def _surface_of(self, scope: Scope) -> Surface:
        """In whose shape an error is answered: the path's own surface, or what its client probably speaks."""
        path = scope["path"]
        if path in self._surfaces:
            return self._surfaces[path][0]
        if any(path.startswith(prefix + "/api/") for prefix in self._prefixes):
            return OLLAMA_CHAT
        return MESSAGES if _is_anthropic(scope) or path.endswith(COUNT_PATH) else CHAT

    def _refuse(self, error: GateError, scope: Scope, headers: Mapping[str, str] | None = None) -> Response:
        return refuse(self._surface_of(scope), error, headers)

    def _answer_not_found(self, request: Request, _: Exception) -> Response:
        error = NotFound(f"llmgate: no such path here; the surfaces are POST {', '.join(SURFACES)} (NOT_FOUND)")
        return self._refuse(error, request.scope)

    def _answer_wrong_method(self, request: Request, error: Exception) -> Response:
        allowed = getattr(error, "headers", None) or {}
        wrong = MethodNotAllowed("llmgate: this path does not take this method (METHOD_NOT_ALLOWED)")
        return self._refuse(wrong, request.scope, {name.lower(): value for name, value in allowed.items()})

    def _answer_failure(self, request: Request, _: Exception) -> Response:
        """A fault of ours, which goes on to the log."""
        return self._refuse(GateError(INTERNAL), request.scope)


def _is_anthropic(scope: Scope) -> bool:
    return b"anthropic-version" in headers_of(scope)


def _read_show(body: bytes) -> str:
    try:
        asked = msgspec.json.decode(body, type=_Show)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise BadRequest("llmgate: the body is not a JSON object that names a model (BAD_REQUEST)") from None
    if not (asked.model or asked.name):
        raise BadRequest("llmgate: the body names no model (BAD_REQUEST)")
    return asked.model or asked.name
