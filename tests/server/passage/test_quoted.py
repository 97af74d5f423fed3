"""A server that quotes what it was sent: no key and no header of ours comes back with what it says of an error."""

import pytest

from llmgate.server.sending import LARGEST_ERROR
from tests.server.holding import LOADING
from tests.server.passing import BOTH, GATED, PassStage
from tests.server.stage import Call, Wire, play, settle

SECRET = "sk-of-our-own-1"
QUOTES = b'{"error":"no such key: %b, try another"}' % SECRET.encode()
MASKED = QUOTES.replace(SECRET.encode(), b"***")
JSON = (b"content-type", b"application/json")
SIZED = (b"content-length", b"%d" % len(QUOTES))
CHUNKED = (b"transfer-encoding", b"chunked")


def quoting() -> PassStage:
    return PassStage(upstream={"headers": {"authorization": f"Bearer {SECRET}", "x-a": "no-cache"}})


async def refused(stage: PassStage, method: str, *headers: tuple[bytes, bytes], status: int = 401) -> tuple[Wire, Call]:
    """The head of its answer is here."""
    wire = stage.pass_on(method)
    await settle()
    await stage.begin(stage.calls[0], list(headers), status)
    return wire, stage.calls[0]


@BOTH
@pytest.mark.parametrize("framing", [SIZED, CHUNKED], ids=["sized", "chunked"])
@pytest.mark.parametrize("status", [401, 404, 503])
def test_an_error_passes_without_them(method: str, framing: tuple[bytes, bytes], status: int) -> None:
    """In pieces that cut the secret in two as well."""

    async def main() -> None:
        stage = quoting()
        wire, call = await refused(stage, method, JSON, framing, status=status)
        middle = QUOTES.index(SECRET.encode()) + 5
        call.piece(QUOTES[:middle])
        await settle()
        assert wire.received == b""
        call.end(QUOTES[middle:])
        await settle()
        assert (wire.answer.status, wire.answer.body, wire.answer.ended) == (status, MASKED, True)
        assert wire.answer.headers["content-length"] == str(len(MASKED))
        assert stage.outcomes == ([] if method != GATED else ["upstream_error" if status == 503 else "completed"])
        stage.check_over()

    play(main())


@BOTH
@pytest.mark.parametrize("status", [200, 307, 401, 503])
def test_nor_do_headers_quote_them(method: str, status: int) -> None:
    """Words of HTTP's own stay, be they values of a header of ours."""

    async def main() -> None:
        stage = quoting()
        secret = SECRET.encode()
        quoted = [(b"x-request-id", b"a " + secret), (b"location", b"/x?key=" + secret)]
        sized = (b"content-length", b"2")
        wire, call = await refused(stage, method, JSON, sized, (b"cache-control", b"no-cache"), *quoted, status=status)
        call.end(b"{}")
        await settle()
        headers = wire.answer.headers
        assert (wire.answer.status, wire.answer.body, wire.answer.ended) == (status, b"{}", True)
        assert (headers["x-request-id"], headers["cache-control"]) == ("a ***", "no-cache")
        assert headers["location"].endswith("/x?key=***")
        assert secret not in wire.received
        stage.check_over()

    play(main())


@pytest.mark.parametrize("status", [401, 503])
def test_the_length_that_head_is_told_stays(status: int) -> None:
    async def main() -> None:
        stage = quoting()
        wire, call = await refused(stage, "HEAD", JSON, SIZED, status=status)
        call.end()
        await settle()
        assert (wire.answer.status, wire.answer.headers["content-length"]) == (status, str(len(QUOTES)))
        assert wire.answer.body == b""
        wire.leave()
        await settle()
        stage.check_over()

    play(main())


@BOTH
@pytest.mark.parametrize("over", [0, 1])
def test_one_that_is_too_long_to_be_read_is_a_502(method: str, over: int) -> None:
    async def main() -> None:
        stage = quoting()
        wire, call = await refused(stage, method, JSON, CHUNKED)
        call.piece(b"x" * LARGEST_ERROR)
        await settle()
        assert wire.received == b""
        call.end(b"x" * over)
        await settle()
        answer = wire.answer
        assert (answer.status, answer.headers.get("llmgate-code")) == ((502, "UPSTREAM_ERROR") if over else (401, None))
        assert answer.ended
        assert stage.outcomes == ([] if method != GATED else ["upstream_error" if over else "completed"])
        stage.check_over()

    play(main())


@BOTH
def test_half_of_an_error_is_a_502(method: str) -> None:
    async def main() -> None:
        stage = quoting()
        wire, call = await refused(stage, method, JSON, SIZED)
        call.piece(QUOTES[:9])
        await settle()
        call.lose()
        await settle()
        assert (wire.answer.status, wire.answer.headers["llmgate-code"]) == (502, "UPSTREAM_ERROR")
        assert stage.outcomes == (["upstream_error"] if method == GATED else [])
        stage.check_over()

    play(main())


@BOTH
@pytest.mark.parametrize(("status", "content_type"), [(200, b"application/json"), (401, b"text/event-stream")])
def test_answers_and_streams_of_events_are_not_looked_at(method: str, status: int, content_type: bytes) -> None:
    async def main() -> None:
        stage = quoting()
        wire, call = await refused(stage, method, (b"content-type", content_type), CHUNKED, status=status)
        call.piece(QUOTES)
        await settle()
        assert wire.answer.body == QUOTES
        call.end(LOADING)
        await settle()
        assert (wire.answer.status, wire.answer.body, wire.answer.ended) == (status, QUOTES + LOADING, True)
        stage.check_over()

    play(main())
