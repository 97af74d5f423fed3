"""One path, for a Prometheus on an address of its own: without a key, under names that are ours, and not for pages."""

import hashlib

import httpx
import pytest

from llmgate.config.load import load
from llmgate.core.keys import ClientKey, ClientKeys
from llmgate.server.door import Door, metrics_rules
from llmgate.server.metrics_app import MetricsApp
from tests.server.house import House


async def ask(house: House, path: str, method: str = "GET", **headers: str) -> httpx.Response:
    app = MetricsApp(lambda: ("text/plain; version=0.0.4", b"x 1\n"), Door(house.services, metrics_rules))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:9464") as client:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await client.request(method, path, headers=named)


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "/metrics", 200, b"x 1\n"),
        ("HEAD", "/metrics", 200, b""),
        ("GET", "/", 404, b"llmgate: metrics are at /metrics\n"),
        ("POST", "/metrics", 405, b"llmgate: this path takes GET only\n"),
    ],
)
async def test_its_answers(house: House, method: str, path: str, status: int, body: bytes) -> None:
    house.services.keys = ClientKeys([ClientKey(name="a", digest=hashlib.sha256(b"secret").digest())])
    answer = await ask(house, path, method)
    assert answer.status_code == status
    assert answer.content == body
    if status == 200:
        assert answer.headers["content-type"] == "text/plain; version=0.0.4"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("10.0.0.7:9464", 200),
        ("[::1]:9464", 200),
        ("localhost", 200),
        ("gpu.lan:9464", 200),
        ("metrics.lan:9464", 200),
        ("evil.example:9464", 421),
        ("metrics.lan.evil.example", 421),
    ],
)
async def test_names_are_those_of_the_clients_ports_and_its_own(house: House, host: str, status: int) -> None:
    """DNS rebinding: a page's own name may lead here."""
    told = {"server": {"allowed_hosts": ["gpu.lan"]}, "metrics": {"listen": "metrics.lan:9464"}}
    one = {"a": {"url": "http://127.0.0.1:1", "max_concurrent": 1}}
    house.services.settings = load(None, environ={}, overrides={**told, "upstreams": one}).settings
    answer = await ask(house, "/metrics", host=host)
    assert answer.status_code == status
    assert (b"allowed_hosts" in answer.content) == (status == 421)


async def test_pages_get_nothing(house: House) -> None:
    house.services.settings = load(None, environ={}, overrides={"metrics": {"listen": "127.0.0.1:9464"}}).settings
    assert (await ask(house, "/metrics", origin="http://evil.example")).status_code == 403
    assert (await ask(house, "/metrics", sec_fetch_site="cross-site")).status_code == 403
