"""The route table of the admin API."""

from llmgate.adminapi import (
    Config,
    EventsQuery,
    Health,
    LimitsAnswer,
    LimitsBody,
    Readiness,
    ReadyQuery,
    Reloaded,
    RequestDetail,
    Requests,
    RequestsQuery,
    Status,
    UpstreamAnswer,
    Upstreams,
)
from llmgate.server.admin_operator import Operator
from llmgate.server.admin_route import Conflict, Route, UnknownRequest, UnknownUpstream

EVENTS = "/v1/events"
OPENAPI = "/openapi.json"
EVENT_STREAM = "text/event-stream"

_NAME = "/v1/upstreams/{name}"
_ID = "/v1/requests/{id}"
_ON_UPSTREAM = (UnknownUpstream, Conflict)
_ON_REQUEST = (UnknownRequest, Conflict)

ROUTES = (
    Route("GET", "/v1/status", "look", "The whole state.", Status, Operator.get_status),
    Route("GET", "/v1/upstreams", "look", "All upstreams.", Upstreams, Operator.get_upstreams),
    Route("GET", _NAME, "look", "One upstream.", UpstreamAnswer, Operator.get_upstream, faults=(UnknownUpstream,)),
    Route(
        "PATCH",
        _NAME,
        "act",
        "Changes limits of an upstream, those that are named: until the next start, or a reload with another value.",
        LimitsAnswer,
        Operator.set_limits,
        body=LimitsBody,
        faults=_ON_UPSTREAM,
    ),
    Route(
        "POST",
        f"{_NAME}/pause",
        "act",
        "Sends nobody to an upstream: who comes waits, who runs runs on.",
        UpstreamAnswer,
        Operator.pause,
        faults=_ON_UPSTREAM,
    ),
    Route(
        "POST",
        f"{_NAME}/resume",
        "act",
        "Ends a pause or a drain.",
        UpstreamAnswer,
        Operator.resume,
        faults=_ON_UPSTREAM,
    ),
    Route(
        "POST",
        f"{_NAME}/drain",
        "act",
        "Lets an upstream run empty: who comes is refused, who waits or runs is served to the end.",
        UpstreamAnswer,
        Operator.drain,
        faults=_ON_UPSTREAM,
    ),
    Route(
        "GET",
        "/v1/requests",
        "look",
        "Requests: those that wait in dispatch order, then those that run or drain, then those that ended.",
        Requests,
        Operator.get_requests,
        query=RequestsQuery,
        faults=(UnknownUpstream,),
    ),
    Route(
        "GET",
        _ID,
        "look",
        "One request, what happened to it, and others of its session.",
        RequestDetail,
        Operator.get_request,
        faults=(UnknownRequest,),
    ),
    Route(
        "DELETE",
        _ID,
        "act",
        "Cancels a request that waits or runs; its client is told.",
        RequestDetail,
        Operator.cancel,
        faults=_ON_REQUEST,
    ),
    Route(
        "POST",
        f"{_ID}/move",
        "act",
        "Makes a request that waits the next to run.",
        RequestDetail,
        Operator.move,
        faults=_ON_REQUEST,
    ),
    Route("GET", EVENTS, "look", "Follows what happens, without an end.", EVENT_STREAM, None, query=EventsQuery),
    Route("GET", "/v1/config", "look", "The settings in force, and where each came from.", Config, Operator.get_config),
    Route("POST", "/v1/reload", "act", "Reads the settings again.", Reloaded, Operator.reload, faults=(Conflict,)),
    Route("GET", "/metrics", "look", "Metrics for Prometheus.", "text/plain", Operator.get_metrics),
    Route("GET", "/healthz", "look", "200 while the daemon runs.", Health, Operator.get_health),
    Route("GET", "/health", "look", "200 while the daemon runs: another name of it.", Health, Operator.get_health),
    Route(
        "GET",
        "/readyz",
        "look",
        "200 while the daemon, or one upstream, takes requests, else 503.",
        Readiness,
        Operator.get_ready,
        query=ReadyQuery,
        faults=(UnknownUpstream,),
        statuses=(503,),
    ),
    Route("GET", OPENAPI, "look", "This API as an OpenAPI 3.1 document.", "application/json", None),
)
