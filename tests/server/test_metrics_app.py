"""One path, for a Prometheus on an address of its own."""

import httpx
import pytest

from llmgate.server.metrics_app import MetricsApp


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "/metrics", 200, b"x 1\n"),
        ("HEAD", "/metrics", 200, b""),
        ("GET", "/", 404, b"llmgate: metrics are at /metrics\n"),
        ("POST", "/metrics", 405, b"llmgate: this path takes GET only\n"),
    ],
)
async def test_its_answers(method: str, path: str, status: int, body: bytes) -> None:
    app = MetricsApp(lambda: ("text/plain; version=0.0.4", b"x 1\n"))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
        answer = await client.request(method, path)
    assert answer.status_code == status
    assert answer.content == body
    if status == 200:
        assert answer.headers["content-type"] == "text/plain; version=0.0.4"
