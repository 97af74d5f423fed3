"""What a server says of itself, in every way it may say it or not; the answers are those of real servers, shortened."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from puppet import Connection, Request, refusing_port

from llmgate.errors import UpstreamDown, UpstreamFailed
from llmgate.protocols.model_card import ModelCard
from llmgate.upstreams import probe as probe_module
from llmgate.upstreams.probe import Probe
from llmgate.upstreams.upstream import Upstream

Answer = tuple[int, bytes]

MISSING: Answer = (404, b'{"error":{"code":404,"message":"File Not Found"}}')
PROPS = b'{"default_generation_settings":{"n_ctx":4096},"total_slots":4}'
DIGEST = "a" * 64


def ok(document: Any) -> Answer:
    return 200, json.dumps(document).encode()


def listed(*entries: Any) -> Answer:
    return ok({"object": "list", "data": list(entries)})


LLAMA = {
    "GET /props": (200, PROPS),
    "GET /v1/models": listed({"id": "gemma", "meta": {"n_ctx": 8192, "n_ctx_train": 32768, "size": 99}}),
    "POST /v1/messages": (500, b'{"error":{"code":500,"message":"\'messages\' is required","type":"server_error"}}'),
}
OLLAMA = {
    "GET /": (200, b"Ollama is running"),
    "GET /api/version": ok({"version": "0.12.6"}),
    "GET /v1/models": listed({"id": "a:latest", "owned_by": "library"}, {"id": "b:latest"}),
    "GET /api/tags": ok({"models": [{"name": "a:latest", "digest": DIGEST}, {"name": "b:latest"}]}),
    "POST /api/show": ok({"model_info": {"x.context_length": 2048}, "capabilities": ["completion"]}),
    "GET /api/ps": ok({"models": [{"name": "a:latest", "size_vram": 7}]}),
    "POST /v1/messages": (400, b'{"type":"error","error":{"message":"model is required"}}'),
}
VLLM = {
    "GET /version": ok({"version": "0.11.0"}),
    "GET /v1/models": listed({"id": "reasoning", "owned_by": "vllm", "max_model_len": 40960}),
    "POST /v1/messages": (422, b'{"detail":[{"msg":"Field required"}]}'),
}
SGLANG = {
    "GET /v1/models": listed({"id": "qwen", "owned_by": "sglang", "root": "qwen", "max_model_len": 32768}),
    "GET /server_info": ok(
        {"max_running_requests": None, "internal_states": [{"effective_max_running_requests_per_dp": 9}]}
    ),
    "POST /v1/messages": (400, b'{"type":"error","error":{"message":"1 validation error"}}'),
}
LM_STUDIO = {
    "GET /props": ok({"error": "Unexpected endpoint or method. (GET /props)"}),
    "GET /api/version": ok({"error": "Unexpected endpoint or method. (GET /api/version)"}),
    "GET /version": ok({"error": "Unexpected endpoint or method. (GET /version)"}),
    "POST /v1/messages": ok({"error": "Unexpected endpoint or method. (POST /v1/messages)"}),
}
LLMGATE = {
    "GET /": (200, b"llmgate is running"),
    "GET /api/version": ok({"version": "0.12.6", "llmgate": "1"}),
    "GET /v1/models": listed({"id": "m", "owned_by": "reasoning"}),
    "POST /v1/messages": (400, b'{"type":"error","error":{"message":"llmgate: the body names no model"}}'),
}


class Server:
    """Answers by method and path, under /base; `asked` has them in order."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.bodies: list[bytes] = []
        self.versions: list[bytes | None] = []

    async def script(self, connection: Connection) -> None:
        while True:
            request = await connection.read_request()
            status, body = self._answer(request)
            await connection.send(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))

    def _answer(self, request: Request) -> Answer:
        assert request.header(b"authorization") == b"Bearer k"
        assert (request.header(b"user-agent") or b"").startswith(b"llmgate/")
        method, path, _ = request.line.decode().split()
        question = f"{method} {path.removeprefix('/base')}"
        self.asked.append(question)
        self.bodies.append(request.body)
        self.versions.append(request.header(b"anthropic-version"))
        return self.answers.get(question, MISSING)


@pytest.fixture
def start(start_puppet, connect_to):
    """`await start(answers)`: a probe of a server that answers so, and the server."""

    async def started(answers: dict[str, Answer]) -> tuple[Probe, Server]:
        server = Server(answers)
        puppet = await start_puppet(server.script)
        return Probe(Upstream("a", connect_to(puppet.url), api_key="k", base_path="/base")), server

    return started


# ---- what it is


@pytest.mark.parametrize(
    ("answers", "kind", "messages", "asked"),
    [
        (LLAMA, "llama-server", True, ["GET /props"]),
        (OLLAMA, "ollama", True, ["GET /props", "GET /api/version", "GET /"]),
        (VLLM, "vllm", True, ["GET /props", "GET /api/version", "GET /version", "GET /v1/models"]),
        (SGLANG, "openai", True, ["GET /props", "GET /api/version", "GET /version", "GET /v1/models"]),
        (LM_STUDIO, "auto", False, ["GET /props", "GET /api/version", "GET /version", "GET /v1/models"]),
        (LLMGATE, "auto", True, ["GET /props", "GET /api/version", "GET /", "GET /version", "GET /v1/models"]),
        ({}, "auto", False, ["GET /props", "GET /api/version", "GET /version", "GET /v1/models"]),
    ],
    ids=["llama-server", "ollama", "vllm", "sglang", "lm-studio", "llmgate", "nothing"],
)
async def test_what_it_is(start, answers: dict[str, Answer], kind: str, messages: bool, asked: list[str]) -> None:
    probe, server = await start(answers)
    assert await probe.kind() == kind
    assert server.asked == asked
    assert await probe.messages() is messages
    assert (server.asked[-1], server.bodies[-1]) == ("POST /v1/messages", b"{}")
    assert server.bodies[:-1] == [b""] * len(asked)


@pytest.mark.parametrize("status", [401, 403, 400, 500, 302])
async def test_one_that_refuses_to_say_is_of_no_known_kind(start, status: int) -> None:
    probe, _ = await start(dict.fromkeys(["GET /props", "GET /api/version", "GET /version"], (status, PROPS)))
    assert await probe.kind() == "auto"


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_one_that_loads_has_not_said_what_it_is(start, status: int) -> None:
    probe, _ = await start({"GET /props": (status, PROPS)})
    with pytest.raises(UpstreamFailed, match="does not tell"):
        await probe.kind()


async def test_a_refusal_says_nothing_about_messages(start) -> None:
    probe, _ = await start({"POST /v1/messages": (401, b"")})
    assert await probe.messages() is None


# ---- slots and models


@pytest.mark.parametrize(
    ("body", "slots"),
    [
        (b'{"total_slots":4,"other":[]}', 4),
        (b'{"total_slots":1}', 1),
        (b'{"total_slots":0}', None),
        (b'{"total_slots":-1}', None),
        (b'{"total_slots":"4"}', None),
        (b'{"total_slots":1.5}', None),
        (b"", None),
        (b"<html>", None),
        (b"{}", None),
        (b"null", None),
        (b"\xff", None),
        (b"[" * 100_000, None),
    ],
)
async def test_slots(start, body: bytes, slots: int | None) -> None:
    probe, server = await start({"GET /props": (200, body)})
    assert await probe.slots() == slots
    assert server.asked[0] == "GET /props"


@pytest.mark.parametrize("path", ["GET /server_info", "GET /get_server_info"])
async def test_the_slots_of_an_sglang_of_any_age(start, path: str) -> None:
    answers = {"GET /v1/models": SGLANG["GET /v1/models"], path: SGLANG["GET /server_info"]}
    probe, server = await start(answers)
    assert await probe.slots() == 9
    asked = ["GET /props", "GET /v1/models", "GET /server_info", "GET /get_server_info"]
    assert server.asked == asked[: asked.index(path) + 1]


async def test_an_sglang_that_does_not_tell_its_slots(start) -> None:
    probe, _ = await start({"GET /v1/models": SGLANG["GET /v1/models"], "GET /server_info": (401, b"")})
    assert await probe.slots() is None


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        (listed(), []),
        (listed({"id": "m"}, {"id": "org/n", "owned_by": "x"}), ["m", "org/n"]),
        (ok({"data": [{"name": "m"}]}), []),
        (ok([]), []),
        (MISSING, []),
        ((405, b""), []),
        ((501, b"no"), []),
    ],
)
async def test_models(start, answer: Answer, names: list[str]) -> None:
    probe, server = await start({"GET /v1/models": answer})
    assert [card.name for card in await probe.models(needed=True)] == names
    assert server.asked == ["GET /v1/models"]


@pytest.mark.parametrize("status", [503, 500, 429, 401, 403, 302])
async def test_what_is_needed_is_not_told_by_one_that_loads_or_will_not_say(start, status: int) -> None:
    answer = (status, b'{"data":[{"id":"m"}],"total_slots":3}')
    probe, _ = await start({"GET /props": answer, "GET /v1/models": answer})
    with pytest.raises(UpstreamFailed, match="does not tell"):
        await probe.models(needed=True)
    with pytest.raises(UpstreamFailed, match="does not tell"):
        await probe.slots()


async def test_what_is_not_needed_may_be_refused(start) -> None:
    probe, _ = await start({"GET /v1/models": (401, b"")})
    assert await probe.models(needed=False) == ()


async def test_each_path_is_asked_once_in_a_round(start) -> None:
    probe, server = await start(LLAMA)
    assert (await probe.slots(), await probe.kind()) == (4, "llama-server")
    await probe.models(needed=True)
    await probe.cards("llama-server", {})
    assert server.asked == ["GET /props", "GET /v1/models"]


# ---- all that it tells of its models


async def test_a_llama_servers_model_has_what_one_slot_has(start) -> None:
    probe, _ = await start(LLAMA)
    card = ModelCard(name="gemma", context_window=4096, loaded=True, size=99)
    assert await probe.cards("llama-server", {}) == {"gemma": card}


@pytest.mark.parametrize("props", [MISSING, (200, b'{"default_generation_settings":{"n_ctx":0},"role":"router"}')])
async def test_a_router_of_several_models(start, props: Answer) -> None:
    entries = [{"id": "a", "status": {"value": "unloaded"}}, {"id": "b", "meta": {"n_ctx": 5}}]
    probe, _ = await start({"GET /props": props, "GET /v1/models": listed(*entries)})
    found = await probe.cards("llama-server", {})
    assert found == {"a": ModelCard(name="a", loaded=False), "b": ModelCard(name="b", context_window=5)}


async def test_what_one_slot_has_is_no_number_for_several_models(start) -> None:
    probe, _ = await start({**LLAMA, "GET /v1/models": listed({"id": "a"}, {"id": "b"})})
    assert await probe.cards("llama-server", {}) == {name: ModelCard(name=name) for name in "ab"}


@pytest.mark.parametrize("kind", ["vllm", "auto", "openai", "anthropic"])
async def test_the_others_tell_all_in_their_list(start, kind: Any) -> None:
    probe, server = await start(VLLM)
    assert await probe.cards(kind, {}) == {"reasoning": ModelCard(name="reasoning", context_window=40960)}
    assert server.asked == ["GET /v1/models"]


@pytest.mark.parametrize(("kind", "version"), [("anthropic", b"2023-06-01"), ("openai", None), ("auto", None)])
async def test_anthropic_wants_to_be_asked_in_a_version(start, kind: Any, version: bytes | None) -> None:
    probe, server = await start(VLLM)
    probe._upstream.speech.kind = kind
    assert await probe.models(needed=True)
    assert server.versions == [version]


async def test_an_ollama_is_asked_about_each_model_once(start) -> None:
    probe, server = await start(OLLAMA)
    first = await probe.cards("ollama", {})
    shown = {"context_window": 2048, "capabilities": ("completion",), "model_info": {"x.context_length": 2048}}
    assert first == {
        "a:latest": ModelCard(name="a:latest", digest=DIGEST, loaded=True, size_vram=7, **shown),
        "b:latest": ModelCard(name="b:latest", loaded=False, **shown),
    }
    assert sorted(body for body in server.bodies if body) == [b'{"model":"a:latest"}', b'{"model":"b:latest"}']

    server.answers = {**OLLAMA, "GET /api/ps": ok({"models": []})}
    server.asked.clear()
    again = Probe(probe._upstream)
    second = await again.cards("ollama", first)
    assert "POST /api/show" not in server.asked
    assert [card.loaded for card in second.values()] == [False, False]
    assert second["a:latest"].context_window == 2048

    changed = {"models": [{"name": "a:latest", "digest": "b" * 64}, {"name": "b:latest"}]}
    server.answers = {**OLLAMA, "GET /api/tags": ok(changed)}
    server.asked.clear()
    await Probe(probe._upstream).cards("ollama", second)
    assert server.asked.count("POST /api/show") == 1


async def test_an_ollama_that_does_not_show_is_asked_again_the_next_time(start) -> None:
    probe, server = await start({**OLLAMA, "POST /api/show": (500, b"")})
    cards = await probe.cards("ollama", {})
    assert cards["a:latest"] == ModelCard(name="a:latest", digest=DIGEST, loaded=True, size_vram=7)
    await Probe(probe._upstream).cards("ollama", cards)
    assert server.asked.count("POST /api/show") == 4


async def test_an_ollama_with_many_models_is_not_asked_about_all(start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_module, "SHOWN_MOST", 1)
    probe, server = await start(OLLAMA)
    cards = await probe.cards("ollama", {})
    assert server.asked.count("POST /api/show") == 1
    assert [card.context_window for card in cards.values()] == [2048, None]
    cards = await Probe(probe._upstream).cards("ollama", cards)
    assert [card.context_window for card in cards.values()] == [2048, 2048], "the next one in the next round"


async def test_an_old_ollama_without_all_of_that(start) -> None:
    probe, _ = await start({"GET /v1/models": listed({"id": "m"})})
    assert await probe.cards("ollama", {}) == {"m": ModelCard(name="m")}


# ---- one that does not answer


@pytest.mark.parametrize("method", ["slots", "kind", "messages"])
async def test_one_that_does_not_answer(connect_to, start_puppet, method: str) -> None:
    with refusing_port() as port, pytest.raises(UpstreamDown):
        await getattr(Probe(Upstream("a", connect_to(f"http://127.0.0.1:{port}"))), method)()

    async def hang_up(connection: Connection) -> None:
        await connection.read_request()
        connection.close()

    puppet = await start_puppet(hang_up)
    with pytest.raises(UpstreamFailed):
        await getattr(Probe(Upstream("a", connect_to(puppet.url))), method)()


async def test_an_endless_answer_is_not_read_to_its_end(start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_module, "_LIMIT", 10)
    probe, _ = await start(VLLM)
    with pytest.raises(UpstreamFailed, match="too long"):
        await probe.models(needed=True)


@given(st.binary(max_size=60))
async def test_any_bytes(body: bytes) -> None:
    class Transport:
        async def open(self, *_: object):
            return self

        status, headers, ended = 200, (), True

        async def read(self, _: int) -> bytes:
            return body

        def close(self) -> None: ...

    def probe() -> Probe:
        return Probe(Upstream("a", Transport()))  # type: ignore[arg-type]

    assert await probe().slots() is None or body.strip().startswith(b"{")
    assert await probe().kind() == "auto"
    assert await probe().cards("ollama", {}) == {}
    await probe().messages()
