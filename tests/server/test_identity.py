"""Who is asking, as the clients of this world say it; and that nothing else than short printable text comes of it."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from llmgate.config.settings import PURPOSE_HEADERS, SESSION_HEADERS
from llmgate.server.asgi import Headers
from llmgate.server.identity import clean, client_of, purpose_of, session_of, version_of

LONGEST = 128


def session(headers: Headers, from_body: str = "") -> str:
    return session_of(headers, SESSION_HEADERS, from_body)[0]


def purpose(headers: Headers) -> str:
    return purpose_of(headers, PURPOSE_HEADERS)


# ---- session


@pytest.mark.parametrize("name", SESSION_HEADERS)
def test_each_client_has_its_header(name: str) -> None:
    assert session({name.encode(): b"a61e6e40-9a1c"}) == "a61e6e40-9a1c"


def test_the_first_that_is_not_empty_wins() -> None:
    names = list(SESSION_HEADERS)
    headers = {name.encode(): name.encode() for name in names}
    while len(headers) > 1:
        assert session(headers, "body") == names[0]
        headers[names[0].encode()] = b" \t"
        assert session(headers, "body") in (names[1], "body")
        del headers[names.pop(0).encode()]


def test_the_body_goes_before_the_id_that_changes_with_each_request() -> None:
    headers = {b"x-client-request-id": b"changes"}
    assert session(headers) == "changes"
    assert session(headers, "of-the-body") == "of-the-body"
    assert session({**headers, b"thread-id": b"t"}, "of-the-body") == "t"


def test_where_the_session_comes_from() -> None:
    names = ("llmgate-session", "x-client-request-id")
    changes = {b"x-client-request-id": b"c"}
    assert session_of({b"llmgate-session": b"s", **changes}, names, "b") == ("s", "llmgate-session")
    assert session_of(changes, names, "b") == ("b", "body")
    assert session_of(changes, names, "") == ("c", "x-client-request-id")


@pytest.mark.parametrize(
    ("headers", "version"),
    [
        ({b"user-agent": b"claude-cli/2.1.197 (external, cli)"}, "2.1.197"),
        ({b"user-agent": b"OpenAI/Python 1.2.3"}, "1.2.3"),
        ({b"user-agent": b"curl/8.5.0"}, "8.5.0"),
        ({b"user-agent": b"tool/v2-rc.1+x y/3"}, "2-rc.1+x"),
        ({b"user-agent": b"tool"}, ""),
        ({b"user-agent": b"tool (8.5)"}, ""),
        ({b"user-agent": b"(8.5)"}, ""),
        ({b"user-agent": b"Mozilla/5.0 (X11)"}, ""),
        ({b"user-agent": b"curl/8.5.0", b"llmgate-client": b"mine"}, ""),
        ({}, ""),
    ],
)
def test_the_version_of_the_program(headers: Headers, version: str) -> None:
    assert version_of(headers) == version


def test_nobody_says_who_he_is() -> None:
    assert session({}) == ""
    assert session({b"llmgate-session": b"\x00\x01"}) == ""


# ---- purpose

PURPOSES = [
    ({b"llmgate-purpose": b"session-title"}, "session-title"),
    ({b"x-deepseek-harness-compact": b"1"}, "compaction"),
    ({b"x-deepseek-harness-compact": b" 1 "}, "compaction"),
    ({b"x-deepseek-harness-compact": b"0"}, ""),
    ({b"x-deepseek-harness-compact": b""}, ""),
    ({b"x-codex-turn-metadata": b'{"request_kind":"turn","x":1}'}, ""),
    ({b"x-codex-turn-metadata": b'{"request_kind":"review"}'}, "review"),
    ({b"x-codex-turn-metadata": b'{"request_kind":"a\\nb"}'}, "a b"),
    ({b"x-codex-turn-metadata": b"{}"}, ""),
    ({b"x-codex-turn-metadata": b"not json"}, ""),
    ({b"x-codex-turn-metadata": b'{"request_kind":7}'}, ""),
    ({b"x-codex-turn-metadata": b'{"request_kind":"\\ud800"}'}, ""),
    ({b"x-codex-turn-metadata": b"\xff\xfe"}, ""),
    ({b"x-codex-turn-metadata": b"[" * 100_000}, ""),
    ({b"x-codex-turn-metadata": b'{"x":' + b"[" * 100_000}, ""),
    ({b"x-deepseek-harness-compact": b"0", b"x-codex-turn-metadata": b'{"request_kind":"compact"}'}, "compact"),
    ({b"llmgate-purpose": b"mine", b"x-deepseek-harness-compact": b"1"}, "mine"),
    ({b"llmgate-purpose": b" ", b"x-deepseek-harness-compact": b"1"}, "compaction"),
    ({}, ""),
]


@pytest.mark.parametrize(("headers", "expected"), PURPOSES)
def test_purpose(headers: Headers, expected: str) -> None:
    assert purpose(headers) == expected


def test_only_the_named_headers_count() -> None:
    headers = {b"llmgate-purpose": b"mine", b"my-purpose": b"other"}
    assert purpose_of(headers, ("my-purpose",)) == "other"
    assert session_of({b"llmgate-session": b"s"}, ("my-session",), "") == ("", "")


# ---- client

AGENTS = [
    ("claude-cli/2.1.7 (external, cli)", "claude-cli"),
    ("Anthropic/Python 0.76.0", "anthropic-python"),
    ("AsyncAnthropic/Python 2.14.0", "anthropic-python"),
    ("Anthropic/JS 0.39.0", "anthropic-js"),
    ("OpenAI/Python 3.57.0", "openai-python"),
    ("AsyncOpenAI/Python 1.109.1", "openai-python"),
    ("OpenAI/JS 6.1.0", "openai-js"),
    ("codex_cli_rs/0.60.1 (Debian 13; x86_64) xterm", "codex"),
    ("codex_exec/0.171.0 (Debian 12.0.0; x86_64) dumb (codex_exec; 0.171.0)", "codex"),
    ("codex-tui/0.171.0 (Debian 12.0.0; x86_64) xterm (codex-tui; 0.171.0)", "codex"),
    ("codex_vscode/0.171.0 (Debian 12.0.0; x86_64) unknown", "codex"),
    ("opencode/1.0.3", "opencode"),
    ("python-httpx/0.28.1", "httpx"),
    ("python-requests/2.32.3", "requests"),
    ("ollama/0.9 (amd64 linux) Go/go1.24", "ollama"),
    ("curl/8.14.1", "curl"),
    ("axios/1.7.2", "axios"),
    ("node", "node"),
    ("undici", "undici"),
    ("litellm/1.80.0", "litellm"),
    ("Go-http-client/1.1", "go-http-client"),
    ("Some/Thing-else", "some"),
    ("Some/Thing@else", "some"),
    ("(unknown)", ""),
    ("", ""),
]


@pytest.mark.parametrize(("agent", "name"), AGENTS)
def test_the_first_product_is_the_client(agent: str, name: str) -> None:
    assert client_of({b"user-agent": agent.encode()}) == name


def test_an_sdk_for_javascript_whose_name_was_bundled_away() -> None:
    bundled = {b"user-agent": b"ls/JS 5.23.2", b"x-stainless-lang": b"js"}
    assert client_of(bundled) == "openai-js"
    assert client_of({**bundled, b"anthropic-version": b"2023-06-01"}) == "anthropic-js"
    assert client_of({b"user-agent": b"ls/JS 5.23.2"}) == "ls"


def test_a_name_of_its_own_goes_first() -> None:
    assert client_of({b"llmgate-client": b"dsh", b"user-agent": b"node"}) == "dsh"
    assert client_of({b"llmgate-client": b" ", b"user-agent": b"node"}) == "node"


def test_a_browser_is_its_origin() -> None:
    browser = {b"user-agent": b"Mozilla/5.0 (X11; Linux x86_64) Firefox/145.0"}
    assert client_of(browser) == "browser"
    assert client_of({**browser, b"origin": b"https://chat.example.org"}) == "https://chat.example.org"


def test_no_agent_no_client() -> None:
    assert client_of({b"origin": b"https://a.example"}) == ""


# ---- nothing but short printable text

HOSTILE = [
    b"a\r\nb",
    b"\x1b[31mred\x1b[0m",
    b"\x00",
    b"\x9b31m",
    "\u202egnp.exe".encode(),
    "a\u2028b".encode(),
    b"\xff",
]
values = st.one_of(st.binary(max_size=300), st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace")))


def check(text: str) -> None:
    assert text.isprintable()
    assert len(text.splitlines()) <= 1
    assert len(text) <= LONGEST
    text.encode()


@given(values)
@example(b"x" * 100_000)
@example("\u202e".encode())
@example("\u2029".encode())
@example("\ue000\U000e0001".encode())
def test_any_bytes_give_short_printable_text(value: bytes) -> None:
    check(clean(value))
    for name in (*SESSION_HEADERS, "user-agent", "origin", "llmgate-client"):
        headers = {name.encode(): value}
        check(session(headers))
        check(client_of(headers))
        check(client_of({b"user-agent": b"Mozilla/5.0", **headers}))
    for name in PURPOSE_HEADERS:
        check(purpose({name.encode(): value}))


@given(st.text(max_size=200))
def test_any_request_kind_gives_short_printable_text(kind: str) -> None:
    check(purpose({b"x-codex-turn-metadata": b'{"request_kind":"' + kind.encode("utf-8", "replace") + b'"}'}))


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_bytes(value: bytes) -> None:
    check(clean(value))


def test_a_run_of_what_cannot_be_printed_is_one_blank() -> None:
    assert clean(b"  a\r\n\t\x00b ") == "a b"


def test_what_people_write_stays() -> None:
    for text in ("Größe 漢字 🙂", "user@host:1", "a" * LONGEST):
        assert clean(text.encode()) == text
    assert clean(b"a" * 500) == "a" * LONGEST
