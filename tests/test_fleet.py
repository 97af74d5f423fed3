"""Gates and servers are built as the settings say."""

from typing import Any

import certifi
import pytest

from llmgate.config.load import load
from llmgate.config.settings import Settings, UpstreamSettings
from llmgate.core.endpoints import EndpointStatistics
from llmgate.core.events import Limits
from llmgate.fleet import endpoint_names, limits_of, make_contexts, make_gate, make_upstream, make_upstreams, owners_of
from llmgate.upstreams.answer import Timeouts
from llmgate.upstreams.stock import StockTransport
from llmgate.upstreams.transport import WireTransport

URL = "http://127.0.0.1:1"
TWO = {"endpoints": [{"url": URL, "max_concurrent": 4}, {"url": "http://127.0.0.1:2", "max_concurrent": "auto"}]}


def all_of(**upstreams: dict[str, Any]) -> Settings:
    return load(None, environ={}, overrides={"upstreams": upstreams}).settings


def settings_of(**upstream: Any) -> UpstreamSettings:
    one = upstream if "endpoints" in upstream else {"url": URL, "max_concurrent": 1, **upstream}
    return all_of(a=one).upstreams["a"]


@pytest.mark.parametrize(
    ("upstream", "limits"),
    [
        ({}, Limits(1, None, None, 600.0)),
        ({"max_concurrent": "auto"}, Limits(1, None, None, 600.0)),
        ({"max_concurrent": 0}, Limits(0, None, None, 600.0)),
        ({"max_concurrent": 4, "max_queued": 0, "queue_timeout": "5m"}, Limits(4, 0, 300.0, 600.0)),
        ({"queue_timeout": 0, "queue_timeout_nonstream": 5, "stall_alarm": 0}, Limits(1, None, None, None)),
        (TWO, Limits(0, None, None, 600.0)),
        ({**TWO, "max_concurrent": 3}, Limits(3, None, None, 600.0)),
    ],
)
def test_limits(upstream: dict[str, Any], limits: Limits) -> None:
    assert limits_of(settings_of(**upstream)) == limits


def test_limits_of_a_server_that_told_its_slots() -> None:
    assert limits_of(settings_of(max_concurrent="auto"), 3).max_concurrent == 3
    assert limits_of(settings_of(), 3).max_concurrent == 1


def test_an_only_server_has_no_limit_of_its_own() -> None:
    gate = make_gate("a", settings_of(max_concurrent=3))
    assert gate.endpoints() == {"a": EndpointStatistics(max_concurrent=0)}
    assert gate.limits.max_concurrent == 3
    assert gate.holds


def test_each_endpoint_has_its_own_limit() -> None:
    gate = make_gate("a", settings_of(**TWO, on_down="fail"))
    assert gate.endpoints() == {"a": EndpointStatistics(4), "a#2": EndpointStatistics(1)}
    assert not gate.holds


def test_names_of_endpoints() -> None:
    settings = all_of(a=TWO, b={"url": "http://127.0.0.1:3", "max_concurrent": 1})
    assert endpoint_names("a", settings.upstreams["a"]) == ["a", "a#2"]
    assert owners_of(settings) == {"a": "a", "a#2": "a", "b": "b"}


async def test_every_endpoint_is_a_server() -> None:
    made = make_upstreams(all_of(a={**TWO, "kind": "vllm"}, b={"url": URL + "/b/", "max_concurrent": 1}), {"a": "k"})
    assert [(name, one.name, one.speech.kind, one._api_key, one._base_path) for name, one in made.items()] == [
        ("a", "a", "vllm", b"k", b""),
        ("a#2", "a#2", "vllm", b"k", b""),
        ("b", "b", "auto", b"", b"/b"),
    ]
    for one in made.values():
        await one.aclose()


@pytest.mark.parametrize(
    ("upstream", "kind"),
    [
        ({}, WireTransport),
        ({"transport": "httpx"}, StockTransport),
        ({"url": "https://127.0.0.1:1", "ca_file": certifi.where()}, WireTransport),
        ({"url": "https://127.0.0.1:1", "transport": "httpx"}, StockTransport),
    ],
)
async def test_transports(upstream: dict[str, Any], kind: type) -> None:
    settings = settings_of(**upstream)
    made = make_upstream("a", settings, settings.url, "")
    assert type(made._transport) is kind
    await made.aclose()


def test_contexts_are_made_where_there_is_something_to_check() -> None:
    secure = {"url": "https://127.0.0.1:1", "ca_file": certifi.where(), "max_concurrent": 1}
    made = make_contexts(all_of(a=secure, b={"url": URL, "max_concurrent": 1}))
    assert list(made) == ["a"]
    assert made["a"].get_ca_certs()


async def test_a_context_that_is_there_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(url="https://127.0.0.1:1")
    context = make_contexts(all_of(a={"url": "https://127.0.0.1:1", "max_concurrent": 1}))["a"]
    monkeypatch.setattr("llmgate.fleet.ssl.create_default_context", None)
    made = make_upstream("a", settings, settings.url, "", context)
    assert vars(made._transport)["_ssl_context"] is context
    await made.aclose()


async def test_timeouts() -> None:
    clocks = {"connect_timeout": 1, "first_byte_timeout": "2s", "idle_timeout": 3, "total_timeout": 4}
    assert make_upstream("a", settings_of(**clocks), URL, "")._timeouts == Timeouts(1.0, 2.0, 3.0, 4.0)
    assert make_upstream("a", settings_of(), URL, "")._timeouts == Timeouts(connect=5.0)
