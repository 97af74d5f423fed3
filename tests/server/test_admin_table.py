"""The route table as the specification has it, and who may do what."""

from llmgate.server.admin_route import find
from llmgate.server.admin_table import ROUTES

LOOK = """
GET /v1/status
GET /v1/upstreams
GET /v1/upstreams/{name}
GET /v1/requests
GET /v1/requests/{id}
GET /v1/events
GET /v1/config
GET /metrics
GET /healthz
GET /health
GET /readyz
GET /openapi.json
"""
ACT = """
PATCH /v1/upstreams/{name}
POST /v1/upstreams/{name}/pause
POST /v1/upstreams/{name}/resume
POST /v1/upstreams/{name}/drain
DELETE /v1/requests/{id}
POST /v1/requests/{id}/move
POST /v1/reload
"""


def those(level: str) -> set[str]:
    return {f"{route.method} {route.path}" for route in ROUTES if route.level == level}


def test_every_route_and_its_level() -> None:
    assert those("look") == set(LOOK.split("\n")) - {""}
    assert those("act") == set(ACT.split("\n")) - {""}


def test_whatever_is_not_get_acts_and_the_other_way_round() -> None:
    assert all((route.method == "GET") is (route.level == "look") for route in ROUTES)


def test_no_two_routes_are_the_same() -> None:
    for route in ROUTES:
        path = route.path.replace("{name}", "x").replace("{id}", "x")
        assert find(ROUTES, route.method, path)[0] is route


def test_each_says_what_it_does_in_a_sentence() -> None:
    assert all(
        route.summary[0].isupper() and route.summary.endswith(".") for route in ROUTES if route.summary[0] != "2"
    )
