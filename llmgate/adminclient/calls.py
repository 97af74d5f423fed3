"""What each call of the admin API asks for, and the type of its answer."""

from collections.abc import Mapping
from typing import Any, TypedDict
from urllib.parse import quote

from llmgate.adminapi import (
    Config,
    LimitsAnswer,
    Reloaded,
    RequestDetail,
    Requests,
    Status,
    UpstreamAnswer,
    Upstreams,
)
from llmgate.adminclient.wire import Ask

_CANCEL_PATIENCE = 3.0
"""A request is over when its server's connection is closed, which takes a moment."""
_RELOAD_PATIENCE = 12.0


class Filters(TypedDict, total=False):
    """Which requests are asked for; what is left out, or None, does not matter."""

    state: str | None
    """A WantedState; without it those that wait, run or drain."""
    upstream: str | None
    client: str | None
    session: str | None
    """The whole of it, or its beginning."""
    model: str | None
    limit: int | None


def status() -> Ask[Status]:
    return Ask(Status, "GET", "/v1/status")


def upstreams() -> Ask[Upstreams]:
    return Ask(Upstreams, "GET", "/v1/upstreams")


def upstream(name: str) -> Ask[UpstreamAnswer]:
    return Ask(UpstreamAnswer, "GET", _upstream(name))


def requests(filters: Filters) -> Ask[Requests]:
    query = {key: str(value) for key, value in filters.items() if value is not None}
    return Ask(Requests, "GET", "/v1/requests", query)


def request(request_id: str) -> Ask[RequestDetail]:
    return Ask(RequestDetail, "GET", _request(request_id))


def change_mode(name: str, how: str) -> Ask[UpstreamAnswer]:
    """`how` is pause, resume or drain."""
    return Ask(UpstreamAnswer, "POST", f"{_upstream(name)}/{how}")


def set_limits(name: str, limits: Mapping[str, Any]) -> Ask[LimitsAnswer]:
    return Ask(LimitsAnswer, "PATCH", _upstream(name), body=dict(limits))


def cancel(request_id: str) -> Ask[RequestDetail]:
    return Ask(RequestDetail, "DELETE", _request(request_id), patience=_CANCEL_PATIENCE)


def move(request_id: str) -> Ask[RequestDetail]:
    return Ask(RequestDetail, "POST", f"{_request(request_id)}/move")


def config() -> Ask[Config]:
    return Ask(Config, "GET", "/v1/config")


def reload() -> Ask[Reloaded]:
    return Ask(Reloaded, "POST", "/v1/reload", patience=_RELOAD_PATIENCE)


def metrics() -> Ask[bytes]:
    return Ask(bytes, "GET", "/metrics")


def openapi() -> Ask[bytes]:
    return Ask(bytes, "GET", "/openapi.json")


def _upstream(name: str) -> str:
    return f"/v1/upstreams/{_part(name)}"


def _request(request_id: str) -> str:
    return f"/v1/requests/{_part(request_id)}"


def _part(text: str) -> str:
    """One part of a path; "." and ".." would be taken for a step in it, and "" for none."""
    return quote(text, safe="") if text.strip(".") else "-"
