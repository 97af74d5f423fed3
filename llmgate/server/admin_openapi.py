"""The admin API as an OpenAPI 3.1 document, made from its route table and the types of its answers."""

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from llmgate import __version__
from llmgate.adminapi import ErrorAnswer, FeedItem, View
from llmgate.server.admin_route import JSON, Fault, MayNot, Route

_REFERENCE = "#/components/schemas/{name}"

_TARGETS = {
    "name": ("Name of the upstream.", {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"}),
    "id": ("Id of the request.", {"type": "string", "pattern": "^[A-Za-z0-9_]{1,64}$"}),
}
"""What a variable part of a path is, and what it looks like."""

_LAST_EVENT_ID = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "The id of the item after which the stream is to go on.",
    "schema": {"type": "string"},
}


def make_document(routes: Sequence[Route]) -> dict[str, Any]:
    """The whole document."""
    kinds = _kinds(routes)
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    known = dict(zip(map(id, kinds), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, known)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "llmgate admin API",
            "version": __version__,
            "description": "On the daemon's admin socket, a Unix socket. The level `act` is refused to the uids of "
            "admin.read_only_uids.",
        },
        "servers": [{"url": "http://localhost"}],
        "paths": paths,
        "components": {"schemas": components},
    }


def _kinds(routes: Iterable[Route]) -> list[Any]:
    """Each type that is met, once."""
    met: list[Any] = [ErrorAnswer, FeedItem]
    for route in routes:
        met += [kind for kind in (route.answer, route.body, route.query) if kind is not None and kind not in met]
    return [kind for kind in met if not isinstance(kind, str)]


def _operation(route: Route, known: dict[int, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "x-level": route.level,
        "parameters": [*_path_parameters(route), *_query_parameters(route.query)],
        "responses": {
            **{str(status): _response(route, status, known) for status in (200, *route.statuses)},
            **_faults(route, known),
        },
    }
    if isinstance(route.answer, str) and route.handle is None and route.answer != JSON:
        operation["parameters"].append(_LAST_EVENT_ID)
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": known[id(route.body)]}}}
    return operation


def _operation_id(route: Route) -> str:
    words = [part.strip("{}") for part in route.path.replace(".", "/").split("/") if part and part != "v1"]
    return "_".join([route.method.lower(), *words])


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    names = [part.strip("{}") for part in route.parts if part.startswith("{")]
    return [
        {"name": name, "in": "path", "required": True, "description": _TARGETS[name][0], "schema": _TARGETS[name][1]}
        for name in names
    ]


def _query_parameters(kind: type[View] | None) -> list[dict[str, Any]]:
    if kind is None:
        return []
    _, components = msgspec.json.schema_components([kind])
    return [
        {
            "name": name,
            "in": "query",
            "description": schema["description"],
            "schema": {key: value for key, value in schema.items() if key != "description"},
        }
        for name, schema in components[kind.__name__]["properties"].items()
    ]


def _response(route: Route, status: int, known: dict[int, Any]) -> dict[str, Any]:
    if isinstance(route.answer, str):
        kind = {"type": "object"} if route.answer == JSON else {"type": "string"}
        return {"description": HTTPStatus(status).phrase, "content": {route.answer: {"schema": kind}}}
    return {"description": HTTPStatus(status).phrase, "content": {JSON: {"schema": known[id(route.answer)]}}}


def _faults(route: Route, known: dict[int, Any]) -> dict[str, Any]:
    """Status, and what it means."""
    kinds: list[type[Fault]] = [Fault, *([MayNot] if route.level == "act" else []), *route.faults]
    told = {str(kind.status): kind.code for kind in kinds}
    if route.method != "GET":
        told |= {"408": "BODY_TIMEOUT", "413": "BODY_TOO_LARGE"}
    schema = {JSON: {"schema": known[id(ErrorAnswer)]}}
    return {status: {"description": code, "content": schema} for status, code in sorted(told.items())}
