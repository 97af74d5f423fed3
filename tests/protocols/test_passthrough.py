"""What is passed on as it is: plain paths only; what may pass by those who wait; redirects that stay inside."""

import re
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.errors import BadRequest, MethodNotAllowed
from llmgate.protocols.passthrough import (
    METHODS,
    READ_ONLY,
    Unwatched,
    check_method,
    check_target,
    is_gated,
    location_for,
)
from llmgate.protocols.surfaces import SURFACES


@pytest.mark.parametrize(
    "path",
    [
        b"/",
        b"/slots",
        b"/slots/0",
        b"/v1/models/org%2Fbig",
        b"/api/blobs/sha256:29fdb92e57cf0827ded04ae6461b5931d01fa595843f55d36f5b275a52087dd2",
        b"/a//b",
        b"/a/",
        b"/...",
        b"/..a/.b/a..",
        b"/a;b=1",
        b"/%zz%",
        b"/a%20b%C3%A4",
        b"/100%25",
        b"/[a]{b}|c^`\"<>'",
        b"/@host:80",
    ],
)
def test_a_plain_path(path: bytes) -> None:
    check_target(path, b"")
    check_target(path, b"a=1&b=..%2F%0A//x?y")


@pytest.mark.parametrize(
    "path",
    [
        b"",
        b"slots",
        b"http://host/",
        b"*",
        b"//host/x",
        b"/\\host",
        b"/%2fhost",
        b"/%5chost",
        b"/%252fhost",
        b"/.",
        b"/..",
        b"/../x",
        b"/x/..",
        b"/x/./y",
        b"/x/../y",
        b"/x/%2e%2E/y",
        b"/x/.%2e/y",
        b"/x/%2e",
        b"/x%2f..%2fy",
        b"/x/..%2fy",
        b"/x/%252e%252e/y",
        b"/x\\..\\y",
        b"/x%5c..%5cy",
        b"/x/..;/y",
        b"/x/..;a=b/y",
        b"/x/%2e%2e%3b/y",
        b"/a b",
        b"/a\tb",
        b"/a\r\nb",
        b"/a\0",
        b"/a\x7f",
        b"/\xc3\xa4",
        b"/a%00",
        b"/a%0d%0ab",
        b"/a%7f",
        b"/a%250ab",
    ],
)
def test_anything_else(path: bytes) -> None:
    with pytest.raises(BadRequest, match="only a plain path is passed on"):
        check_target(path, b"")


@pytest.mark.parametrize("query", [b"a b", b"a\r\nb", b"\0", b"\x7f", b"\xc3\xa4", b"a\tb"])
def test_a_query_with_what_ends_a_request_line(query: bytes) -> None:
    with pytest.raises(BadRequest):
        check_target(b"/x", query)


_PIECES = st.sampled_from(
    [
        b"/",
        b"\\",
        b".",
        b"..",
        b"%2e",
        b"%2E",
        b"%2f",
        b"%5c",
        b"%25",
        b"2e",
        b"2f",
        b"a",
        b";",
        b"%",
        b"%0a",
        b"\n",
        b"?",
    ]
)


@given(st.lists(_PIECES, max_size=8).map(b"".join))
def test_what_is_passed_on_stays_where_it_is(rest: bytes) -> None:
    """However often a server decodes it, up to twice, and whatever it takes for a separator."""
    path = b"/" + rest
    try:
        check_target(path, b"")
    except BadRequest:
        return
    for read in (path, unquote_to_bytes(path), unquote_to_bytes(unquote_to_bytes(path))):
        segments = read.replace(b"\\", b"/").split(b"/")
        assert segments[0] == b""
        assert segments[1] != b"" or len(segments) == 2
        assert not {segment.split(b";")[0] for segment in segments} & {b".", b".."}
        assert all(byte > 0x1F for byte in read)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE"])
@pytest.mark.parametrize("path", [b"/slots", b"/completion", b"/v1/chat/completions"])
def test_what_starts_nothing_does_not_wait(method: str, path: bytes) -> None:
    assert not is_gated(method, path)


@pytest.mark.parametrize("path", sorted(READ_ONLY))
def test_a_post_that_only_asks_does_not_wait(path: bytes) -> None:
    assert not is_gated("POST", path)
    assert is_gated("PUT", path)
    for other in (path + b"/", path + b"x", b"/x" + path, path.upper(), path.replace(b"/", b"//", 1)):
        assert is_gated("POST", other)


def test_the_manual_lists_them() -> None:
    page = (Path(__file__).parents[2] / "man" / "llmgate-queue.7").read_text()
    listed = page.partition("go straight through")[2].partition(".El")[0]
    assert {path.encode() for path in re.findall(r"^\.Pa (\S+)", listed, re.MULTILINE)} == READ_ONLY


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "QUERY", "post", "MKCOL"])
@pytest.mark.parametrize("path", [b"/completion", b"/slots/0", b"/tokenize/..", b"/%74okenize", b"/"])
def test_all_else_waits(method: str, path: bytes) -> None:
    assert is_gated(method, path)


def test_no_surface_is_read_only() -> None:
    assert {path.encode() for path in SURFACES} & READ_ONLY == set()


@pytest.mark.parametrize("method", METHODS.split(", "))
def test_methods_that_pass(method: str) -> None:
    check_method(method)


@pytest.mark.parametrize("method", ["TRACE", "CONNECT"])
def test_methods_that_do_not(method: str) -> None:
    with pytest.raises(MethodNotAllowed):
        check_method(method)


OUTSIDE = b"/llm/upstream/a"


@pytest.mark.parametrize(
    ("location", "url", "led"),
    [
        # relative: the client's own path has the same shape
        (b"slots", "http://h:1", b"slots"),
        (b"../x?y", "http://h:1", b"../x?y"),
        (b"?a=1", "http://h:1", b"?a=1"),
        (b"", "http://h:1", b""),
        # of this server
        (b"/slots?a=1#b", "http://h:1", OUTSIDE + b"/slots?a=1#b"),
        (b"/", "http://h:1/", OUTSIDE + b"/"),
        (b"http://h:1/slots?a=1", "http://h:1", OUTSIDE + b"/slots?a=1"),
        (b"http://h:1", "http://h:1", OUTSIDE + b"/"),
        (b"HTTP://H:1/x", "http://user:key@h:1", OUTSIDE + b"/x"),
        (b"//h:1/x", "http://h:1", OUTSIDE + b"/x"),
        (b"http://h/x", "http://h:80", OUTSIDE + b"/x"),
        (b"https://h:443/x", "https://h", OUTSIDE + b"/x"),
        (b"/a%2Fb", "http://h:1", OUTSIDE + b"/a%2Fb"),
        (b"/\xe4", "http://h:1", OUTSIDE + b"/\xe4"),
        # behind a path of its own
        (b"/base/x", "http://h:1/base", OUTSIDE + b"/x"),
        (b"/base/x", "http://h:1/base/", OUTSIDE + b"/x"),
        (b"http://h:1/base/", "http://h:1/base", OUTSIDE + b"/"),
        (b"/basement", "http://h:1/base", None),
        (b"/x", "http://h:1/base", None),
        (b"http://h:1/x", "http://h:1/base", None),
        # of another
        (b"http://other:1/x", "http://h:1", b"http://other:1/x"),
        (b"http://h:2/x", "http://h:1", b"http://h:2/x"),
        (b"https://h:1/x", "http://h:1", b"https://h:1/x"),
        (b"//other/x", "http://h:1", b"//other/x"),
        # of nobody
        (b"http://[::1/x", "http://h:1", None),
        (b"http://h:port/x", "http://h:1", None),
    ],
)
def test_where_redirects_lead(location: bytes, url: str, led: bytes | None) -> None:
    assert location_for(location, url, OUTSIDE) == led


@given(st.text(st.sampled_from("/.:?#;@ah1[]%"), max_size=12))
def test_no_redirect_of_the_server_leads_out_to_our_own_paths(location: str) -> None:
    led = location_for(location.encode(), "http://h:1/a", OUTSIDE)
    if led is not None and not urlsplit(led).netloc and led.startswith(b"/"):
        assert led.startswith((OUTSIDE + b"/", b"//"))


def test_a_body_that_is_not_watched_passes_as_it_comes() -> None:
    watch = Unwatched()
    assert (watch.started, watch.complete, watch.inside_event) == (False, False, False)
    assert watch.feed(b"\xff") == b"\xff"
    assert (watch.started, watch.complete, watch.inside_event) == (True, False, True)
    assert watch.finish() == b""
    assert (watch.complete, watch.inside_event, watch.failed) == (True, False, False)


def test_an_empty_one_is_complete_as_well() -> None:
    watch = Unwatched()
    assert watch.finish() == b""
    assert (watch.started, watch.complete, watch.inside_event) == (False, True, False)
