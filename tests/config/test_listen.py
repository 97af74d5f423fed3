"""Addresses to listen on, and upstreams that point back at them."""

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.config.listen import UNIX_PATH_LIMIT, Listen, check_socket_path, is_loopback, parse_listen, points_at
from llmgate.config.units import BadValue


@pytest.mark.parametrize(
    ("text", "listen", "local"),
    [
        ("127.0.0.1:8080", Listen("127.0.0.1", 8080), True),
        ("LocalHost:0", Listen("localhost", 0), True),
        ("127.9.9.9:1", Listen("127.9.9.9", 1), True),
        ("[::1]:8080", Listen("::1", 8080), True),
        ("[0:0:0:0:0:0:0:1]:8080", Listen("::1", 8080), True),
        ("[::ffff:127.0.0.1]:80", Listen("::ffff:7f00:1", 80), True),
        ("0.0.0.0:65535", Listen("0.0.0.0", 65535), False),
        ("[::]:8080", Listen("::", 8080), False),
        ("gpu-box.lan:8080", Listen("gpu-box.lan", 8080), False),
        ("unix:/run/llmgate/http.sock", Listen(path="/run/llmgate/http.sock"), True),
    ],
)
def test_addresses(text: str, listen: Listen, local: bool) -> None:
    parsed = parse_listen(text)
    assert (parsed.host, parsed.port, parsed.path) == (listen.host, listen.port, listen.path)
    assert parsed.is_local is local
    assert parse_listen(str(parsed)) == parsed


@pytest.mark.parametrize(
    "text",
    [
        *("", "8080", ":8080", "localhost", "localhost:", "localhost:x", "localhost:65536", "localhost:-1", "::1:8080"),
        *("[::1]", "[::g]:80", "[127.0.0.1]:80", "300.0.0.1:80", "1.2.3:80", "a b:80", "http://a:80", "*:80", "-a:80"),
        *("fd:", "fd:2", "fd:-3", "fd:x", "fd:3.0", "fd: 3", "fd:٣", "fd:99999999"),
        *("unix:", "unix:http.sock", "unix:/a\0b", "unix:/" + "a" * UNIX_PATH_LIMIT, "localhost:８０"),
    ],
    ids=repr,
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadValue, match="must be"):
        parse_listen(text)


@pytest.mark.parametrize("text", ["fd:3", "fd:03", "fd:1048576"])
def test_a_passed_socket_is_named_by_its_number(text: str) -> None:
    listen = parse_listen(text)
    assert listen == Listen(fd=int(text.removeprefix("fd:")))
    assert parse_listen(str(listen)) == listen
    assert not listen.is_local, "nobody knows before it is here"


def test_a_port_alone_is_answered_with_what_to_write() -> None:
    with pytest.raises(BadValue, match=r'"0\.0\.0\.0:8080" or "\[::\]:8080"'):
        parse_listen(":8080")


@given(st.ip_addresses(), st.integers(0, 65535))
def test_any_ip_address_is_read_back(address: object, port: int) -> None:
    text = f"[{address}]:{port}" if ":" in str(address) else f"{address}:{port}"
    assert str(parse_listen(text)) == text or "." in text
    assert parse_listen(text).port == port


def test_a_socket_path_counts_in_bytes() -> None:
    assert check_socket_path("/" + "a" * (UNIX_PATH_LIMIT - 1))
    with pytest.raises(BadValue):
        check_socket_path("/" + "é" * (UNIX_PATH_LIMIT // 2 + 1))


@pytest.mark.parametrize(("host", "loopback"), [("localhost", True), ("::1", True), ("localhost.evil.example", False)])
def test_only_localhost_and_loopback_addresses_are_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("url", "listen", "loops"),
    [
        ("http://127.0.0.1:8080", "127.0.0.1:8080", True),
        ("http://127.0.0.1:8080/llm", "127.0.0.1:8080", True),
        ("http://LOCALHOST:8080", "127.0.0.1:8080", True),
        ("http://localhost:8080", "[::1]:8080", True),
        ("http://127.0.0.1:8080", "localhost:8080", True),
        ("http://127.0.0.1:8080", "0.0.0.0:8080", True),
        ("http://localhost:8080", "[::]:8080", True),
        ("http://127.0.0.1:8080", "[::]:8080", True),
        ("http://0.0.0.0:8080", "127.0.0.1:8080", True),
        ("http://0.0.0.0:8080", "0.0.0.0:8080", True),
        ("http://[::ffff:127.0.0.1]:8080", "127.0.0.1:8080", True),
        ("http://gpu.lan:8080", "gpu.lan:8080", True),
        ("http://127.0.0.1", "127.0.0.1:80", True),
        ("https://127.0.0.1", "127.0.0.1:443", True),
        ("http://127.0.0.1:8000", "127.0.0.1:8080", False),
        ("http://127.0.0.2:8080", "127.0.0.1:8080", False),
        ("http://[::1]:8080", "127.0.0.1:8080", False),
        ("http://[::1]:8080", "0.0.0.0:8080", False),
        ("http://gpu.lan:8080", "127.0.0.1:8080", False),
        ("http://gpu.lan:8080", "0.0.0.0:8080", False),
        ("http://10.0.0.7:8080", "0.0.0.0:8080", False),
        ("http://127.0.0.1:8080", "127.0.0.1:0", False),
        ("http://127.0.0.1", "unix:/run/llmgate/http.sock", False),
        ("http://fd:3", "fd:3", False),
    ],
)
def test_a_url_that_leads_back_is_found(url: str, listen: str, loops: bool) -> None:
    assert points_at(urlsplit(url), parse_listen(listen)) is loops
