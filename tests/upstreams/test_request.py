import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.upstreams.request import Origin, request_head


@pytest.mark.parametrize(
    ("url", "host", "port", "secure", "authority"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1", 8000, False, b"127.0.0.1:8000"),
        ("http://example.test/base?x", "example.test", 80, False, b"example.test"),
        ("https://example.test", "example.test", 443, True, b"example.test"),
        ("https://example.test:8443", "example.test", 8443, True, b"example.test:8443"),
        ("http://[::1]:8000/", "::1", 8000, False, b"[::1]:8000"),
        ("http://user:secret@example.test:81", "example.test", 81, False, b"example.test:81"),
    ],
)
def test_origin(url, host, port, secure, authority):
    assert Origin.of(url) == Origin(host, port, secure, authority)


@pytest.mark.parametrize("url", ["", "example.test", "ftp://example.test", "http://", "http://a:b:c", "unix:/x"])
def test_not_an_origin(url):
    with pytest.raises(ValueError, match="URL"):
        Origin.of(url)


def test_host_and_length_are_added():
    head = request_head(b"POST", b"/v1?beta=true", [(b"accept", b"*/*")], b"h:1", 5)
    assert head == b"POST /v1?beta=true HTTP/1.1\r\nHost: h:1\r\naccept: */*\r\nContent-Length: 5\r\n\r\n"


def test_host_and_length_that_are_there_are_kept():
    headers = [(b"HOST", b"other"), (b"content-length", b"5")]
    head = request_head(b"POST", b"/", headers, b"h", 5)
    assert head == b"POST / HTTP/1.1\r\nHOST: other\r\ncontent-length: 5\r\n\r\n"


@pytest.mark.parametrize(("method", "size", "has"), [(b"GET", 0, False), (b"GET", 3, True), (b"POST", 0, True)])
def test_a_length_only_where_it_means_something(method, size, has):
    assert (b"Content-Length: %d" % size in request_head(method, b"/", [], b"h", size)) is has


@pytest.mark.parametrize(
    ("method", "target", "header"),
    [
        (b"PO ST", b"/", (b"a", b"b")),
        (b"", b"/", (b"a", b"b")),
        (b"POST", b"", (b"a", b"b")),
        (b"POST", b"/ HTTP/1.1", (b"a", b"b")),
        (b"POST", b"/\r\nx: y", (b"a", b"b")),
        (b"POST", b"/", (b"a b", b"c")),
        (b"POST", b"/", (b"a:", b"c")),
        (b"POST", b"/", (b"a\r\nb", b"c")),
        (b"POST", b"/", (b"", b"c")),
        (b"POST", b"/", (b"a", b"b\rc")),
        (b"POST", b"/", (b"a", b"b\nc")),
        (b"POST", b"/", (b"a", b"b\0c")),
        (b"POST", b"/", (b"a", b"b\r\nc: d")),
        (b"POST", b"/", (b"transfer-encoding", b"chunked")),
        (b"POST", b"/", (b"content-length", b"4")),
    ],
)
def test_what_could_be_read_otherwise_is_refused(method, target, header):
    with pytest.raises(ValueError, match=r".+"):
        request_head(method, target, [header], b"h", 5)


def test_two_lengths_are_refused():
    with pytest.raises(ValueError, match="Content-Length"):
        request_head(b"POST", b"/", [(b"content-length", b"5"), (b"Content-Length", b"5")], b"h", 5)


@given(st.lists(st.tuples(st.binary(max_size=6), st.binary(max_size=12)), max_size=4), st.binary(max_size=12))
def test_a_head_has_exactly_the_lines_that_were_given(headers, target):
    try:
        head = request_head(b"POST", target, headers, b"h", 5)
    except ValueError:
        return
    names = {name.lower() for name, _ in headers}
    lines = head[:-4].split(b"\r\n")
    assert len(lines) == 1 + len(headers) + (b"host" not in names) + (b"content-length" not in names)
    assert head.count(b"\r") == head.count(b"\n") == len(lines) + 1
