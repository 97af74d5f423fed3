"""The OpenAPI document: complete, consistent, and in agreement with the route table."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from llmgate.server.admin_openapi import make_document
from llmgate.server.admin_table import ROUTES

DOCUMENT = make_document(ROUTES)
OPERATIONS = [
    (path, method, operation) for path, methods in DOCUMENT["paths"].items() for method, operation in methods.items()
]


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_it_is_json_of_version_3_1() -> None:
    assert json.loads(json.dumps(DOCUMENT)) == DOCUMENT
    assert DOCUMENT["openapi"] == "3.1.0"
    assert DOCUMENT["info"]["title"] == "llmgate admin API"


def test_every_reference_leads_somewhere_and_every_type_is_used() -> None:
    known = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    used = set(references(DOCUMENT))
    assert used <= known
    feed = {"#/components/schemas/FeedItem", "#/components/schemas/EventView"}
    queries = {f"#/components/schemas/{name}Query" for name in ("Requests", "Ready", "Events")}
    assert known - used <= feed | queries


def test_there_is_an_operation_for_each_route_with_its_own_name() -> None:
    assert {(method.upper(), path) for path, method, _ in OPERATIONS} == {(it.method, it.path) for it in ROUTES}
    names = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(set(names)) == len(names)
    assert {"get_status", "patch_upstreams_name", "post_requests_id_move", "get_openapi_json"} <= set(names)


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS, ids=lambda it: it if isinstance(it, str) else "")
def test_what_each_may_answer(path: str, method: str, operation: dict[str, Any]) -> None:
    route = next(it for it in ROUTES if (it.path, it.method.lower()) == (path, method))
    assert (operation["summary"], operation["x-level"]) == (route.summary, route.level)
    statuses = set(operation["responses"])
    assert {"200", "400"} <= statuses
    assert ("403" in statuses) is (route.level == "act")
    assert ("404" in statuses) is ("{" in path or path in ("/v1/requests", "/readyz"))
    assert ("409" in statuses) is (route.level == "act")
    assert ("413" in statuses) is (method != "get")
    assert ("503" in statuses) is (path == "/readyz")
    named = {it["name"] for it in operation["parameters"] if it["in"] == "path"}
    assert named == {part.strip("{}") for part in path.split("/") if part.startswith("{")}
    assert ("requestBody" in operation) is (method == "patch")


def test_parameters_and_bodies_say_what_is_allowed() -> None:
    listed = DOCUMENT["paths"]["/v1/requests"]["get"]["parameters"]
    assert [it["name"] for it in listed] == ["state", "upstream", "client", "session", "model", "limit"]
    assert listed[0]["schema"]["enum"] == ["all", "done", "draining", "live", "running", "waiting"]
    assert listed[-1]["schema"] == {"type": "integer", "minimum": 1, "maximum": 2147483647}
    change = DOCUMENT["components"]["schemas"]["LimitsChange"]
    assert change["additionalProperties"] is False
    body = DOCUMENT["paths"]["/v1/upstreams/{name}"]["patch"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/LimitsChange", "minProperties": 1}


def test_the_stream_and_the_metrics_are_no_json() -> None:
    def content(path: str) -> dict[str, Any]:
        found: dict[str, Any] = DOCUMENT["paths"][path]["get"]["responses"]["200"]["content"]
        return found

    assert list(content("/v1/events")) == ["text/event-stream"]
    assert list(content("/metrics")) == ["text/plain"]
    assert [it["name"] for it in DOCUMENT["paths"]["/v1/events"]["get"]["parameters"]] == [
        "events",
        "Last-Event-ID",
    ]
