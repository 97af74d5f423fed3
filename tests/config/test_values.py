"""What single values may be."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from llmgate.config import values
from llmgate.config.units import BadValue

Parse = Callable[[object], object]
ALLOWED: list[tuple[Parse, object, object]] = [
    (values.parse_text, "", ""),
    (values.parse_clock, None, None),
    (values.parse_clock, 0, None),
    (values.parse_clock, "0s", None),
    (values.parse_clock, "5s", 5.0),
    (values.parse_heartbeat, "10ms", 0.01),
    (values.parse_retry_after, 1, 1.0),
    (values.parse_count, 0, 0),
    (values.parse_positive_count, 1, 1),
    (values.parse_max_concurrent, "auto", "auto"),
    (values.parse_max_concurrent, 0, 0),
    (values.parse_max_concurrent, 8, 8),
    (values.parse_endpoint_max_concurrent, "auto", "auto"),
    (values.parse_endpoint_max_concurrent, 1, 1),
    (values.parse_endpoints, None, None),
    (values.parse_endpoints, [{"url": "http://h"}], [{"url": "http://h"}]),
    (values.parse_max_queued, None, None),
    *((values.parse_max_queued, word, None) for word in ("unlimited", "none", "null", "None")),
    *((values.parse_clock, word, None) for word in ("unlimited", "none", "null", "None")),
    (values.parse_max_queued, 0, 0),
    (values.parse_listens, ["LOCALHOST:1", "unix:/a"], ("localhost:1", "unix:/a")),
    (values.parse_prefixes, ["/llm", ""], ("/llm", "")),
    (values.parse_prefixes, ["/a/b.c"], ("/a/b.c",)),
    (values.parse_header_names, ["X-A", "session_id"], ("x-a", "session_id")),
    (values.parse_header_names, [], ()),
    (values.parse_models, ["qwen2.5:3b-instruct", "llama*", "org/name"], ("qwen2.5:3b-instruct", "llama*", "org/name")),
    (values.parse_aliases, {"fast": "qwen"}, {"fast": "qwen"}),
    (values.parse_headers, {"X-Team": "a b\tc"}, {"x-team": "a b\tc"}),
    (values.parse_headers, {"x": ""}, {"x": ""}),
    (values.parse_url, "http://127.0.0.1:8000", "http://127.0.0.1:8000"),
    (values.parse_url, "https://host/base/", "https://host/base"),
    (values.parse_url, "http://[::1]:8000", "http://[::1]:8000"),
    (values.parse_variable, "", ""),
    (values.parse_variable, "OPENAI_API_KEY", "OPENAI_API_KEY"),
    (values.parse_optional_path, "", None),
    (values.parse_optional_path, None, None),
    (values.parse_optional_path, "/a/b", Path("/a/b")),
    (values.parse_socket, "", None),
    (values.parse_socket, "/run/a.sock", Path("/run/a.sock")),
]
REFUSED: list[tuple[Parse, object]] = [
    *((values.parse_text, value) for value in (1, None, ["a"])),
    *((values.parse_clock, value) for value in (-1, "x", True)),
    *((values.parse_heartbeat, value) for value in (0, "9ms")),
    *((values.parse_retry_after, value) for value in (0, "999ms")),
    *((values.parse_count, value) for value in (-1, 1.0, True, "1", None, 1 << 31)),
    *((values.parse_positive_count, value) for value in (0, -1, 1.0, True, "1", None, 1 << 31)),
    *((values.parse_max_concurrent, value) for value in (-1, "AUTO", "1", True, None, 1.5)),
    *((values.parse_endpoint_max_concurrent, value) for value in (0, -1, "1", True, None, 1.5, 1 << 31)),
    *((values.parse_endpoints, value) for value in ([], "http://h", ["http://h"], {"url": "http://h"}, 1)),
    *((values.parse_max_queued, value) for value in (-1, "no", "", "3", True)),
    *((values.parse_listens, value) for value in ([], "a:1", [1], ["a:1", "A:1"], ["a"], None)),
    *(
        (values.parse_prefixes, value)
        for value in ([], ["/"], ["llm"], ["/llm/"], ["/a//b"], ["/a b"], ["/a?b"], [""] * 2)
    ),
    *((values.parse_header_names, value) for value in ([""], ["a b"], ["a:"], ["é"], ["X", "x"], "x")),
    *((values.parse_models, value) for value in ([""], [" a"], ["a\n"], ["a", "a"], [1], "a", {"a": "b"})),
    *((values.parse_aliases, value) for value in ({"a": 1}, {"": "b"}, {"a": ""}, {"a": " b"}, ["a"], "a")),
    *(
        (values.parse_headers, {name: "x"})
        for name in ("", "a b", "Host", "content-length", "Connection", "TE", "upgrade")
    ),
    *(
        (values.parse_headers, {name: "x"})
        for name in ("Transfer-Encoding", "keep-alive", "Trailer", "accept-encoding")
    ),
    *(
        (values.parse_headers, {"x": value})
        for value in ("a\r\nb: c", "a\nb", "a\rb", "a\0b", " a", "a ", "\u20ac", "\xe9", 1, None)
    ),
    *((values.parse_headers, value) for value in ({"X": "a", "x": "b"}, ["x"], "x")),
    *(
        (values.parse_url, f"http://{rest}")
        for rest in ("", "/path", ":80", "h:x", "h:99999", "h:0", "[::1", "a b", "h\n")
    ),
    *((values.parse_url, f"http://h{rest}") for rest in ("?", "?a=b", "#", "#a")),
    *(
        (values.parse_url, value)
        for value in ("h:80", "//h", "ftp://h", "unix:/a", 1, None, "http://u:p@h", "http://u@h")
    ),
    *((values.parse_variable, value) for value in ("1A", "A B", "sk-abc", 1)),
    *((values.parse_optional_path, value) for value in ("a", "~/a", "/a\0", 1, ["/a"])),
    *((values.parse_socket, value) for value in ("a", "/" + "a" * 200)),
    *((values.parse_upstream_name, value) for value in ("", "a" * 65, "a b", "a/b", "é", "a\n")),  # type: ignore[list-item]
]


def name_of(value: object) -> str:
    return value.__name__ if callable(value) else repr(value)[:40]


@pytest.mark.parametrize(("parse", "value", "final"), ALLOWED, ids=name_of)
def test_allowed_values_take_their_final_form(parse: Parse, value: object, final: object) -> None:
    assert parse(value) == final
    assert parse(parse(value)) == final, "a final value is allowed as it is"


@pytest.mark.parametrize(("parse", "value"), REFUSED, ids=name_of)
def test_other_values_are_refused_with_what_is_allowed(parse: Parse, value: object) -> None:
    with pytest.raises(BadValue, match="must"):
        parse(value)


def test_upstreams_are_called_by_simple_names() -> None:
    for name in ("a", "vllm-a100", "qwen2.5_3b", "A" * 64):
        assert values.parse_upstream_name(name) == name


def test_a_hidden_header_value_is_checked_as_an_open_one() -> None:
    hidden = {"x": SecretStr("fine")}
    assert values.parse_headers(hidden) == hidden
    with pytest.raises(BadValue):
        values.parse_headers({"x": SecretStr("a\nb")})


def refusal(parse: Parse, value: object) -> str:
    try:
        parse(value)
    except BadValue as refused:
        return str(refused)
    return ""


@given(st.text(min_size=8))
def test_no_refusal_tells_the_value(text: str) -> None:
    secret = f"\n{text}hunter2"
    told = [
        refusal(parse, value)
        for parse in {parse for parse, _ in REFUSED} - {values.parse_upstream_name}
        for value in (secret, [secret], {"authorization": secret}, {secret: "x"})
    ]
    assert sum(map(bool, told)) > 50
    assert "hunter2" not in "".join(told) + refusal(values.parse_upstream_name, secret)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parse", "written", "expected"),
    [
        (values.parse_host_names, ["GPU.lan.", "*.lan", "*", "a_b-c"], ("gpu.lan", "*.lan", "*", "a_b-c")),
        (values.parse_host_names, [], ()),
        (values.parse_web_origins, ["https://Chat.example.org"], ("https://chat.example.org",)),
        (
            values.parse_web_origins,
            ["https://a:443", "http://b:80", "http://c:443"],
            ("https://a", "http://b", "http://c:443"),
        ),
        (
            values.parse_web_origins,
            ["http://[::1]:3000", "app://obsidian.md"],
            ("http://[::1]:3000", "app://obsidian.md"),
        ),
        (values.parse_networks, ["10.0.0.1/8", "127.0.0.1", "fd00::/8"], ("10.0.0.0/8", "127.0.0.1/32", "fd00::/8")),
    ],
)
def test_who_may_ask(parse: Parse, written: list[str], expected: tuple[str, ...]) -> None:
    assert parse(written) == expected


@pytest.mark.parametrize(
    ("parse", "written"),
    [
        *(
            (values.parse_host_names, [text])
            for text in ("gpu:80", "a b", "", "*x", "a.*", "http://a", "ü", "a..b", "[::1]")
        ),
        *(
            (values.parse_web_origins, [text])
            for text in ("*", "null", "https://a/", "a.example", "https://*.a", "https://u@a", "", "https://a:x", "//a")
        ),
        *((values.parse_networks, [text]) for text in ("10.0.0.0/33", "gpu", "", "*", "10.0.0")),
        (values.parse_host_names, ["a", "A"]),
        (values.parse_web_origins, "https://a"),
        (values.parse_networks, ["10.0.0.0/8", "10.1.2.3/8"]),
    ],
)
def test_who_may_not_be_written_so(parse: Parse, written: object) -> None:
    with pytest.raises(ValueError, match=r"^must "):
        parse(written)


def test_user_ids() -> None:
    assert values.parse_uids([1000, 0, 1000]) == (1000, 0)
    assert values.parse_uids([]) == ()


@pytest.mark.parametrize("written", [1000, "1001", ["1000"], [-1], [1.0], [True], [1 << 31], None])
def test_what_are_no_user_ids(written: object) -> None:
    with pytest.raises(BadValue, match=r"^must be a list of user ids, such as \[1000, 1001\]$"):
        values.parse_uids(written)
