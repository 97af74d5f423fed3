"""schemathesis against the running admin API: whatever its OpenAPI document allows is answered as it says there, and
whatever it does not allow is refused.

The stream has no end and is asked elsewhere.
"""

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from gateprocess import GateProcess
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks

from llmgate.server.admin_openapi import make_document
from llmgate.server.admin_table import EVENTS, ROUTES

load_all_checks()

pytestmark = pytest.mark.slow

ASKED = [route for route in ROUTES if route.path != EVENTS]
ALLOWED = [(route.path, route.method, GenerationMode.POSITIVE) for route in ASKED]
NOT_ALLOWED = [
    (route.path, route.method, GenerationMode.NEGATIVE)
    for route in ASKED
    if "{" in route.path or route.query is not None or route.body is not None
]
EXAMPLES = 15


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    upstream = {"url": "http://127.0.0.1:9", "models": ["m"], "max_concurrent": 1, "on_down": "fail"}
    with GateProcess(
        tmp_path_factory.mktemp("gate"), {"upstreams": {"a": upstream, "b": {**upstream, "models": ["n"]}}}
    ) as gate:
        yield gate


@pytest.fixture(scope="module")
def admin(running: GateProcess) -> Iterator[httpx.Client]:
    transport = httpx.HTTPTransport(uds=str(running.socket), verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    with httpx.Client(transport=transport, base_url="http://localhost", timeout=30) as client:
        yield client


def schema() -> Any:
    """As the daemon tells it, with the names of its upstreams as examples of what a name may be."""
    document = json.loads(json.dumps(make_document(ROUTES)))
    for path, methods in document["paths"].items():
        for operation in methods.values():
            for parameter in operation["parameters"]:
                if parameter["in"] == "path" and "upstreams" in path:
                    parameter["schema"] = {"type": "string", "enum": ["a", "b", "c"]}
    return schemathesis.openapi.from_dict(document)


SCHEMA = schema()


def test_the_daemon_tells_this_document(admin: httpx.Client) -> None:
    assert admin.get("/openapi.json").json() == make_document(ROUTES)


@pytest.mark.parametrize(("path", "method", "mode"), [*ALLOWED, *NOT_ALLOWED])
def test_every_answer_is_as_the_document_says(admin: httpx.Client, path: str, method: str, mode: Any) -> None:
    @given(SCHEMA[path][method].as_strategy(generation_mode=mode))
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def check(case: Any) -> None:
        kwargs = case.as_transport_kwargs(base_url="http://localhost")
        request = {key: value for key, value in kwargs.items() if key in ("method", "url", "params", "json", "headers")}
        if "data" in kwargs:
            request["content"] = kwargs["data"]
        request["headers"] = {name: value for name, value in kwargs["headers"].items() if value.isascii()}
        case.validate_response(admin.request(**request))

    check()


@given(st.sampled_from(["/v1/status", "/v1/upstreams/a", "/v1/requests"]), st.text(max_size=20))
@settings(deadline=None, suppress_health_check=list(HealthCheck))
def test_no_parameter_that_is_not_there_is_passed_over(admin: httpx.Client, path: str, name: str) -> None:
    answer = admin.get(path, params={name: "1"})
    known = name in ("upstream", "client", "session", "model", "limit") and path == "/v1/requests"
    assert answer.status_code == (404 if name == "upstream" and known else 200 if known else 400), Path(path)
