"""What settings may not be together."""

from typing import Any

import pytest

from llmgate.config.checks import find_oddities, find_passed_problems, find_problems
from llmgate.config.listen import Listen, parse_listen
from llmgate.config.settings import Settings


def made(server: dict[str, Any] | None = None, **upstreams: dict[str, Any]) -> Settings:
    tables = {name: {"url": f"http://{name}:8000", "max_concurrent": 1, **table} for name, table in upstreams.items()}
    return Settings.model_validate({"server": server or {}, "upstreams": tables})


def pool(*urls: str, **table: Any) -> dict[str, Any]:
    """An upstream of these endpoints, each with two slots."""
    return {
        "url": "",
        "max_concurrent": "auto",
        "endpoints": [{"url": url, "max_concurrent": 2} for url in urls],
        **table,
    }


def problems(settings: Settings) -> list[str]:
    return [str(problem) for problem in find_problems(settings)]


def oddities(settings: Settings) -> list[str]:
    return [str(problem) for problem in find_oddities(settings)]


def test_ordinary_settings_are_fine() -> None:
    settings = made(
        {"default_upstream": "a"}, a={"models": ["m", "n*"]}, b={"models": ["*"], "aliases": {"fast": "m2"}}
    )
    assert problems(settings) == []
    assert oddities(settings) == []
    assert problems(Settings()) == []


@pytest.mark.parametrize("listen", ["0.0.0.0:80", "[::]:80", "10.0.0.1:80", "gpu.lan:80"])
def test_listening_beyond_loopback_must_be_allowed(listen: str) -> None:
    (text,) = problems(made({"listen": ["127.0.0.1:8080", listen]}))
    assert text.startswith(f"server.listen has {listen}, which others")
    assert "allow_open = true in [server]" in text
    assert "LLMGATE_SERVER__ALLOW_OPEN=true" in text
    assert "keys_file in [server]" in text
    assert problems(made({"listen": ["127.0.0.1:8080", listen], "allow_open": True})) == []
    assert problems(made({"listen": ["127.0.0.1:8080", listen], "keys_file": "/etc/llmgate/keys.toml"})) == []


def test_local_addresses_need_no_leave() -> None:
    assert problems(made({"listen": ["127.0.0.1:1", "[::1]:1", "localhost:2", "unix:/run/x.sock", "fd:3"]})) == []


@pytest.mark.parametrize("address", ["0.0.0.0:80", "[::]:80", "10.0.0.1:80"])
def test_a_passed_socket_beyond_loopback_must_be_allowed(address: str) -> None:
    passed = {"fd:3": parse_listen("127.0.0.1:1"), "fd:4": parse_listen(address)}
    (text,) = map(str, find_passed_problems(made(), passed))
    assert text.startswith(f"socket fd:4 is {address}, which others than this machine may reach")
    assert find_passed_problems(made({"allow_open": True}), passed) == []
    assert find_passed_problems(made({"keys_file": "/etc/llmgate/keys.toml"}), passed) == []
    assert find_passed_problems(made(), {"fd:3": Listen(path="@abstract"), "fd:4": Listen(path="/s")}) == []


def test_an_upstream_that_is_a_passed_socket_is_a_loop() -> None:
    settings = made(None, a={"url": "http://127.0.0.1:9000"}, b=pool("http://h", "http://localhost:9000"))
    found = [str(problem) for problem in find_passed_problems(settings, {"fd:3": parse_listen("127.0.0.1:9000")})]
    assert found == [
        "upstreams.a.url points at llmgate itself (fd:3): requests would go round for ever",
        "upstreams.b.endpoints[1].url points at llmgate itself (fd:3): requests would go round for ever",
    ]
    assert find_passed_problems(settings, {"fd:3": parse_listen("127.0.0.1:9001")}) == []


def test_the_default_upstream_must_exist() -> None:
    assert problems(made({"default_upstream": "c"}, a={}, b={})) == [
        "server.default_upstream must be the name of an upstream; there are: a, b"
    ]
    assert problems(made({"default_upstream": "c"}))[0].endswith("there are: none")


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "http://localhost:8080/llm"])
def test_an_upstream_that_is_llmgate_itself_is_a_loop(url: str) -> None:
    assert problems(made(None, a={"url": url})) == [
        "upstreams.a.url points at llmgate itself (server.listen): requests would go round for ever"
    ]
    assert problems(made({"listen": ["127.0.0.1:8081"]}, a={"url": url})) == []


def test_an_endpoint_that_is_llmgate_itself_is_a_loop() -> None:
    assert problems(made(None, a=pool("http://h", "http://127.0.0.1:8080"))) == [
        "upstreams.a.endpoints[1].url points at llmgate itself (server.listen): requests would go round for ever"
    ]


def test_ordinary_endpoints_are_fine() -> None:
    settings = made(None, a=pool("http://g:1", "http://g:2", "http://g:1/b"), b=pool("http://h", max_concurrent=2))
    assert problems(settings) == []
    assert oddities(settings) == []


def test_there_is_one_url_or_there_are_endpoints() -> None:
    assert problems(made(None, a=pool("http://g", url="http://h"))) == [
        "upstreams.a.url must not be set together with endpoints: one of them says where the servers are"
    ]


def test_endpoints_are_gated() -> None:
    (text,) = problems(made(None, a=pool("http://g", max_concurrent=0)))
    assert text.startswith("upstreams.a.max_concurrent must not be 0 (not gated), since each of the endpoints has")


@pytest.mark.parametrize("again", ["http://g:80", "http://G/", "http://g."])
def test_no_endpoint_may_be_there_twice(again: str) -> None:
    assert problems(made(None, a=pool("http://f", "http://g", "http://h", again))) == [
        "upstreams.a.endpoints[3].url leads where that of endpoints[1] does: leave it out"
    ]
    assert oddities(made(None, a=pool("http://g", again))) == [], "told once"


def test_a_bound_beyond_what_the_endpoints_take_is_told() -> None:
    assert oddities(made(None, a=pool("http://g", "http://h", max_concurrent=4))) == []
    (text,) = oddities(made(None, a=pool("http://g", "http://h", max_concurrent=5)))
    assert text == "upstreams.a.max_concurrent is more than the endpoints take together, so it bounds nothing"
    unknown = pool("http://g", max_concurrent=5)
    unknown["endpoints"].append({"url": "http://h", "max_concurrent": "auto"})
    assert oddities(made(None, a=unknown)) == []


def test_what_is_probably_not_meant_is_told_of_every_endpoint() -> None:
    (text,) = oddities(made(None, a=pool("http://g", "http://h/v1")))
    assert text.startswith("upstreams.a.endpoints[1].url ends with /v1")
    assert oddities(made(None, a=pool("http://g", "https://h", ca_file="/c.pem"))) == []
    (text,) = oddities(made(None, a=pool("http://g", "http://h", ca_file="/c.pem")))
    assert text == "upstreams.a.ca_file is not used, since no URL is https"


def test_an_endpoint_that_another_upstream_has_too_is_told() -> None:
    (text,) = oddities(made(None, a={"url": "http://g"}, b=pool("http://h", "http://g")))
    assert text.startswith("upstreams.b.endpoints[1].url leads where that of a does: upstreams a and b have the same")
    (text,) = oddities(made(None, a=pool("http://h", "http://g"), b={"url": "http://g"}))
    assert text.startswith("upstreams.b.url leads where that of a does")


def test_there_can_be_one_key() -> None:
    (text,) = problems(made(None, a={"api_key_env": "K", "api_key_file": "/k"}))
    assert text.startswith("upstreams.a.api_key_file must not be set together with api_key_env")


@pytest.mark.parametrize(
    ("one", "other", "key"),
    [
        ({"models": ["m"]}, {"models": ["n", "m"]}, "models"),
        ({"models": ["m"]}, {"aliases": {"m": "x"}}, "aliases"),
        ({"aliases": {"m": "x"}}, {"models": ["m"]}, "models"),
        ({"aliases": {"m": "x"}}, {"aliases": {"m": "x"}}, "aliases"),
        ({"models": ["m*"]}, {"models": ["m*"]}, "models"),
    ],
)
def test_a_name_that_two_upstreams_have_is_told_with_both(one: Any, other: Any, key: str) -> None:
    name = "m*" if one.get("models") == ["m*"] else "m"
    assert problems(made(None, a=one, b=other)) == [f'upstreams.b.{key} has "{name}", which upstreams.a has too']


def test_one_upstream_may_have_an_alias_for_its_own_model() -> None:
    assert problems(made(None, a={"models": ["m"], "aliases": {"m": "m", "fast": "m"}})) == []


def test_all_problems_are_told() -> None:
    settings = made({"listen": ["0.0.0.0:80"], "default_upstream": "x"}, a={"models": ["m"]}, b={"models": ["m"]})
    assert len(problems(settings)) == 3


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"forward_auth": True, "api_key_env": "K"}, "forward_auth"),
        ({"headers": {"Authorization": "x"}, "api_key_file": "/k"}, "headers"),
        ({"headers": {"x-api-key": "x"}, "api_key_env": "K"}, "headers"),
        ({"url": "http://h/v1"}, "url"),
        ({"ca_file": "/c.pem"}, "ca_file"),
    ],
)
def test_what_is_probably_not_meant_is_told(table: Any, key: str) -> None:
    (text,) = oddities(made(None, a=table))
    assert text.startswith(f"upstreams.a.{key} ")
    assert problems(made(None, a=table)) == []


@pytest.mark.parametrize(
    "table", [{"forward_auth": True}, {"headers": {"x": "y"}, "api_key_env": "K"}, {"url": "http://h/v12"}]
)
def test_what_is_probably_meant_is_not(table: Any) -> None:
    assert oddities(made(None, a=table)) == []
    assert oddities(made(None, a={"url": "https://h", "ca_file": "/c.pem"})) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://h:8000", "http://h:8000"),
        ("http://h", "http://H:80/"),
        ("https://h/base", "https://h:443/base/"),
        ("http://localhost:8000", "http://127.0.0.1:8000"),
    ],
)
def test_two_upstreams_that_are_one_server_are_told(one: str, other: str) -> None:
    settings = made(None, a={"url": one}, b={"url": other}, c={})
    assert problems(settings) == []
    (text,) = oddities(settings)
    assert text == (
        "upstreams.b.url leads where that of a does: upstreams a and b have the same server, "
        "each has its own queue, so together they may exceed its slots"
    )


@pytest.mark.parametrize("other", ["http://h:8001", "http://i:8000", "http://h:8000/b", "https://h:8001"])
def test_two_servers_are_two(other: str) -> None:
    assert oddities(made(None, a={"url": "http://h:8000"}, b={"url": other})) == []


def test_a_url_with_v1_is_told_with_where_requests_would_go() -> None:
    (text,) = oddities(made(None, a={"url": "http://h/v1"}))
    assert "requests go to .../v1/v1/messages" in text


def test_a_group_needs_a_mode_that_lets_it_in() -> None:
    def admin(**keys: Any) -> list[str]:
        return problems(Settings.model_validate({"admin": keys}))

    assert admin(group="gpu") == ['admin.group is let in only with mode = "0660" in [admin]']
    assert admin(group="gpu", mode="0660") == []
    assert admin(mode="0660") == []


@pytest.mark.parametrize(("given", "other"), [("tls_cert", "tls_key"), ("tls_key", "tls_cert")])
def test_a_certificate_needs_its_key(given: str, other: str) -> None:
    (text,) = problems(made({given: "/etc/front.pem"}))
    assert text.startswith(f"server.{given} needs {other} too")
    assert problems(made({given: "/etc/front.pem", other: "/etc/front.pem"})) == []


def test_a_certificate_for_nobody_is_told() -> None:
    both = {"tls_cert": "/c", "tls_key": "/k"}
    (text,) = oddities(made({"listen": ["unix:/run/a.sock"], **both}))
    assert text.startswith("server.tls_cert is not used")
    for listen in ("127.0.0.1:8080", "fd:3"):
        assert oddities(made({"listen": ["unix:/run/a.sock", listen], **both})) == []
