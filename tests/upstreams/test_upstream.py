"""Which headers go to an upstream and which come back, with which key, to which path."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.errors import GateError, UpstreamDown, UpstreamFailed
from llmgate.upstreams.answer import NO_TIMEOUTS, Answer, Done, Timeouts
from llmgate.upstreams.upstream import FORWARDED, RETURNED, Upstream

OURS = {b"accept-encoding", b"content-type", b"llmgate-request-id"}
CLIENTS_HEADERS = {
    b"accept": b"*/*",
    b"anthropic-beta": b"x",
    b"anthropic-version": b"2023-06-01",
    b"openai-organization": b"o",
    b"traceparent": b"00-1",
    b"user-agent": b"curl/8",
    b"x-request-id": b"r",
    b"content-type": b"application/json; charset=utf-8",
}
NEVER = [
    b"host",
    b"connection",
    b"keep-alive",
    b"te",
    b"trailer",
    b"upgrade",
    b"transfer-encoding",
    b"content-length",
    b"expect",
    b"proxy-authorization",
    b"cookie",
    b"origin",
    b"referer",
    b"forwarded",
    b"x-forwarded-for",
    b"accept-encoding",
    b"authorization",
    b"x-api-key",
    b"llmgate-session",
    b"llmgate-max-wait",
    b"llmgate-request-id",
]


@pytest.mark.parametrize("kind", ["auto", "llama-server", "vllm", "ollama", "anthropic", "openai"])
def test_a_server_of_kind_openai_is_not_asked_for_its_health(kind: Any) -> None:
    """It may be an SGLang, which would generate a token."""
    upstream = Upstream("a", FakeTransport(), kind=kind)
    assert upstream.health_path == (b"/v1/models" if kind == "openai" else b"/health")


class FakeAnswer:
    body = b""

    def __init__(self, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        self.status = 200
        self.headers = list(headers)
        self.ended = False
        self.closed = 0

    def start(self, _: Any) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def close(self, error: GateError | None = None) -> None:
        self.closed += 1

    async def read(self, limit: int) -> bytes:
        if len(self.body) > limit:
            raise UpstreamFailed("llmgate: too long")
        return self.body


class FakeTransport:
    def __init__(self) -> None:
        self.request: Any = None
        self.answer = FakeAnswer()
        self.error: Exception | None = None
        self.closed = 0

    async def open(self, *request: Any) -> Answer:
        self.request = request
        if self.error is not None:
            raise self.error
        return self.answer

    async def aclose(self) -> None:
        self.closed += 1


def ignore(_: Done, __: GateError | None) -> None: ...


async def sent(
    client: dict[bytes, bytes] | None = None, *, path: bytes = b"/v1/messages", request_id: str = "", **options: Any
) -> list[tuple[bytes, bytes]]:
    """The headers that go out."""
    transport = FakeTransport()
    upstream = Upstream("a", transport, **options)
    async with upstream.call(b"POST", path, client or {}, b"{}", ignore, request_id=request_id):
        found: list[tuple[bytes, bytes]] = transport.request[2]
    assert len({name for name, _ in found}) == len(found), "each name once"
    return found


# ---- what goes out


async def test_a_clients_headers_on_the_list_pass() -> None:
    assert dict(await sent(CLIENTS_HEADERS)).items() >= CLIENTS_HEADERS.items()
    assert set(CLIENTS_HEADERS) <= FORWARDED


async def test_no_other_one_does() -> None:
    found = await sent(dict.fromkeys([*NEVER, b"x-anything"], b"secret"), request_id="req_1")
    assert dict(found) == {
        b"content-type": b"application/json",
        b"accept-encoding": b"identity",
        b"llmgate-request-id": b"req_1",
    }


@given(st.dictionaries(st.binary(min_size=1, max_size=20), st.binary(max_size=5), max_size=10))
async def test_whatever_a_client_sends(headers: dict[bytes, bytes]) -> None:
    assert {name for name, _ in await sent(headers)} <= FORWARDED | OURS


async def test_without_an_id_none_is_sent() -> None:
    assert [name for name, _ in await sent()] == [b"content-type", b"accept-encoding"]


async def test_headers_of_the_settings_come_with_every_request_and_before_the_clients() -> None:
    found = dict(await sent(CLIENTS_HEADERS, headers=[(b"X-Team", b"a"), (b"User-Agent", b"ours")]))
    assert (found[b"x-team"], found[b"user-agent"], found[b"accept"]) == (b"a", b"ours", b"*/*")


@pytest.mark.parametrize(
    ("path", "bearer", "key"),
    [
        (b"/v1/messages", b"Bearer k", b"k"),
        (b"/v1/messages?beta=true", b"Bearer k", b"k"),
        (b"/v1/chat/completions", b"Bearer k", None),
        (b"/v1/models", b"Bearer k", None),
    ],
)
async def test_its_own_key(path: bytes, bearer: bytes, key: bytes | None) -> None:
    """Anthropic's surface wants it as x-api-key; llama-server takes either."""
    found = dict(await sent({b"authorization": b"Bearer client", b"x-api-key": b"client"}, path=path, api_key="k"))
    assert (found[b"authorization"], found.get(b"x-api-key")) == (bearer, key)
    found = dict(await sent(path=path, api_key="k", kind="anthropic"))
    assert (found[b"authorization"], found[b"x-api-key"]) == (bearer, b"k")


@pytest.mark.parametrize("name", [b"authorization", b"x-api-key"])
async def test_a_clients_key_where_the_settings_say_so(name: bytes) -> None:
    """Then ours is for those who bring none."""
    options: dict[str, Any] = {"api_key": "k", "forward_auth": True}
    found = dict(await sent({name: b"client"}, **options))
    assert {key: found[key] for key in (b"authorization", b"x-api-key") if key in found} == {name: b"client"}
    assert dict(await sent(**options))[b"authorization"] == b"Bearer k"
    assert dict(await sent({name: b""}, **options))[b"authorization"] == b"Bearer k"


async def test_without_any_key() -> None:
    assert not {b"authorization", b"x-api-key"} & dict(await sent({b"x-api-key": b"client"})).keys()


# ---- the call


@pytest.mark.parametrize(
    ("base", "target"),
    [("", b"/v1/x?a=b"), ("/", b"/v1/x?a=b"), ("/api", b"/api/v1/x?a=b"), ("/api/", b"/api/v1/x?a=b")],
)
async def test_the_urls_path_goes_in_front(base: str, target: bytes) -> None:
    transport = FakeTransport()
    async with Upstream("a", transport, base_path=base).call(b"PUT", b"/v1/x?a=b", {}, b"body", ignore):
        method, found, _, body, timeouts, on_done = transport.request
    assert (method, found, body, timeouts, on_done) == (b"PUT", target, b"body", NO_TIMEOUTS, ignore)


async def test_timeouts_are_the_upstreams_unless_the_call_has_its_own() -> None:
    transport = FakeTransport()
    upstream = Upstream("a", transport, timeouts=Timeouts(idle=1.0))
    async with upstream.call(b"GET", b"/", {}, b"", ignore):
        assert transport.request[4] == Timeouts(idle=1.0)
    async with upstream.call(b"GET", b"/", {}, b"", ignore, timeouts=Timeouts(total=2.0)):
        assert transport.request[4] == Timeouts(total=2.0)


async def test_leaving_closes_the_answer() -> None:
    transport = FakeTransport()
    call = Upstream("a", transport).call(b"GET", b"/", {}, b"", ignore)
    async with call as answer:
        assert answer is transport.answer
        assert transport.answer.closed == 0
    assert transport.answer.closed == 1
    with pytest.raises(ZeroDivisionError):
        async with Upstream("a", transport).call(b"GET", b"/", {}, b"", ignore):
            raise ZeroDivisionError
    assert transport.answer.closed == 2


async def test_without_an_answer_there_is_nothing_to_close() -> None:
    transport = FakeTransport()
    transport.error = UpstreamDown("llmgate: no")
    call = Upstream("a", transport).call(b"GET", b"/", {}, b"", ignore)
    with pytest.raises(UpstreamDown):
        async with call:
            raise AssertionError
    await call.__aexit__(None, None, None)
    assert transport.answer.closed == 0


# ---- a question of our own


async def test_a_question_and_its_answer() -> None:
    transport = FakeTransport()
    transport.answer.status, transport.answer.body = 404, b"12345"
    upstream = Upstream("a", transport, base_path="/api", timeouts=Timeouts(idle=9.0), headers=[(b"X-Team", b"t")])
    assert await upstream.ask(b"/slots", timeouts=Timeouts(total=1.0), limit=5) == (404, b"12345")
    method, target, headers, body, timeouts, _ = transport.request
    assert (method, target, body, timeouts) == (b"GET", b"/api/slots", b"", Timeouts(total=1.0))
    named = dict(headers)
    assert named[b"user-agent"].startswith(b"llmgate/")
    assert named[b"x-team"] == b"t"
    assert b"llmgate-request-id" not in named
    assert transport.answer.closed == 1


async def test_a_question_goes_with_our_key_and_whatever_it_asks() -> None:
    transport = FakeTransport()
    upstream = Upstream("a", transport, api_key="k", forward_auth=True)
    await upstream.ask(b"/v1/messages", timeouts=NO_TIMEOUTS, limit=0, method=b"POST", body=b"{}")
    assert (transport.request[0], transport.request[3]) == (b"POST", b"{}")
    assert dict(transport.request[2]).items() >= {b"authorization": b"Bearer k", b"x-api-key": b"k"}.items()


async def test_a_question_is_no_traffic() -> None:
    """Only requests take slots."""
    transport = FakeTransport()
    upstream = Upstream("a", transport)
    await upstream.ask(b"/health", timeouts=NO_TIMEOUTS, limit=0)
    assert (upstream.traffic.with_head(), upstream.traffic.oldest_without_head()) == (frozenset(), None)
    transport.request[5](Done.LOST, UpstreamFailed("llmgate: it does not matter"))


async def test_a_question_is_known_as_one_while_it_is_asked() -> None:
    transport = FakeTransport()
    upstream = Upstream("a", transport)

    async def read(_: int) -> bytes:
        asked.append(upstream.asides)
        return b""

    asked: list[int] = []
    transport.answer.read = read  # type: ignore[method-assign]
    await upstream.ask(b"/health", timeouts=NO_TIMEOUTS, limit=0)
    assert (asked, upstream.asides) == ([1], 0)


async def test_a_question_without_an_answer_raises() -> None:
    transport = FakeTransport()
    transport.error = UpstreamDown("llmgate: no")
    upstream = Upstream("a", transport)
    with pytest.raises(UpstreamDown):
        await upstream.ask(b"/health", timeouts=NO_TIMEOUTS, limit=0)
    assert upstream.asides == 0
    transport.error, transport.answer.body = None, b"123456"
    with pytest.raises(UpstreamFailed):
        await Upstream("a", transport).ask(b"/health", timeouts=NO_TIMEOUTS, limit=5)
    assert transport.answer.closed == 1


async def test_closing_it_closes_its_transport() -> None:
    transport = FakeTransport()
    await Upstream("a", transport).aclose()
    assert transport.closed == 1


# ---- what comes back (F53)

KEPT = [
    (b"content-type", b"text/event-stream"),
    (b"request-id", b"r"),
    (b"x-request-id", b"x"),
    (b"retry-after", b"3"),
    (b"openai-processing-ms", b"4"),
    (b"openai-version", b"v"),
    (b"openai-model", b"m"),
    (b"anthropic-ratelimit-requests-remaining", b"9"),
    (b"x-ratelimit-limit-tokens", b"8"),
]
DROPPED = [
    (b"connection", b"x-foo"),
    (b"x-foo", b"1"),
    (b"keep-alive", b"timeout=5"),
    (b"transfer-encoding", b"chunked"),
    (b"content-length", b"3"),
    (b"content-encoding", b"gzip"),
    (b"upgrade", b"h2c"),
    (b"proxy-authenticate", b"x"),
    (b"www-authenticate", b"x"),
    (b"set-cookie", b"a=b"),
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"x"),
    (b"server", b"llama.cpp"),
    (b"date", b"today"),
    (b"anthropic-organization-id", b"secret"),
    (b"strict-transport-security", b"x"),
    (b"llmgate-upstream", b"not theirs to say"),
]


def test_of_an_answer_those_on_the_list() -> None:
    mixed = [header for pair in zip(KEPT, DROPPED, strict=False) for header in pair] + DROPPED
    assert Upstream("a", FakeTransport()).returned_headers(FakeAnswer(mixed)) == KEPT
    assert {name for name, _ in KEPT[:7]} == RETURNED


def test_of_its_headers_none_tells_our_secrets() -> None:
    """Words of HTTP's own stay, be they values of a header of ours."""
    upstream = Upstream("a", FakeTransport(), api_key="our-own-key", headers=[(b"accept", b"application/json")])
    told = [
        (b"x-request-id", b"for our-own-key 7"),
        (b"x-ratelimit-owner", b"our-own-key"),
        (b"content-type", b"application/json"),
        (b"content-disposition", b"attachment; filename=our-own-key"),
    ]
    found = upstream.returned_headers(FakeAnswer(told), frozenset({b"content-disposition"}))
    assert found == [
        (b"x-request-id", b"for *** 7"),
        (b"x-ratelimit-owner", b"***"),
        (b"content-type", b"application/json"),
        (b"content-disposition", b"attachment; filename=***"),
    ]


def test_what_a_server_says_is_told_without_our_secrets() -> None:
    upstream = Upstream(
        "a",
        FakeTransport(),
        api_key="our-own-key",
        headers=[(b"authorization", b"Bearer fixed-0123"), (b"x-tenant", b"short")],
    )
    told = b'{"error":"not our-own-key, nor Bearer fixed-0123, nor fixed-0123, of short"}'
    assert upstream.without_secrets(told) == b'{"error":"not ***, nor ***, nor ***, of short"}'
