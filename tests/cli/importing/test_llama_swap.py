"""llama-swap's models as settings of ours."""

from typing import Any

import pytest
import yaml

from llmgate.cli.importing.llama_swap import expand, read
from tests.cli.importing.test_draft import loaded

TEXT = """
startPort: 9000
macros: {host: 127.0.0.1, where: "${host}"}
models:
  b: {cmd: "llama-server --port ${PORT}", ttl: 60, aliases: [bb, {id: bbb, name: B}], concurrencyLimit: 3}
  a:
    {cmd: "x", proxy: "http://${where}:8080", useModelName: real/a, timeouts: {connect: 30, responseHeader: 0}}
  c: {cmd: "y ${PORT}", proxy: "http://far:${PORT}", macros: {host: other}}
peers:
  peer: {proxy: "https://peer.example", models: [m1], apiKey: "${env.PEER_KEY}", priority: 2}
  secret: {proxy: "https://secret.example", models: [m2], apiKey: hunter2}
apiKeys: [hunter2]
"""


def test_models_become_upstreams() -> None:
    text = read(yaml.safe_load(TEXT), {}).text()
    upstreams = loaded(text).settings.upstreams
    assert {name: upstream.url for name, upstream in upstreams.items()} == {
        "a": "http://127.0.0.1:8080",
        "b": "http://127.0.0.1:9000",
        "c": "http://far:9001",
        "peer": "https://peer.example",
        "secret": "https://secret.example",
    }
    assert (upstreams["a"].models, dict(upstreams["a"].aliases)) == (("real/a",), {"a": "real/a"})
    assert (upstreams["a"].connect_timeout, upstreams["a"].first_byte_timeout) == (30, None)
    assert (upstreams["b"].max_concurrent, dict(upstreams["b"].aliases)) == (3, {"bb": "b", "bbb": "b"})
    assert upstreams["peer"].models == ("m1",)


def test_what_is_left_out_is_told_and_no_secret_is() -> None:
    text = read(yaml.safe_load(TEXT), {}).text()
    assert "llmgate starts and stops no servers (cmd, ttl)" in text
    for remark in ("apiKeys", "of b: cmd, ttl", "of peer: priority", "the key of secret: put it into a file"):
        assert f"# NOT CARRIED OVER: {remark}" in text
    assert "hunter2" not in text
    assert '#api_key_env = "PEER_KEY"' in text


def test_macros_are_expanded_and_never_without_end() -> None:
    assert expand("${a}-${env.X}-${none}", {"a": "${b}", "b": "1"}, {"X": "2"}) == "1-2-${none}"
    assert expand("${a}", {"a": "${a}"}, {}) == "${a}"


@pytest.mark.parametrize("plain", [{}, {"models": []}, {"models": {"a": None}}, {"peers": {"p": {}}}])
def test_nothing_to_read_is_told(plain: Any) -> None:
    assert "No server was found" in read(plain, {}).text()
