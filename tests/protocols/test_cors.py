"""What a browser is told of an answer to a page of another origin."""

import re
from pathlib import Path

import pytest

from llmgate.protocols.cors import EXPOSED, VARY, answer_headers, preflight_headers

SDK_HEADERS = (
    b"anthropic-beta,anthropic-dangerous-direct-browser-access,anthropic-version,authorization,content-type,"
    b"x-api-key,x-stainless-arch,x-stainless-lang,x-stainless-os,x-stainless-package-version,x-stainless-retry-count,"
    b"x-stainless-runtime,x-stainless-runtime-version,x-stainless-timeout"
)


def test_the_origin_is_echoed_exactly() -> None:
    headers = dict(answer_headers(b"http://localhost:3000"))
    assert headers[b"access-control-allow-origin"] == b"http://localhost:3000"
    assert b"access-control-allow-credentials" not in headers
    assert VARY == (b"vary", b"Origin")


def test_every_header_of_ours_may_be_read() -> None:
    """Every one that is sent: names in bytes, or as keys of a table."""
    source = "".join(path.read_text() for path in (Path(__file__).parents[2] / "llmgate" / "server").glob("*.py"))
    sent = set(re.findall(r'\(b"(llmgate-[a-z-]+)", ', source)) | set(re.findall(r'"(llmgate-[a-z-]+)"[:\]]', source))
    assert {"llmgate-request-id", "llmgate-code", "llmgate-depth", "llmgate-token-count"} <= sent
    assert {name.encode() for name in sent} - {b"llmgate-client"} <= set(EXPOSED)
    assert dict(answer_headers(b"o"))[b"access-control-expose-headers"].split(b", ") == list(EXPOSED)
    assert b"retry-after" in EXPOSED


def test_the_headers_that_an_sdk_asks_for_may_be_sent() -> None:
    told = dict(preflight_headers({b"access-control-request-headers": SDK_HEADERS}))
    assert told[b"access-control-allow-headers"] == SDK_HEADERS
    assert b"POST" in told[b"access-control-allow-methods"]
    assert int(told[b"access-control-max-age"]) > 0
    assert b"access-control-allow-private-network" not in told


@pytest.mark.parametrize("asked", [None, b"", b"a b", b"a\r\nset-cookie: x", b"a,,b", b"\xff", b"a" * 9000, b"a,"])
def test_what_is_no_list_of_names_is_not_echoed(asked: bytes | None) -> None:
    headers = {} if asked is None else {b"access-control-request-headers": asked}
    assert b"access-control-allow-headers" not in dict(preflight_headers(headers))


@pytest.mark.parametrize(("asked", "told"), [(b"true", b"true"), (b"false", None), (None, None)])
def test_private_network_access(asked: bytes | None, told: bytes | None) -> None:
    headers = {} if asked is None else {b"access-control-request-private-network": asked}
    assert dict(preflight_headers(headers)).get(b"access-control-allow-private-network") == told
