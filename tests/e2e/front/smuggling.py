"""F57, the corpus: bytes that two readers of HTTP could cut into requests differently.

REFUSED are answered with an error and the connection is closed; nothing of them reaches a server. TAKEN are odd but
plain: exactly one request reaches the server, well-formed, with BODY. OURS are methods that take no body, with one: a
reader that does not expect it takes it for the next request; they are answered here. Behind most of the others stands a
second request, which a reader that is led astray would run.
"""

from gateprocess import MESSAGES, request_body

BODY = request_body("one")
INNER = b"POST /llm/v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
"""The request that must not run."""

LINE = f"POST {MESSAGES} HTTP/1.1\r\n".encode()
HOST = b"Host: localhost\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNK = b"%x\r\n%b\r\n" % (len(BODY), BODY)
LAST = b"0\r\n\r\n"


def sent(*fields: bytes, body: bytes = BODY, line: bytes = LINE) -> bytes:
    """A request of these header lines, as they are, and the second one behind it."""
    return line + b"".join(fields) + b"\r\n" + body + INNER


def length(value: bytes, body: bytes = BODY) -> bytes:
    return sent(HOST, b"Content-Length: " + value + b"\r\n", body=body)


def coding(*lines: bytes, body: bytes = CHUNK + LAST) -> bytes:
    return sent(HOST, *(line + b"\r\n" for line in lines), body=body)


def chunks(body: bytes) -> bytes:
    return sent(HOST, CHUNKED, body=body)


REFUSED = {
    # length and coding at once
    "CL and TE": sent(HOST, LENGTH, CHUNKED, body=CHUNK + LAST),
    "TE and CL": sent(HOST, CHUNKED, LENGTH, body=CHUNK + LAST),
    "CL 0 and TE": sent(HOST, b"Content-Length: 0\r\n", CHUNKED, body=LAST),
    "TE and CL, the rest is a request": sent(HOST, CHUNKED, b"Content-Length: 4\r\n", body=LAST),
    # lengths
    "two CLs": sent(HOST, LENGTH, b"Content-Length: 0\r\n"),
    "two equal CLs": sent(HOST, LENGTH, LENGTH),
    "a list of CLs": length(b"%d, %d" % (len(BODY), len(BODY))),
    "CL with a plus": length(b"+%d" % len(BODY)),
    "CL with a minus": length(b"-1"),
    "CL in hex": length(b"0x%x" % len(BODY)),
    "CL with a fraction": length(b"%d.0" % len(BODY)),
    "CL with a space inside": length(b"1 0"),
    "CL with letters behind": length(b"%dabc" % len(BODY)),
    "CL in other digits": length("\u0661\u0662".encode()),
    "CL beyond 64 bits": length(b"18446744073709551620"),
    "an empty CL": length(b""),
    # codings
    "TE gzip, chunked": coding(b"Transfer-Encoding: gzip, chunked"),
    "TE chunked, identity": coding(b"Transfer-Encoding: chunked, identity"),
    "TE chunked, chunked": coding(b"Transfer-Encoding: chunked, chunked"),
    "TE identity": coding(b"Transfer-Encoding: identity", body=BODY),
    "TE xchunked": coding(b"Transfer-Encoding: xchunked"),
    "TE with a vertical tab": coding(b"Transfer-Encoding: \x0bchunked"),
    "TE before a tab": coding(b"Transfer-Encoding: chunked\t"),
    "TE in quotes": coding(b'Transfer-Encoding: "chunked"'),
    "two TEs": coding(b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"),
    "TE behind a fold": coding(b"Transfer-Encoding:\r\n chunked"),
    "TE before a space and a colon": coding(b"Transfer-Encoding : chunked"),
    "TE in HTTP/1.0": sent(HOST, CHUNKED, line=LINE.replace(b"1.1", b"1.0"), body=CHUNK + LAST),
    # lines
    "a folded header": sent(HOST, LENGTH, b"x: a\r\n b\r\n"),
    "a header that begins with a space": sent(b" " + HOST, LENGTH),
    "a bare CR in a header": sent(HOST, LENGTH, b"x: a\rTransfer-Encoding: chunked\r\n"),
    "a bare LF in a header": sent(HOST, LENGTH, b"x: a\nTransfer-Encoding: chunked\r\n"),
    "bare LFs only": sent(HOST, LENGTH).replace(b"\r\n", b"\n"),
    "LF CR LF": LINE + HOST + LENGTH + b"\n\r\n" + BODY,
    "CR CR LF": sent(HOST, LENGTH, b"x: a\r\r\n"),
    "NUL in a value": sent(HOST, LENGTH, b"x: a\0b\r\n"),
    "NUL in a name": sent(HOST, LENGTH, b"x\0y: a\r\n"),
    "a space before the colon": sent(HOST, LENGTH.replace(b":", b" :")),
    "a header without a colon": sent(HOST, LENGTH, b"Transfer-Encoding chunked\r\n"),
    "a header without a name": sent(HOST, LENGTH, b": a\r\n"),
    # chunks
    "a chunk with a negative size": chunks(b"-1\r\n" + CHUNK + LAST),
    "a chunk with a prefix": chunks(b"0x" + CHUNK + LAST),
    "a chunk with a sign": chunks(b"+" + CHUNK + LAST),
    "a chunk size with a space": chunks(CHUNK.replace(b"\r\n", b" \r\n", 1) + LAST),
    "a chunk size beyond 64 bits": chunks(b"1" + b"0" * 16 + b"\r\n" + BODY),
    "a chunk size before a bare LF": chunks(CHUNK.replace(b"\r\n", b"\n", 1) + LAST),
    "a bare LF in an extension": chunks(CHUNK.replace(b"\r\n", b";\nxx\r\n", 1) + LAST),
    "a chunk longer than its size": chunks(b"1\r\n" + BODY + b"\r\n" + LAST),
    "a chunk that ends in a bare LF": chunks(CHUNK.removesuffix(b"\r\n") + b"\n" + LAST),
    "a last chunk without its blank line": chunks(CHUNK + b"0\r\n"),
    "no size at all": chunks(b"\r\n" + CHUNK + LAST),
    # targets, hosts, methods
    "absolute-form": sent(HOST, LENGTH, line=f"POST http://localhost{MESSAGES} HTTP/1.1\r\n".encode()),
    "absolute-form of another host": sent(HOST, LENGTH, line=b"POST http://evil/llm/v1/messages HTTP/1.1\r\n"),
    "no host": sent(LENGTH),
    "two hosts": sent(HOST, b"Host: evil\r\n", LENGTH),
    "two equal hosts": sent(HOST, HOST, LENGTH),
    "a host with a path": sent(b"Host: localhost/x\r\n", LENGTH),
    "CONNECT": sent(HOST, line=b"CONNECT localhost:80 HTTP/1.1\r\n", body=b""),
    "HTTP/2's preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + INNER,
    "HTTP/0.9": b"POST /llm/v1/messages\r\n\r\n" + INNER,
    "a space in the target": sent(HOST, LENGTH, line=b"POST /llm/v1/messages x HTTP/1.1\r\n"),
    "a line end in the target": sent(HOST, LENGTH, line=b"POST /llm/v1/mess\nages HTTP/1.1\r\n"),
    "a tab in the request line": sent(HOST, LENGTH, line=LINE.replace(b" ", b"\t")),
}

TAKEN = {
    "plain": sent(HOST, LENGTH),
    "chunks": chunks(CHUNK + LAST),
    "chunks under a name in capitals": coding(b"TRANSFER-ENCODING: Chunked"),
    "chunks with space around the word": coding(b"Transfer-Encoding:\t chunked  "),
    "chunks with extensions": chunks(CHUNK.replace(b"\r\n", b';a="b"\r\n', 1) + b"0;c\r\n\r\n"),
    "chunks with trailers": chunks(CHUNK + b"0\r\nContent-Length: 5\r\nHost: evil\r\n\r\n"),
    "a size with zeros": chunks(b"000" + CHUNK + b"000\r\n\r\n"),
    "a length with zeros": length(b"00%d" % len(BODY)),
    "a name that is nearly that of the coding": sent(HOST, LENGTH, b"Transfer_Encoding: chunked\r\n"),
    "a name with other letters before": sent(HOST, LENGTH, b"X-Transfer-Encoding: chunked\r\n"),
    "a blank line before it": b"\r\n" + sent(HOST, LENGTH),
    "HTTP/1.0": sent(HOST, LENGTH, line=LINE.replace(b"1.1", b"1.0")),
    "no host in HTTP/1.0": sent(LENGTH, line=LINE.replace(b"1.1", b"1.0")),
    "an offer to upgrade": sent(HOST, LENGTH, b"Connection: Upgrade\r\nUpgrade: h2c\r\n"),
    "headers that belong to the connection": sent(HOST, LENGTH, b"Connection: close, Content-Length\r\n"),
}
"""Their second request is one too early: it is dropped."""

METHODS = ("GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY")
FRAMINGS = {
    "length": (b"Content-Length: %d\r\n" % len(INNER), INNER),
    "chunks": (CHUNKED, b"%x\r\n%b\r\n" % (len(INNER), INNER) + LAST),
    "a length of none": (b"Content-Length: 0\r\n", b""),
    "chunks of none": (CHUNKED, LAST),
}
PATHS = {"a gated path": MESSAGES, "a list": "/llm/v1/models", "no path": "/llm/v1/nowhere"}

OURS = {
    f"{method} of {path} with {framing}": f"{method} {target} HTTP/1.1\r\n".encode() + HOST + field + b"\r\n" + body
    for method in METHODS
    for path, target in PATHS.items()
    for framing, (field, body) in FRAMINGS.items()
}
"""The body is itself a request."""
FOLLOWING = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
"""What is sent once they are answered: whatever was inside of them would be answered before it."""
