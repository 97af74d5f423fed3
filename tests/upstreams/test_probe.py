"""What a server says of itself: models and slots, in every way it may say it or not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from puppet import Connection, refusing_port

from llmgate.errors import UpstreamDown, UpstreamFailed
from llmgate.upstreams import probe
from llmgate.upstreams.probe import ask_models, ask_slots
from llmgate.upstreams.upstream import Upstream


def answer(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body)


NOTHING = [
    (404, b'{"error":"no"}'),
    (405, b""),
    (501, b"no"),
    (200, b""),
    (200, b"<html>"),
    (200, b"{}"),
    (200, b"[]"),
    (200, b"null"),
    (200, b"\xff"),
    (200, b"[" * 100_000),
]
MODELS = [
    (b'{"data":[]}', ()),
    (b'{"object":"list","data":[{"id":"m"},{"id":"org/n","owned_by":"x"}],"more":1}', ("m", "org/n")),
    (b'{"data":[{"name":"m"}]}', None),
    (b'{"data":[{"id":3}]}', None),
    (b'{"data":{"id":"m"}}', None),
]
SLOTS = [
    (b'{"total_slots":4,"other":[]}', 4),
    (b'{"total_slots":1}', 1),
    (b'{"total_slots":0}', None),
    (b'{"total_slots":-1}', None),
    (b'{"total_slots":"4"}', None),
    (b'{"total_slots":1.5}', None),
]


class Server:
    """Answers everything alike, on one connection after the other."""

    def __init__(self, reply: bytes) -> None:
        self.reply = reply
        self.asked: list[bytes] = []

    async def script(self, connection: Connection) -> None:
        while True:
            request = await connection.read_request()
            assert request.header(b"authorization") == b"Bearer k"
            self.asked.append(request.line)
            await connection.send(self.reply)


@pytest.fixture
def ask(start_puppet, connect_to):
    """`await ask(function, status, body)`: what it finds, and the request line."""

    async def asked(function, status, body):
        server = Server(answer(status, body))
        puppet = await start_puppet(server.script)
        found = await function(Upstream("a", connect_to(puppet.url), api_key="k", base_path="/base"))
        assert puppet.connections[0].requests[0].body == b""
        return found, server.asked

    return asked


@pytest.mark.parametrize(("body", "models"), MODELS)
async def test_models(ask, body: bytes, models: tuple[str, ...] | None) -> None:
    assert await ask(ask_models, 200, body) == (models, [b"GET /base/v1/models HTTP/1.1"])


@pytest.mark.parametrize(("body", "slots"), SLOTS)
async def test_slots(ask, body: bytes, slots: int | None) -> None:
    assert await ask(ask_slots, 200, body) == (slots, [b"GET /base/props HTTP/1.1"])


@pytest.mark.parametrize(("status", "body"), NOTHING)
@pytest.mark.parametrize("function", [ask_models, ask_slots])
async def test_one_that_does_not_tell(ask, function, status: int, body: bytes) -> None:
    assert (await ask(function, status, body))[0] is None


@pytest.mark.parametrize("function", [ask_models, ask_slots])
@pytest.mark.parametrize("status", [503, 500, 429, 401, 403, 302])
async def test_one_that_loads_or_will_not_say_has_told_nothing(ask, function, status: int) -> None:
    with pytest.raises(UpstreamFailed, match="does not tell"):
        await ask(function, status, b'{"data":[{"id":"m"}],"total_slots":3}')


@pytest.mark.parametrize("function", [ask_models, ask_slots])
async def test_one_that_does_not_answer(connect_to, start_puppet, function) -> None:
    with refusing_port() as port:
        transport = connect_to(f"http://127.0.0.1:{port}")
        with pytest.raises(UpstreamDown):
            await function(Upstream("a", transport))

    async def hang_up(connection: Connection) -> None:
        await connection.read_request()
        connection.close()

    puppet = await start_puppet(hang_up)
    with pytest.raises(UpstreamFailed):
        await function(Upstream("a", connect_to(puppet.url)))


async def test_an_endless_answer_is_not_read_to_its_end(ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_LIMIT", 10)
    with pytest.raises(UpstreamFailed, match="too long"):
        await ask(ask_models, 200, b'{"data":[{"id":"m"}]}')


@given(st.binary(max_size=60))
async def test_any_bytes(body: bytes) -> None:
    class Transport:
        async def open(self, *_: object):
            return self

        status, headers, ended = 200, (), True

        async def read(self, _: int) -> bytes:
            return body

        def close(self) -> None: ...

    upstream = Upstream("a", Transport())  # type: ignore[arg-type]
    assert await ask_slots(upstream) is None or body.strip().startswith(b"{")
    models = await ask_models(upstream)
    assert models is None or isinstance(models, tuple)
