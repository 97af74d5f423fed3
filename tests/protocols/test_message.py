"""What a client gets to read of an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.protocols.message import MOST, is_html, mask, mask_bytes, tidy

SECRETS = [
    "sk-abcdefghijklmnop",
    "sk-ant-api03-AbC_dEf-123",
    "Bearer abcdef.ghi-jkl",
    "bearer\tq1w2e3",
    "Basic dXNlcjpwYXNzd29yZA==",
    "hf_AbCdEfGhIjKlMnOpQrSt",
    "AIzaSyA1234567890abcdefghij",
    "ghp_0123456789abcdefghij",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "api_key=tops3cret",
    "x-api-key: tops3cret",
    '"apiKey": "tops3cret"',
    "http://user:tops3cret@host/",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("around", ["{}", "wrong: {} given", "line\n{}\nline", "({}), sorry"])
def test_secrets_are_masked(secret: str, around: str) -> None:
    masked = tidy(around.format(secret))
    assert "***" in masked
    for start in range(len(secret) - 7):
        piece = secret[start : start + 8]
        assert (
            piece not in masked or piece.lower() in {"x-api-ke", "-api-key"} or "key" in piece.lower() or "://" in piece
        )


@pytest.mark.parametrize(
    "text",
    [
        "'messages' is required",
        "request (2024 tokens) exceeds the available context size (512 tokens), try increasing it",
        "task-oriented disk-based ask-me-anything basic error",
        "see https://example.org/a@b",
        "two\nlines\tand a tab",
        "naïve <think> 日本語",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert tidy(text) == text


def test_control_characters_go() -> None:
    assert tidy("a\x1b[31mb\x00c\x7f\x9b\ud800d") == "a[31mbcd"


@given(st.text() | st.text(alphabet="ab sk-Bearer:=/@\n").map(lambda text: text * 200))
def test_any_text_becomes_short_and_encodable(text: str) -> None:
    short = tidy(text)
    assert len(short) <= MOST
    short.encode()
    assert "\x1b" not in short


def test_length_is_bounded_after_masking() -> None:
    assert tidy("a" * MOST) == "a" * MOST
    assert tidy("a" * (MOST + 1)) == "a" * (MOST - 1) + "…"
    long = tidy("a" * (MOST - 10) + " sk-abcdefghijklmnop" + "b" * 100)
    assert len(long) <= MOST
    assert "sk-" not in long


def test_masking_twice_changes_nothing_more() -> None:
    for secret in SECRETS:
        assert mask(mask(secret)) == mask(secret)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("<!DOCTYPE html><html>", True),
        ("<html><body>502</body>", True),
        ("\n <HEAD>", True),
        ("oops <h1>Bad Gateway</h1>", True),
        ("a <b and c> d", False),
        ("<think>", False),
        ("", False),
    ],
)
def test_html_is_known(text: str, html: bool) -> None:
    assert is_html(text) is html


@given(st.binary())
def test_bytes_without_a_secret_stay_whatever_they_are(data: bytes) -> None:
    assert mask_bytes(data) == data or b"***" in mask_bytes(data)
    assert mask_bytes(b"\xff\xc3 sk-abcdefgh \xe9" + data[:0]) == b"\xff\xc3 *** \xe9"
