"""One entry of the route table: which paths are its, and what of a query or a body is taken."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.adminapi import LimitsBody, LimitsChange, ReadyQuery, RequestsQuery, Status
from llmgate.server.admin_route import Fault, NoSuchPath, Route, WrongMethod, find, read_body, read_query

PLAIN = Route("GET", "/v1/things", "look", "Things.", Status, None)
ONE = Route("PATCH", "/v1/things/{name}", "act", "One.", Status, lambda *_: None)  # type: ignore[arg-type]
SAME = Route("GET", "/v1/things/{name}", "look", "One.", Status, lambda *_: None)  # type: ignore[arg-type]
DEEP = Route("POST", "/v1/things/{name}/do", "act", "Do.", Status, lambda *_: None)  # type: ignore[arg-type]
ROUTES = (PLAIN, ONE, SAME, DEEP)


@pytest.mark.parametrize(
    ("method", "path", "route", "target"),
    [
        ("GET", "/v1/things", PLAIN, ""),
        ("GET", "/v1/things/a", SAME, "a"),
        ("HEAD", "/v1/things/a", SAME, "a"),
        ("PATCH", "/v1/things/a", ONE, "a"),
        ("POST", "/v1/things/do/do", DEEP, "do"),
    ],
)
def test_the_route_of_a_path(method: str, path: str, route: Route, target: str) -> None:
    assert find(ROUTES, method, path) == (route, target)


@pytest.mark.parametrize(
    "path",
    ["", "/", "/v1", "/v1/thing", "/v1/things/", "/v1/things//do", "/v1/things/a/", "/v1/things/a/dont", "v1/things"],
)
def test_no_such_path(path: str) -> None:
    with pytest.raises(NoSuchPath):
        find(ROUTES, "GET", path)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/v1/things/a", ("PATCH", "GET")),
        ("GET", "/v1/things/a/do", ("POST",)),
        ("HEAD", "/v1/things/a/do", ("POST",)),
        ("HEAD", "/v1/things", ("GET",)),
    ],
)
def test_a_wrong_method(method: str, path: str, allowed: tuple[str, ...]) -> None:
    with pytest.raises(WrongMethod) as caught:
        find(ROUTES, method, path)
    assert caught.value.allowed == allowed
    assert str(caught.value) == f"this path takes {' or '.join(allowed)} only"


@given(st.text(max_size=30), st.text(max_size=40))
def test_any_path_is_found_or_refused(method: str, path: str) -> None:
    try:
        route, target = find(ROUTES, method, path)
    except Fault:
        return
    assert route.path.replace("{name}", target) == path


# ---- queries


def test_a_query_is_read_as_its_type_says() -> None:
    assert read_query([], RequestsQuery) == RequestsQuery()
    read = read_query([("state", "all"), ("limit", "3"), ("session", "null")], RequestsQuery)
    assert read == RequestsQuery(state="all", limit=3, session="null")
    assert read_query([], None) is None


@pytest.mark.parametrize(
    ("pairs", "kind", "message"),
    [
        ([("limit", "x")], RequestsQuery, "limit must be a whole number, 1 or more"),
        ([("limit", "-1")], RequestsQuery, "limit must be a whole number, 1 or more"),
        ([("limit", "99999999999999999999")], RequestsQuery, "limit must be a whole number, 1 or more"),
        ([("a", "1")], None, "there is no parameter 'a' here; this path takes none"),
        (
            [("upsteam", "1")],
            ReadyQuery,
            "there is no parameter 'upsteam' here; did you mean upstream? there are: upstream",
        ),
    ],
)
def test_a_bad_query(pairs: list[tuple[str, str]], kind: type | None, message: str) -> None:
    with pytest.raises(Fault) as caught:
        read_query(pairs, kind)
    assert str(caught.value) == message


# ---- bodies


def test_a_body_is_read_as_its_type_says() -> None:
    read = read_body(b'{"max_concurrent":2,"queue_timeout":null}', LimitsBody)
    assert read == LimitsChange(max_concurrent=2, queue_timeout=None)
    assert read_body(b'{"max_concurrent":2.0,"queue_timeout":2.5}', LimitsBody).max_concurrent == 2


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"max_queued":"\xff"}', b"[" * 100_000])
def test_no_json(body: bytes) -> None:
    with pytest.raises(Fault, match=r"the body is no JSON|must be"):
        read_body(body, LimitsBody)


@given(
    st.dictionaries(st.sampled_from([*LimitsChange.__struct_fields__, "x"]), st.integers() | st.floats() | st.none())
)
def test_any_object_is_read_or_refused(fields: dict[str, object]) -> None:
    try:
        read = read_body(json.dumps(fields).encode(), LimitsBody)
    except Fault:
        return
    assert fields == {name: getattr(read, name) for name in fields}
    assert fields
