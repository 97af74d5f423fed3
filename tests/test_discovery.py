"""What servers say of themselves, asked of scripted ones: kind, slots, models, and what happens until they answer."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
from hands import hold_port
from puppet import LIVENESS_SECONDS, Connection, Puppet, refusing_port

from llmgate import discovery as discovery_module
from llmgate.admission.local import LocalAdmission
from llmgate.config.load import load
from llmgate.core.events import Alarm, Event, LimitsChanged
from llmgate.core.routing import Route
from llmgate.discovery import Discovery
from llmgate.errors import UnknownModel
from llmgate.fleet import make_gate, make_upstreams

MODELS = b'{"object":"list","data":[{"id":"qwen2.5:3b-instruct"},{"id":"other"}]}'
PROPS = b'{"total_slots":4,"model_path":"/m.gguf"}'
KINDS = {"/props", "/api/version", "/version"}
"""What is asked of a server that is none of those known."""
SPOKEN = "u is a server of no known kind and does not speak Messages"
MISSING = b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}"
LOADING = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\n{}"


def ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


class Server:
    """Answers by path; what it answers may be changed while it runs. `asked` has the paths that came."""

    def __init__(self, **answers: bytes) -> None:
        self.answers = {f"/{name.replace('_', '/')}": answer for name, answer in answers.items()}
        self.asked: list[str] = []

    async def script(self, connection: Connection) -> None:
        while True:
            request = await connection.read_request()
            path = request.line.split()[1].decode()
            self.asked.append(path)
            await connection.send(self.answers.get(path, MISSING))


class Bench:
    """A discovery over the upstreams of some settings, running."""

    def __init__(self, upstreams: dict[str, dict[str, Any]], **server: Any) -> None:
        overrides = {"upstreams": upstreams} | ({"server": server} if server else {})
        self.settings = load(None, environ={}, overrides=overrides).settings
        self.events: list[Event] = []
        self.routed = 0
        gates = [make_gate(name, upstream) for name, upstream in self.settings.upstreams.items()]
        self.admission = LocalAdmission(gates, self.events.append)
        self.upstreams = make_upstreams(self.settings, {})
        self.discovery = Discovery(self.settings, self.upstreams, self.admission, self.on_routes)

    def on_routes(self) -> None:
        self.routed += 1

    def slots(self, name: str = "u") -> int:
        return self.admission.gate(name).limits.max_concurrent

    def alarms(self, name: str = "u") -> dict[Alarm, str]:
        return self.admission.gate(name).statistics().alarms

    def listed(self) -> list[str]:
        return [name for name, _ in self.discovery.routes().models()]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIVENESS_SECONDS):
            while not condition():  # noqa: ASYNC110  nothing tells when a server's answer has been taken in
                await asyncio.sleep(0.002)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.get_running_loop().create_task(self.discovery.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            for upstream in self.upstreams.values():
                await upstream.aclose()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery_module, "FIRST_RETRY_SECONDS", 0.005)
    monkeypatch.setattr(discovery_module, "LAST_RETRY_SECONDS", 0.02)
    monkeypatch.setattr(discovery_module, "REFRESH_SECONDS", 0.01)


# ---- slots


async def test_auto_takes_the_servers_own_slots(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(props=ok(PROPS))
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, "models": ["m"], "max_concurrent": "auto", "max_queued": 5}})
        assert bench.slots() == 1
        with caplog.at_level(logging.INFO, "llmgate"):
            async with bench.running():
                await bench.until(lambda: bench.slots() == 4)
                await bench.until(lambda: server.asked.count("/props") > 2)
    assert caplog.messages == ["u max_concurrent is 4: the server's own slots", SPOKEN]
    (changed,) = bench.events
    assert isinstance(changed, LimitsChanged)
    assert (changed.new.max_concurrent, changed.new.max_queued) == (4, 5)


@pytest.mark.parametrize("props", [MISSING, ok(b"{}"), ok(b"no json"), ok(b'{"total_slots":0}')])
async def test_a_server_that_does_not_tell_has_one(props: bytes, caplog: pytest.LogCaptureFixture) -> None:
    server = Server(props=props, v1_models=ok(MODELS))
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, "max_concurrent": "auto"}})
        with caplog.at_level(logging.INFO, "llmgate"):
            async with bench.running():
                await bench.until(lambda: server.asked.count("/v1/models") > 2)
    assert (bench.slots(), bench.events) == (1, [])
    assert caplog.messages[0] == "u max_concurrent is 1: the server does not tell how many slots it has"
    assert [text for text in caplog.messages if "max_concurrent" in text] == caplog.messages[:1]


async def test_a_number_in_the_settings_is_not_changed() -> None:
    server = Server(props=ok(PROPS), v1_models=ok(MODELS))
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, "max_concurrent": 2}})
        async with bench.running():
            await bench.until(lambda: bench.routed == 1)
    assert (bench.slots(), bench.events) == (2, [])


async def test_an_operators_auto_is_asked_for_at_once_and_followed(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(props=ok(PROPS), v1_models=ok(MODELS))
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, "models": ["m"], "max_concurrent": 9, "kind": "llama-server"}})
        discovery = bench.discovery
        async with bench.running():
            await bench.until(lambda: "mismatch" in bench.alarms())
            assert not discovery.follows("u")
            with caplog.at_level(logging.INFO, "llmgate"):
                assert await discovery.follow_slots("u") == 4
            told = [line for line in caplog.messages if "max_concurrent" in line]
            assert told == ["u max_concurrent is 4: the server's own slots"], "beside what it is asked meanwhile"
            assert (discovery.follows("u"), discovery.auto_cap("u"), bench.alarms()) == (True, 4, {})
            limits = bench.admission.gate("u").limits
            bench.admission.set_limits("u", msgspec.structs.replace(limits, max_concurrent=4))
            server.answers["/props"] = ok(b'{"total_slots":6}')
            await bench.until(lambda: bench.slots() == 6)
            discovery.pin("u")
            server.answers["/props"] = ok(b'{"total_slots":8}')
            asked = server.asked.count("/props")
            await bench.until(lambda: server.asked.count("/props") > asked + 2)
            assert (bench.slots(), discovery.follows("u")) == (6, False), "a number is an operator's own"


@pytest.mark.parametrize("written", ["auto", 1])
async def test_an_operators_number_above_the_slots_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch, written: int | str
) -> None:
    """Not only when the server is asked again."""
    monkeypatch.setattr(discovery_module, "REFRESH_SECONDS", 3600.0)
    server = Server(props=ok(PROPS), v1_models=ok(MODELS))
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, "max_concurrent": written}})
        async with bench.running():
            await bench.until(lambda: bench.upstreams["u"].cards != {})
            for number, has_fewer in ((5, True), (4, False)):
                bench.discovery.pin("u")
                limits = msgspec.structs.replace(bench.admission.gate("u").limits, max_concurrent=number)
                bench.admission.set_limits("u", limits)
                await bench.until(lambda has_fewer=has_fewer: ("mismatch" in bench.alarms()) is has_fewer)


async def test_an_operators_auto_waits_for_no_server_and_is_followed_when_that_answers() -> None:
    server = Server(props=LOADING)
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, "models": ["m"], "max_concurrent": 9}})
        async with bench.running():
            assert await bench.discovery.follow_slots("u") == 9
            server.answers["/props"] = ok(PROPS)
            await bench.until(lambda: bench.slots() == 4)


async def test_an_operators_auto_stays_until_the_settings_say_something_else() -> None:
    server = Server(props=ok(PROPS))
    async with Puppet(server.script) as puppet:
        one = {"url": puppet.url, "models": ["m"], "max_concurrent": 9}
        bench = Bench({"u": one})
        await bench.discovery.follow_slots("u")
        for changed, follows in (({"max_queued": 3}, True), ({"max_concurrent": 8}, False)):
            new = load(None, environ={}, overrides={"upstreams": {"u": {**one, **changed}}}).settings
            bench.discovery.replace(new, bench.upstreams, {"u": "u"})
            assert bench.discovery.follows("u") is follows
        await bench.upstreams["u"].aclose()


async def test_of_several_endpoints_auto_is_no_bound_on_all_together() -> None:
    bench = Bench({"u": {"endpoints": [{"url": "http://127.0.0.1:1", "max_concurrent": 2}], "models": ["m"]}})
    assert await bench.discovery.follow_slots("u") == 0
    assert not bench.discovery.follows("u")


async def test_one_that_tells_its_slots_after_it_told_none_is_followed() -> None:
    server = Server(props=MISSING)
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, "models": ["m"], "max_concurrent": 3}})
        auto = {"u": {"url": puppet.url, "models": ["m"], "max_concurrent": "auto"}}
        new = load(None, environ={}, overrides={"upstreams": auto}).settings
        bench.discovery.replace(new, bench.upstreams, {"u": "u"})
        async with bench.running():
            await bench.until(lambda: bench.slots() == 1)
            server.answers["/props"] = ok(PROPS)
            await bench.until(lambda: bench.slots() == 4)


async def test_a_server_that_is_loading_is_asked_again() -> None:
    server = Server(props=LOADING, v1_models=LOADING)
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, "max_concurrent": "auto"}})
        async with bench.running():
            await bench.until(lambda: server.asked.count("/props") > 3)
            assert (bench.slots(), bench.routed) == (1, 0)
            server.answers["/props"] = ok(PROPS)
            await bench.until(lambda: server.asked.count("/v1/models") > 3)
            assert (bench.slots(), bench.routed) == (4, 0)
            server.answers["/v1/models"] = ok(MODELS)
            await bench.until(lambda: bench.routed == 1)


async def test_a_server_that_comes_back_with_other_slots_is_followed(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(props=ok(PROPS), v1_models=ok(MODELS))
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, "max_concurrent": "auto"}})
        with caplog.at_level(logging.INFO, "llmgate"):
            async with bench.running():
                await bench.until(lambda: bench.slots() == 4)
                server.answers["/props"] = ok(b'{"total_slots":2}')
                await bench.until(lambda: bench.slots() == 2)
                server.answers["/props"] = MISSING
                await bench.until(lambda: bench.slots() == 1)
    assert [text for text in caplog.messages if "max_concurrent" in text] == [
        "u max_concurrent is 4: the server's own slots",
        "u max_concurrent is 2: the server's own slots",
        "u max_concurrent is 1: the server does not tell how many slots it has",
    ]


async def test_the_pauses_between_two_tries_grow_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    forever = asyncio.Event()

    async def note(_: Any, seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) >= 6:
            await forever.wait()

    with refusing_port() as port:
        bench = Bench({"u": {"url": f"http://127.0.0.1:{port}", "max_concurrent": 1}})
        monkeypatch.setattr(discovery_module, "FIRST_RETRY_SECONDS", 0.5)
        monkeypatch.setattr(discovery_module, "LAST_RETRY_SECONDS", 10.0)
        monkeypatch.setattr(discovery_module, "_pause", note)
        async with bench.running():
            await bench.until(lambda: len(pauses) == 6)
    assert pauses == [0.5, 1, 2, 4, 8, 10]


# ---- models and routes


async def test_models_become_routes_when_they_appear(caplog: pytest.LogCaptureFixture) -> None:
    server, other = Server(v1_models=ok(MODELS)), Server(v1_models=ok(b'{"data":[{"id":"reasoning"}]}'))
    async with Puppet(server.script) as one, Puppet(other.script) as two:
        upstreams = {"a": {"url": one.url, "max_concurrent": 1}, "b": {"url": two.url, "max_concurrent": 1}}
        bench = Bench(upstreams)
        with pytest.raises(UnknownModel, match="none is known yet"):
            bench.discovery.routes().find("other")
        with caplog.at_level(logging.INFO, "llmgate"):
            async with bench.running():
                await bench.until(lambda: bench.routed == 2)
        assert bench.discovery.routes().find("other") == Route("a", "other")
        assert bench.discovery.routes().find("reasoning") == Route("b", "reasoning")
        with pytest.raises(UnknownModel):
            bench.discovery.routes().find("nobody's")
    assert sorted(line for line in caplog.messages if " serves " in line) == [
        "a serves qwen2.5:3b-instruct, other",
        "b serves reasoning",
    ]


async def test_a_list_of_thousands_is_one_short_line(caplog: pytest.LogCaptureFixture) -> None:
    names = ["x" * 1000, *(f"m{number}" for number in range(5000))]
    server = Server(v1_models=ok(json.dumps({"data": [{"id": name} for name in names]}).encode()))
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, "max_concurrent": 1}})
        with caplog.at_level(logging.INFO, "llmgate"):
            async with bench.running():
                await bench.until(lambda: bench.routed == 1)
    assert bench.listed() == names
    (line,) = [line for line in caplog.messages if " serves " in line]
    assert line.startswith(f"u serves {'x' * 100}, m0, m1, ")
    assert line.endswith(", m18 and 4981 more")


async def test_models_that_change_change_the_routes() -> None:
    server = Server(v1_models=ok(MODELS))
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, "max_concurrent": 1}})
        async with bench.running():
            await bench.until(lambda: bench.routed == 1)
            asked = len(server.asked)
            await bench.until(lambda: len(server.asked) > asked + 2)
            assert bench.routed == 1, "the same again is no news"
            server.answers["/v1/models"] = ok(b'{"data":[{"id":"new"}]}')
            await bench.until(lambda: bench.routed == 2)
            assert bench.listed() == ["new"]


async def test_a_server_that_goes_away_keeps_its_models() -> None:
    server = Server(v1_models=ok(MODELS))
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, "max_concurrent": 1}})
        async with bench.running():
            await bench.until(lambda: bench.routed == 1)
            server.answers["/v1/models"] = LOADING
            asked = len(server.asked)
            await bench.until(lambda: len(server.asked) > asked + 2)
            assert bench.listed() == ["qwen2.5:3b-instruct", "other"]


@pytest.mark.parametrize("models", [MISSING, ok(b"[]"), ok(b'{"data":[]}')])
async def test_a_server_without_a_list(models: bytes, caplog: pytest.LogCaptureFixture) -> None:
    server = Server(v1_models=models)
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, "max_concurrent": 1}})
        with caplog.at_level(logging.INFO, "llmgate"):
            async with bench.running():
                await bench.until(lambda: server.asked.count("/v1/models") > 3)
    assert bench.routed == 1
    assert caplog.messages == [SPOKEN, "u serves models that it does not list"]


async def test_a_refused_connection_is_tried_until_the_server_is_there(caplog: pytest.LogCaptureFixture) -> None:
    with refusing_port() as port:
        bench = Bench({"u": {"url": f"http://127.0.0.1:{port}", "max_concurrent": "auto"}})
        with caplog.at_level(logging.DEBUG, "llmgate"):
            async with bench.running():
                await bench.until(lambda: len(caplog.messages) > 3)
    assert (bench.slots(), bench.routed) == (1, 0)
    assert all(message.startswith("u does not tell what it serves: llmgate:") for message in caplog.messages)
    assert {record.levelname for record in caplog.records} == {"DEBUG"}, "no line a second in the log"


async def test_a_server_that_is_down_keeps_no_other_waiting() -> None:
    server = Server(v1_models=ok(MODELS))
    with refusing_port() as port:
        async with Puppet(server.script) as puppet:
            down = {"url": f"http://127.0.0.1:{port}", "max_concurrent": 1}
            bench = Bench({"down": down, "up": {"url": puppet.url, "max_concurrent": 1}})
            async with bench.running():
                await bench.until(lambda: bench.routed == 1)
                assert bench.discovery.routes().find("other").upstream == "up"


# ---- the table


def routes_of(upstreams: dict[str, dict[str, Any]], **server: Any) -> Any:
    async def main() -> Any:
        return Bench(upstreams, **server).discovery.routes()

    return asyncio.run(main())


URL = {"url": "http://127.0.0.1:9", "max_concurrent": 1}


def test_an_only_upstream_without_models_takes_everything() -> None:
    assert routes_of({"u": URL}).find("whatever") == Route("u", "whatever")


def test_an_only_upstream_with_models_takes_those() -> None:
    routes = routes_of({"u": {**URL, "models": ["m"], "aliases": {"fast": "m"}}})
    assert routes.find("fast") == Route("u", "m")
    with pytest.raises(UnknownModel):
        routes.find("whatever")


def test_of_two_upstreams_none_takes_everything() -> None:
    with pytest.raises(UnknownModel):
        routes_of({"a": URL, "b": {**URL, "url": "http://127.0.0.1:10"}}).find("whatever")


def test_the_default_upstream_takes_the_rest() -> None:
    upstreams = {"a": {**URL, "models": ["m"]}, "b": {**URL, "url": "http://127.0.0.1:10", "models": ["n"]}}
    routes = routes_of(upstreams, default_upstream="a")
    assert (routes.find("n"), routes.find("whatever")) == (Route("b", "n"), Route("a", "whatever"))


async def test_what_a_glob_stands_for_is_listed_and_followed(caplog: pytest.LogCaptureFixture) -> None:
    server, other = Server(v1_models=ok(MODELS)), Server(v1_models=ok(b'{"data":[{"id":"other"},{"id":"big"}]}'))
    async with Puppet(server.script) as one, Puppet(other.script) as two:
        all_of_it = {"url": one.url, "models": ["*"], "aliases": {"fast": "other"}, "max_concurrent": 1}
        bench = Bench({"a": all_of_it, "b": {"url": two.url, "models": ["big"], "max_concurrent": 1}})
        assert bench.listed() == ["big", "fast"]
        with caplog.at_level(logging.INFO, "llmgate"):
            async with bench.running():
                await bench.until(lambda: bench.listed() == ["big", "qwen2.5:3b-instruct", "other", "fast"])
                assert bench.routed == 1
                server.answers["/v1/models"] = ok(b'{"data":[{"id":"new"},{"id":"big"}]}')
                await bench.until(lambda: bench.routed == 2)
                assert bench.listed() == ["big", "new", "fast"]
                assert bench.discovery.routes().find("big") == Route("b", "big"), "the settings name it"
    assert [line for line in caplog.messages if " serves " in line] == []


@pytest.mark.parametrize("models", [MISSING, b"HTTP/1.1 401 X\r\ncontent-length: 0\r\n\r\n"])
async def test_a_glob_needs_no_list(models: bytes) -> None:
    server = Server(v1_models=models, props=ok(PROPS))
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, "models": ["*"], "max_concurrent": "auto"}})
        async with bench.running():
            await bench.until(lambda: server.asked.count("/v1/models") > 2)
            assert bench.routed == 1, "a refusal is an answer"
            assert (bench.slots(), bench.listed()) == (4, [])
            assert bench.discovery.routes().find("whatever") == Route("u", "whatever")
            assert bench.upstreams["u"].speech.messages is False, "the rest is asked all the same"


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_where_the_settings_say_what_it_is_and_serves_only_its_models_are_asked(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(v1_models=ok(b'{"data":[{"id":"m","context_window":4096}]}'), props=ok(PROPS))
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, **SET, "kind": kind}})
        with caplog.at_level(logging.INFO, "llmgate"):
            async with bench.running():
                await bench.until(lambda: "m" in bench.upstreams["u"].cards)
                assert bench.upstreams["u"].cards["m"].context_window == 4096
                await bench.until(lambda: len(server.asked) > 2)
    assert set(server.asked) == {"/v1/models"}
    assert (bench.listed(), bench.routed, caplog.messages) == (["m"], 0, [])


# ---- kinds

SET = {"models": ["m"], "max_concurrent": 1}
"""Settings that leave nothing to the server but its kind."""
LLAMA_PROPS = ok(b'{"default_generation_settings":{"n_ctx":4096},"total_slots":4}')
NOTHING_ASKED = b"HTTP/1.1 400 X\r\ncontent-length: 2\r\n\r\n{}"
LLAMA = "u is a llama-server and speaks Messages"


def kinds_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if line.startswith("u is ")]


async def test_what_a_server_is_is_asked_once_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(props=LLAMA_PROPS, v1_messages=NOTHING_ASKED, v1_models=ok(MODELS))
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, **SET}})
        with caplog.at_level(logging.INFO, "llmgate"):
            async with bench.running():
                await bench.until(lambda: server.asked.count("/v1/models") > 3)
        speech = bench.upstreams["u"].speech
        assert (speech.kind, speech.messages) == ("llama-server", True)
    assert server.asked.count("/v1/messages") == 1
    assert caplog.messages == [LLAMA]
    assert bench.routed == 0
    assert bench.listed() == ["m"], "the settings say what it serves"
    assert bench.alarms() == {}


async def test_a_server_that_says_nothing_of_messages_is_not_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(props=LLAMA_PROPS, v1_messages=LOADING)
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, **SET}})
        with caplog.at_level(logging.INFO, "llmgate"):
            async with bench.running():
                await bench.until(lambda: server.asked.count("/v1/models") > 3)
        assert bench.upstreams["u"].speech.messages is None
    assert server.asked.count("/v1/messages") == 1
    assert caplog.messages == ["u is a llama-server"]


async def test_a_kind_in_the_settings_is_not_asked_for_but_whether_it_speaks_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server(props=LLAMA_PROPS)
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, "kind": "vllm", **SET}})
        with caplog.at_level(logging.INFO, "llmgate"):
            async with bench.running():
                await bench.until(lambda: server.asked.count("/v1/models") > 1)
        speech = bench.upstreams["u"].speech
        assert (speech.kind, speech.messages) == ("vllm", False)
    assert set(server.asked) == {"/v1/messages", "/v1/models"}
    assert caplog.messages == ["u is a vLLM and does not speak Messages"]


async def test_of_a_kind_that_says_it_nothing_is_asked_and_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(v1_models=ok(MODELS))
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, "kind": "openai", "max_concurrent": 1}})
        with caplog.at_level(logging.INFO, "llmgate"):
            async with bench.running():
                await bench.until(lambda: len(server.asked) > 1)
    assert set(server.asked) == {"/v1/models"}
    assert kinds_in(caplog) == []


async def test_one_that_was_down_and_is_back_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    llama = Server(props=LLAMA_PROPS, v1_messages=NOTHING_ASKED)
    other = Server()
    with hold_port() as holder:
        port = holder.getsockname()[1]
        bench = Bench({"u": {"url": f"http://127.0.0.1:{port}", **SET}})
        asked, speech = bench.discovery._servers["u"], bench.upstreams["u"].speech
        with caplog.at_level(logging.INFO, "llmgate"):
            async with bench.running():
                for server in (llama, other, llama, llama):
                    async with Puppet(server.script, port=port):
                        await bench.until(lambda: asked.asked)
                        assert speech.messages is (server is llama)
                    await bench.until(lambda: not asked.asked)
    assert kinds_in(caplog) == [LLAMA, SPOKEN, LLAMA], "the same again is no news"


async def test_one_that_is_told_to_be_back_is_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery_module, "REFRESH_SECONDS", 3600)
    server = Server(props=LLAMA_PROPS, v1_messages=NOTHING_ASKED)
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, **SET}})
        speech = bench.upstreams["u"].speech
        async with bench.running():
            await bench.until(lambda: speech.messages is True)
            server.answers.clear()
            bench.discovery.ask_again("u")
            assert (speech.messages, speech.counts) == (None, True)
            await bench.until(lambda: speech.messages is False)
            assert speech.kind == "auto"


# ---- what it tells of its models


async def test_what_a_server_tells_of_its_models_is_kept_and_renewed() -> None:
    server = Server(props=LLAMA_PROPS, v1_models=ok(b'{"data":[{"id":"gemma","meta":{"size":9}}]}'))
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, **SET}})
        upstream = bench.upstreams["u"]
        async with bench.running():
            await bench.until(lambda: list(upstream.cards) == ["gemma"])
            assert (upstream.cards["gemma"].context_window, upstream.cards["gemma"].size) == (4096, 9)
            server.answers["/v1/models"] = ok(b'{"data":[{"id":"new"}]}')
            await bench.until(lambda: list(upstream.cards) == ["new"])


# ---- several endpoints


async def test_each_endpoint_is_asked_for_itself() -> None:
    llama = Server(props=LLAMA_PROPS, v1_messages=NOTHING_ASKED, v1_models=ok(MODELS))
    other = Server(props=ok(b"{}"), v1_models=ok(b'{"data":[{"id":"other"},{"id":"more"}]}'))
    async with Puppet(llama.script) as one, Puppet(other.script) as two:
        endpoints = [{"url": puppet.url, "max_concurrent": "auto"} for puppet in (one, two)]
        bench = Bench({"u": {"endpoints": endpoints}})
        async with bench.running():
            await bench.until(lambda: bench.listed() == ["qwen2.5:3b-instruct", "other", "more"])
            await bench.until(lambda: bench.upstreams["u#2"].speech.messages is False)
            caps = {name: told.max_concurrent for name, told in bench.admission.gate("u").endpoints().items()}
        assert caps == {"u": 4, "u#2": 1}
        assert [bench.upstreams[name].speech.kind for name in ("u", "u#2")] == ["llama-server", "auto"]


# ---- fewer slots than the settings say

SLOTS = b'{"default_generation_settings":{"n_ctx":4096},"total_slots":%d}'


@pytest.mark.parametrize(("cap", "alarms"), [(5, {"mismatch"}), (4, set()), (3, set()), (0, set())])
async def test_a_server_with_too_few_slots_is_an_alarm(cap: int, alarms: set[str]) -> None:
    server = Server(props=LLAMA_PROPS, v1_messages=NOTHING_ASKED, v1_models=ok(MODELS))
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, **SET, "max_concurrent": cap}})
        async with bench.running():
            await bench.until(lambda: server.asked.count("/v1/models") > 1)
        assert bench.slots() == cap, "the settings win"
        assert set(bench.alarms()) == alarms
        assert all("fewer slots (4) than max_concurrent" in text for text in bench.alarms().values())


async def test_so_is_one_that_is_known_by_nothing_but_its_count_of_slots(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(props=ok(PROPS), v1_models=ok(MODELS))
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, **SET, "max_concurrent": 7}})
        with caplog.at_level(logging.INFO, "llmgate"):
            async with bench.running():
                await bench.until(lambda: "mismatch" in bench.alarms())
                server.answers["/props"] = ok(SLOTS % 7)
                await bench.until(lambda: bench.alarms() == {})
    assert kinds_in(caplog) == [SPOKEN]


@pytest.mark.parametrize("props", [MISSING, MISSING.replace(b"404", b"401"), ok(b"{}")])
async def test_one_that_tells_no_slots_is_not_asked_for_them_again(props: bytes) -> None:
    server = Server(props=props, v1_models=ok(MODELS))
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, "max_concurrent": 7}})
        async with bench.running():
            await bench.until(lambda: server.asked.count("/v1/models") > 3)
    assert (server.asked.count("/props"), bench.alarms()) == (1, {})


async def test_the_alarm_ends_when_the_server_has_enough() -> None:
    server = Server(props=ok(SLOTS % 1), v1_messages=NOTHING_ASKED, v1_models=ok(MODELS))
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, **SET, "max_concurrent": 2}})
        async with bench.running():
            await bench.until(lambda: "mismatch" in bench.alarms())
            server.answers["/props"] = ok(SLOTS % 2)
            await bench.until(lambda: bench.alarms() == {})


async def test_one_endpoint_with_too_few_slots_is_enough() -> None:
    enough = Server(props=ok(SLOTS % 4), v1_messages=NOTHING_ASKED, v1_models=ok(MODELS))
    few = Server(props=ok(SLOTS % 1), v1_messages=NOTHING_ASKED, v1_models=ok(MODELS))
    async with Puppet(enough.script) as one, Puppet(few.script) as two:
        endpoints = [{"url": puppet.url, "max_concurrent": 2} for puppet in (one, two)]
        bench = Bench({"u": {"endpoints": endpoints, "models": ["m"]}})
        async with bench.running():
            await bench.until(lambda: "mismatch" in bench.alarms())
            await bench.until(lambda: enough.asked.count("/v1/models") > 2)
            assert "mismatch" in bench.alarms()


SGLANG_MODELS = b'{"data":[{"id":"qwen","owned_by":"sglang","max_model_len":32768}]}'
SGLANG_INFO = b'{"max_running_requests":null,"internal_states":[{"effective_max_running_requests_per_dp":7}]}'


def sglang(**answers: bytes) -> Server:
    server = Server(v1_models=ok(SGLANG_MODELS), **answers)
    server.answers["/server_info"] = ok(SGLANG_INFO)
    return server


async def test_an_sglang_is_found_with_its_slots(caplog: pytest.LogCaptureFixture) -> None:
    """It is of the kind "openai", and speaks Messages all the same where it says so."""
    server = sglang(v1_messages=b"HTTP/1.1 400 Bad\r\ncontent-length: 2\r\n\r\n{}")
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, "max_concurrent": "auto"}})
        with caplog.at_level(logging.INFO, "llmgate"):
            async with bench.running():
                await bench.until(lambda: bench.upstreams["u"].cards != {})
        speech = bench.upstreams["u"].speech
        assert (speech.kind, speech.messages, bench.slots()) == ("openai", True, 7)
    assert "u is an SGLang and speaks Messages" in caplog.messages


async def test_a_limit_above_an_sglangs_slots_is_told() -> None:
    server = sglang()
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, "max_concurrent": 8}})
        async with bench.running():
            await bench.until(lambda: "mismatch" in bench.alarms())


async def test_what_a_request_learnt_before_the_first_answer_is_kept() -> None:
    """A request may find out that there is no such path while the first questions are still open."""
    server = Server(v1_models=ok(MODELS), v1_messages=MISSING.replace(b"404", b"401"))
    async with Puppet(server.script) as puppet:
        bench = Bench({"u": {"url": puppet.url, **SET}})
        async with bench.running():
            speech = bench.upstreams["u"].speech
            speech.messages, speech.tokenizes = False, False
            await bench.until(lambda: server.asked.count("/v1/models") > 1)
            assert (speech.messages, speech.tokenizes) == (False, False)


async def test_one_that_was_gone_is_not_known_any_more() -> None:
    with refusing_port() as port:
        bench = Bench({"u": {"url": f"http://127.0.0.1:{port}", **SET}})
        bench.discovery._servers["u"].asked = True
        speech = bench.upstreams["u"].speech
        speech.messages, speech.tokenizes = False, False
        async with bench.running():
            await bench.until(lambda: not bench.discovery._servers["u"].asked)
            assert (speech.messages, speech.tokenizes) == (None, True)


# ---- after a reload


async def test_other_settings_are_asked_for_and_what_is_known_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery_module, "REFRESH_SECONDS", 60)
    server = Server(props=ok(PROPS), v1_models=ok(MODELS))
    async with Puppet(server.script) as puppet:
        one = {"url": puppet.url, "max_concurrent": "auto"}
        bench = Bench({"u": one, "gone": {"url": puppet.url, "max_concurrent": 1, "models": ["m"]}})
        async with bench.running():
            await bench.until(lambda: bench.slots() == 4 and "other" in bench.listed())
            asked = len(server.asked)
            new = load(None, environ={}, overrides={"upstreams": {"u": {**one, "aliases": {"fast": "other"}}}}).settings
            bench.discovery.replace(new, {"u": bench.upstreams["u"]}, {"u": "u"})
            assert bench.discovery.slots("u") == 4
            assert bench.listed() == ["qwen2.5:3b-instruct", "other", "fast"]
            await bench.until(lambda: len(server.asked) > asked)
            bench.discovery.ask_again("gone")


async def test_a_fault_of_ours_ends_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever a server tells: the others are asked, and the daemon lives."""
    true = Discovery._note_models

    def note_models(self: Discovery, server: Any, models: tuple[str, ...]) -> None:
        if server.name == "bad":
            raise ZeroDivisionError
        true(self, server, models)

    monkeypatch.setattr(Discovery, "_note_models", note_models)
    async with Puppet(Server(v1_models=ok(MODELS)).script) as puppet:
        bench = Bench({name: {"url": puppet.url, "max_concurrent": 1} for name in ("bad", "good")})
        async with bench.running():
            await bench.until(lambda: "other" in bench.listed() and "bad could not be asked" in caplog.text)
