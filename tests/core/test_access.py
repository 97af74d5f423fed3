"""Who may come in, by the headers alone: key, Host, Origin, and who it is."""

import hashlib
import ipaddress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from llmgate.core.access import ANYBODY, Access, Asked, Rules, check
from llmgate.core.keys import ClientKey, ClientKeys
from llmgate.errors import HostNotAllowed, NotAllowed, OriginNotAllowed, Unauthorized

LAPTOP = ClientKey(name="laptop", digest=hashlib.sha256(b"good-key").digest())
OFF = ClientKey(name="off", digest=hashlib.sha256(b"off-key").digest(), disabled=True)
KEYS = ClientKeys([LAPTOP, OFF])
NO_KEYS = ClientKeys()
ALLOWED = b"https://chat.example.org"


def asked(method: str = "POST", path: str = "/v1/messages", **headers: bytes) -> Asked:
    named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return Asked(
        method=method, path=path, headers={b"host": b"127.0.0.1:8080", **named}, address="127.0.0.1", port=5000
    )


def rules(**fields: Any) -> Rules:
    return Rules(**{"keys": NO_KEYS, "open_paths": frozenset({"/healthz"}), "origins": frozenset({ALLOWED}), **fields})


def verdict(request: Asked, **fields: Any) -> str:
    """ "in", or the error's code."""
    try:
        check(request, rules(**fields))
    except NotAllowed as error:
        return error.code
    return "in"


# ---- keys


@pytest.mark.parametrize(
    "headers",
    [
        {"x_api_key": b"good-key"},
        {"authorization": b"Bearer good-key"},
        {"authorization": b"bearer   good-key "},
        {"x_api_key": b" good-key "},
        {"authorization": b"Bearer good-key", "x_api_key": b"good-key"},
        {"authorization": b"Bearer good-key", "x_api_key": b""},
        {"authorization": b"", "x_api_key": b"good-key"},
        {"authorization": b"Bearer ", "x_api_key": b"good-key"},
    ],
)
def test_a_key_lets_in(headers: dict[str, bytes]) -> None:
    assert check(asked(**headers), rules(keys=KEYS)).key is LAPTOP


NO_KEY: list[dict[str, bytes]] = [
    {},
    {"x_api_key": b""},
    {"x_api_key": b"bad-key"},
    {"x_api_key": b"off-key"},
    {"x_api_key": b"good-key, good-key"},
    {"x_api_key": b"good-keyx"},
    {"x_api_key": b"good-ke"},
    {"x_api_key": LAPTOP.digest},
    {"x_api_key": LAPTOP.digest.hex().encode()},
    {"authorization": b"good-key"},
    {"authorization": b"Bearer"},
    {"authorization": b"Bearer bad-key"},
    {"authorization": b"Basic good-key"},
    {"authorization": b"Bearer good-key, Bearer good-key"},
    {"authorization": b"Bearer good-key", "x_api_key": b"bad-key"},
    {"authorization": b"Bearer bad-key", "x_api_key": b"good-key"},
    {"authorization": b"Basic abc", "x_api_key": b"good-key"},
    {"authorization": b"", "x_api_key": b"bad-key"},
    {"authorization": b"", "x_api_key": b""},
    {"authorization": b"good-key", "x_api_key": b"good-key"},
    {"cookie": b"good-key", "proxy_authorization": b"Bearer good-key"},
]


@pytest.mark.parametrize("headers", NO_KEY)
def test_f66_whatever_is_wrong_with_a_key_the_refusal_is_the_same(headers: dict[str, bytes]) -> None:
    with pytest.raises(Unauthorized) as refused:
        check(asked(**headers), rules(keys=KEYS))
    assert str(refused.value) == (
        "llmgate: a valid key is needed, as x-api-key or Authorization: Bearer (UNAUTHORIZED)"
    )


def test_the_key_is_asked_first() -> None:
    evil = {"host": b"evil.example", "origin": b"http://evil.example"}
    assert verdict(asked(**evil), keys=KEYS) == "UNAUTHORIZED"
    assert verdict(asked(**evil, x_api_key=b"good-key"), keys=KEYS) == "HOST_NOT_ALLOWED"
    assert verdict(asked(origin=b"http://evil.example", x_api_key=b"good-key"), keys=KEYS) == "ORIGIN_NOT_ALLOWED"


def test_open_paths_ask_for_none_but_look_at_the_rest() -> None:
    assert verdict(asked("GET", "/healthz"), keys=KEYS) == "in"
    assert verdict(asked("GET", "/healthz", x_api_key=b"bad"), keys=KEYS) == "in"
    assert verdict(asked("GET", "/healthz", host=b"evil.example"), keys=KEYS) == "HOST_NOT_ALLOWED"
    assert verdict(asked("GET", "/healthz/"), keys=KEYS) == "UNAUTHORIZED"


def test_without_keys_nobody_is_asked() -> None:
    found = check(asked(x_api_key=b"whatever"), rules())
    assert (found.key, found.key_name) == (None, "")
    assert check(asked(x_api_key=b"good-key"), rules(keys=KEYS)).key_name == "laptop"
    assert Access() == ANYBODY


# ---- Host: DNS rebinding

LOCAL = [
    *(b"localhost", b"localhost:8080", b"LOCALHOST", b"localhost.", b"gate.localhost:1", b"127.0.0.1", b"127.0.0.1:80"),
    *(b"127.9.9.9", b"[::1]", b"[::1]:8080", b"10.0.0.7:8080", b"[fe80::1]:1", b"0.0.0.0:8080", b"127.0.0.1:"),
]
FOREIGN = [
    *(b"a" * 400, b"localhost" + b" " * 400),
    *(b"evil.example", b"evil.example:8080", b"localhost.evil.example", b"127.0.0.1.evil.example", b"xlocalhost", b""),
    *(b"evil.example, localhost", b"localhost, evil.example", b"localhost@evil.example", b"user@localhost", b"gpu"),
    *(b"127.1", b"0x7f.0.0.1", b"2130706433", b"[::1", b"[localhost]x", b"localhost:80:80", b"localhost/", b"a b"),
    *(b"\xff", b"localhost\x00", b"[::1]evil.example", b"1.2.3.4.5", b":8080", b"localhost..", b"l\xc3\xb6calhost"),
]


@pytest.mark.parametrize("host", LOCAL)
def test_names_of_this_machine_and_addresses_pass(host: bytes) -> None:
    assert verdict(asked(host=host)) == "in"


@pytest.mark.parametrize("host", FOREIGN)
def test_other_names_are_refused_and_the_setting_is_named(host: bytes) -> None:
    with pytest.raises(HostNotAllowed, match="allowed_hosts") as refused:
        check(asked(host=host), rules())
    assert refused.value.status == 421
    assert "evil" not in str(refused.value)


@pytest.mark.parametrize(
    ("allowed", "host", "expected"),
    [
        (("gpu",), b"gpu:8080", "in"),
        (("gpu",), b"GPU.", "in"),
        (("gpu",), b"gpu.lan", "HOST_NOT_ALLOWED"),
        (("*.lan",), b"gpu.lan:1", "in"),
        (("*.lan",), b"a.b.lan", "in"),
        (("*.lan",), b"lan", "HOST_NOT_ALLOWED"),
        (("*.lan",), b"xlan", "HOST_NOT_ALLOWED"),
        (("*",), b"evil.example", "in"),
        (("*",), b"", "HOST_NOT_ALLOWED"),
    ],
)
def test_allowed_names(allowed: tuple[str, ...], host: bytes, expected: str) -> None:
    assert verdict(asked(host=host), allowed_hosts=allowed) == expected


def test_no_browser_reaches_a_unix_socket_or_leaves_out_the_host() -> None:
    over_unix = Asked(method="POST", path="/", headers={b"host": b"evil.example"}, unix=True)
    assert check(over_unix, rules()).peer == "unix"
    assert verdict(Asked(method="GET", path="/", headers={}, address="10.0.0.1")) == "in"
    gone = Asked(method="POST", path="/", headers={b"host": b"evil.example"})
    assert verdict(gone) == "HOST_NOT_ALLOWED"


# ---- Origin: pages of other sites (F63)

EVIL = [b"http://evil.example", b"null", b"", b"https://chat.example.org.evil.example", b"https://chat.example.org:444"]
EVIL += [b"http://chat.example.org", b"HTTPS://chat.example.org", b"https://chat.example.org/", b"file://", b"*"]
EVIL += [b"http://127.0.0.1:8081", b"http://localhost:8080", b"https://127.0.0.1", b"ftp://127.0.0.1:8080"]
EVIL += [b"http://127.0.0.1:8080, http://evil.example", b"http://a@127.0.0.1:8080", b"127.0.0.1:8080", b"\xff"]


@pytest.mark.parametrize("origin", EVIL)
@pytest.mark.parametrize("kind", [b"text/plain", b"application/json"])
@pytest.mark.parametrize("site", [None, b"cross-site", b"same-site", b"same-origin", b"none"])
def test_f63_pages_of_other_origins_are_refused(origin: bytes, kind: bytes, site: bytes | None) -> None:
    headers = {"origin": origin, "content_type": kind} | ({"sec_fetch_site": site} if site else {})
    with pytest.raises(OriginNotAllowed, match=r"origins in \[server.cors\]") as refused:
        check(asked(**headers), rules())
    assert refused.value.status == 403
    assert verdict(asked("GET", "/", **headers)) == "ORIGIN_NOT_ALLOWED"
    preflight = {**headers, "access_control_request_method": b"POST"}
    assert verdict(asked("OPTIONS", **preflight)) == "ORIGIN_NOT_ALLOWED"


@pytest.mark.parametrize(
    ("site", "expected"),
    [
        (b"cross-site", "ORIGIN_NOT_ALLOWED"),
        (b"CROSS-SITE", "ORIGIN_NOT_ALLOWED"),
        (b"same-site", "ORIGIN_NOT_ALLOWED"),
        (b"", "ORIGIN_NOT_ALLOWED"),
        (b"none, cross-site", "ORIGIN_NOT_ALLOWED"),
        (b"same-origin", "in"),
        (b"none", "in"),
    ],
)
def test_f63_without_origin_the_browser_tells_the_site(site: bytes, expected: str) -> None:
    assert verdict(asked("GET", "/v1/models", sec_fetch_site=site)) == expected


def test_f63_programs_send_neither() -> None:
    assert verdict(asked()) == "in"


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        (b"127.0.0.1:8080", b"http://127.0.0.1:8080"),
        (b"[::1]:8080", b"http://[::1]:8080"),
        (b"localhost", b"http://localhost"),
        (b"localhost:80", b"http://localhost"),
        (b"gpu", b"https://gpu"),
        (b"gpu:443", b"https://gpu"),
        (b"GPU:8080", b"http://gpu:8080"),
    ],
)
def test_pages_of_our_own_origin_pass(host: bytes, origin: bytes) -> None:
    """Of a web page of a server behind /upstream/NAME/, or of a proxy that serves us beside its pages."""
    assert verdict(asked(host=host, origin=origin), allowed_hosts=("gpu",)) == "in"


def test_f63_a_rebound_name_has_our_origin_and_is_refused_by_its_name() -> None:
    rebound = {"host": b"evil.example:8080", "origin": b"http://evil.example:8080", "sec_fetch_site": b"same-origin"}
    assert verdict(asked(**rebound)) == "HOST_NOT_ALLOWED"


def test_f63_an_allowed_origin_passes_and_asks_beforehand_without_a_key() -> None:
    assert verdict(asked(origin=ALLOWED, sec_fetch_site=b"cross-site")) == "in"
    beforehand = asked("OPTIONS", origin=ALLOWED, access_control_request_method=b"POST")
    assert check(beforehand, rules(keys=KEYS)).is_preflight
    assert verdict(asked("OPTIONS", origin=ALLOWED), keys=KEYS) == "UNAUTHORIZED"
    assert verdict(asked("OPTIONS", access_control_request_method=b"POST"), keys=KEYS) == "UNAUTHORIZED"
    assert verdict(asked("POST", origin=ALLOWED, access_control_request_method=b"POST"), keys=KEYS) == "UNAUTHORIZED"


# ---- who it is

NETWORKS = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("127.0.0.1"), ipaddress.ip_network("fd00::/8"))


@pytest.mark.parametrize(
    ("address", "told", "peer"),
    [
        ("10.0.0.1", b"203.0.113.9", "203.0.113.9"),
        ("10.0.0.1", b"6.6.6.6, 203.0.113.9", "203.0.113.9"),
        ("10.0.0.1", b"203.0.113.9, 10.0.0.2", "203.0.113.9"),
        ("10.0.0.1", b"10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", b"unknown, 10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", b"", "10.0.0.1:5"),
        ("10.0.0.1", b"nonsense", "10.0.0.1:5"),
        ("::ffff:10.0.0.1", b"2001:db8::1", "2001:db8::1"),
        ("fd00::1", b"2001:db8::1", "2001:db8::1"),
        ("192.0.2.1", b"203.0.113.9", "192.0.2.1:5"),
        ("testclient", b"203.0.113.9", "testclient:5"),
        ("10.0.0.1", b"\x1b[31m, \xff", "10.0.0.1:5"),
    ],
)
def test_a_trusted_proxy_tells_who_asks(address: str, told: bytes, peer: str) -> None:
    request = Asked(method="GET", path="/", headers={b"x-forwarded-for": told}, address=address, port=5)
    assert check(request, rules(trusted_proxies=NETWORKS)).peer == peer


def test_from_anybody_else_it_counts_for_nothing() -> None:
    request = asked(x_forwarded_for=b"203.0.113.9")
    assert check(request, rules()).peer == "127.0.0.1:5000"
    over_unix = Asked(method="GET", path="/", headers={b"x-forwarded-for": b"203.0.113.9"}, unix=True)
    assert check(over_unix, rules(trusted_proxies=NETWORKS)).peer == "unix"


# ---- whatever comes

WORDS = st.sampled_from([*LOCAL, *FOREIGN, *EVIL, ALLOWED, b"good-key", b"Bearer good-key", b"cross-site", b"POST"])
VALUES = st.one_of(WORDS, st.binary(max_size=40), st.lists(WORDS, max_size=3).map(b", ".join))
NAMES = st.sampled_from(
    [
        *(b"host", b"origin", b"sec-fetch-site", b"authorization", b"x-api-key", b"x-forwarded-for"),
        *(b"access-control-request-method", b"access-control-request-headers", b"content-type"),
    ]
)


@given(
    headers=st.dictionaries(NAMES, VALUES),
    method=st.sampled_from(["GET", "POST", "OPTIONS"]),
    path=st.sampled_from(["/v1/messages", "/healthz", "/"]),
    keys=st.sampled_from([KEYS, NO_KEYS]),
    unix=st.booleans(),
)
@example(headers={b"origin": b"null"}, method="POST", path="/", keys=NO_KEYS, unix=False)
def test_whatever_comes_is_refused_or_has_a_reason_to_pass(
    headers: dict[bytes, bytes], method: str, path: str, keys: ClientKeys, unix: bool
) -> None:
    request = Asked(method=method, path=path, headers=headers, address="" if unix else "10.0.0.1", port=5, unix=unix)
    told = verdict(request, keys=keys, trusted_proxies=NETWORKS)
    assert told in ("in", "UNAUTHORIZED", "HOST_NOT_ALLOWED", "ORIGIN_NOT_ALLOWED")
    if told != "in":
        return
    found = check(request, rules(keys=keys, trusted_proxies=NETWORKS))
    brought = headers.get(b"authorization", b"") + headers.get(b"x-api-key", b"")
    assert not keys or found.is_preflight or path == "/healthz" or b"good-key" in brought
    assert unix or b"host" not in headers or b"evil" not in headers[b"host"].lower()
    origin = headers.get(b"origin")
    host = headers.get(b"host", b"")
    assert origin in (None, ALLOWED) or (origin.split(b"://")[1].split(b":")[0].lower() in host.lower())
    assert found.peer.isprintable()
    assert len(found.peer) < 64
