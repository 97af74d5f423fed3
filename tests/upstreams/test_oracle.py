"""Whatever a server may regularly answer, however TCP cuts it: the own transport reads what stock httpx reads."""

import ssl

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from puppet import Puppet
from recorder import Recorder, ask

from llmgate.upstreams.answer import Done
from llmgate.upstreams.transport import WireTransport

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
HOP_BY_HOP = {b"connection", b"keep-alive", b"transfer-encoding", b"content-length", b"trailer"}

token = st.text("abcdefgXYZ-_0189", min_size=1, max_size=10).map(lambda text: b"x-" + text.encode())
visible = bytes(range(0x21, 0x7F)) + bytes(range(0x80, 0x100))
value = st.lists(st.binary(min_size=1, max_size=8).map(lambda raw: bytes(visible[byte % len(visible)] for byte in raw)))
value = value.map(b" ".join)
fields = st.lists(st.tuples(token, value), max_size=5)
extension = st.sampled_from([b"", b";a", b";a=b", b';a="b c"', b";a=b;c"])  # no blank: httptools refuses it there
interim = st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"])


def lines(headers):
    return b"".join(b"%b: %b\r\n" % header for header in headers)


@st.composite
def framed(draw):
    """(headers of the framing, bytes of the body, whether the connection must end for it)."""
    kind = draw(st.sampled_from(["length", "chunked", "eof"]))
    pieces = draw(st.lists(st.binary(min_size=1, max_size=40), max_size=6))
    body = b"".join(pieces)
    if kind == "length":
        return b"Content-Length: %d\r\n" % len(body), body, False
    if kind == "eof":
        return b"", body, True
    zeros = draw(st.sampled_from([b"", b"0", b"000"]))
    chunks = [b"%b%x%b\r\n%b\r\n" % (zeros, len(piece), draw(extension), piece) for piece in pieces]
    chunks.append(b"0%b\r\n%b\r\n" % (draw(extension), lines(draw(fields))))
    return b"Transfer-Encoding: chunked\r\n", b"".join(chunks), False


@st.composite
def answers(draw):
    """(bytes, cut into pieces, whether the server closes after them)."""
    status = draw(st.sampled_from([200, 201, 204, 304, 400, 404, 413, 429, 500, 503, 529]))
    framing, body, ends = (b"", b"", False) if status in (204, 304) else draw(framed())
    version = draw(st.sampled_from([b"1.1", b"1.1", b"1.0"])) if not framing.startswith(b"T") else b"1.1"
    closing = draw(st.sampled_from([b"", b"Connection: close\r\n"]))
    head = b"HTTP/%b %d %b\r\n" % (version, status, draw(st.sampled_from([b"OK", b"", b"A b"])))
    whole = draw(interim) + head + lines(draw(fields)) + framing + closing + b"\r\n" + body
    if draw(st.integers(0, 5)) == 0:
        pieces = [whole[at : at + 1] for at in range(len(whole))]
    else:
        cuts = sorted(draw(st.sets(st.integers(1, max(1, len(whole) - 1)), max_size=6)))
        pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    return [piece for piece in pieces if piece], ends or bool(closing) or version == b"1.0"


def end_to_end(headers):
    return sorted((name.lower(), content) for name, content in headers if name.lower() not in HOP_BY_HOP)


async def through_httpx(url):
    transport = httpx.AsyncHTTPTransport(verify=NO_TLS)
    async with transport:
        response = await transport.handle_async_request(httpx.Request("POST", url, content=b"{}"))
        body = b"".join([piece async for piece in response.stream])
        await response.aclose()
    return response.status_code, end_to_end(response.headers.raw), body


async def through_wire(url):
    transport, recorder = WireTransport(url), Recorder()
    answer = await ask(transport, recorder)
    body = await answer.read(1 << 20)
    await transport.aclose()
    assert recorder.dones == [Done.ENDED]
    return answer.status, end_to_end(answer.headers), body


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(answers())
async def test_the_same_answer_as_stock_httpx(answer):
    pieces, ends = answer

    async def script(connection):
        await connection.read_request()
        await connection.send(*pieces)
        if ends:
            connection.close()

    async with Puppet(script) as puppet:
        assert await through_wire(puppet.url) == await through_httpx(puppet.url)
