"""Asks servers what they are, what they serve and how much at once, where the settings leave that to them, and keeps
the routes.

What a server is, is asked once, and again when it was down and is back: it may be another version then, or another
server. Its models, with all that it tells of them, are asked now and then.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping

import msgspec

from llmgate.admission.local import LocalAdmission
from llmgate.config.settings import Settings, UpstreamSettings
from llmgate.core.routing import Routes, Serves, is_glob
from llmgate.errors import GateError, UpstreamDown
from llmgate.fleet import UNKNOWN_SLOTS, endpoint_names
from llmgate.protocols.speech import MESSAGES_PATH, Kind, Speech
from llmgate.upstreams.probe import Probe
from llmgate.upstreams.upstream import Upstream

logger = logging.getLogger("llmgate")

FIRST_RETRY_SECONDS = 0.5
LAST_RETRY_SECONDS = 3.0
REFRESH_SECONDS = 60.0

_NAMES_TOLD = 20
_NAME_MOST = 100
"""Models, and letters of each, in one line of the log."""

_WHAT: Mapping[Kind, str] = {
    "auto": "a server of no known kind",
    "llama-server": "a llama-server",
    "ollama": "an Ollama",
    "vllm": "a vLLM",
    "openai": "a server of OpenAI's protocols",
    "anthropic": "a server of Anthropic's protocol",
}
_SGLANG = "an SGLang"
"""Of the kind "openai", but newer versions speak Messages too."""


class _Server:
    """One endpoint, and what it told last."""

    def __init__(
        self, name: str, owner: str, settings: UpstreamSettings, upstream: Upstream, *, tells_slots: bool
    ) -> None:
        self.name = name
        self.owner = owner
        """The upstream whose endpoint it is."""
        self.settings = settings
        self.upstream = upstream
        self.tells_slots = tells_slots
        """Its max_concurrent is "auto"."""
        self.slots: int | None = None
        """None: it told none."""
        self.slots_noted = False
        self.assumed = UNKNOWN_SLOTS
        """What its upstream's max_concurrent is until it has told its slots."""
        self.too_few = False
        """It has fewer slots than it gets requests at once."""
        self.models: tuple[str, ...] | None = None
        self.asked = False
        """What it is, since it was down."""
        self.is_sglang = False
        self.said = ""
        """What the log says that it is."""
        self.wake = asyncio.Event()

    def take_over(self, old: "_Server") -> None:
        """What the same server told before a reload."""
        self.models, self.said = old.models, old.said
        self.too_few = old.too_few and not self.tells_slots
        self.is_sglang = old.is_sglang
        self.asked = old.asked and self.upstream.speech is old.upstream.speech
        if self.tells_slots and old.tells_slots:
            self.slots, self.slots_noted = old.slots, old.slots_noted

    @property
    def tells_models(self) -> bool:
        """Its own list says what the upstream serves, or what its globs stand for."""
        models = self.settings.models
        return not models or any(is_glob(model) for model in models)


class Discovery:
    """Models, slots and kinds as the servers tell them. Their failure to answer is not held against them here."""

    def __init__(
        self,
        settings: Settings,
        upstreams: Mapping[str, Upstream],
        admission: LocalAdmission,
        on_routes: Callable[[], None],
    ) -> None:
        """`upstreams` by the name of the endpoint."""
        self._settings = settings
        self._admission = admission
        self._on_routes = on_routes
        self._servers = _servers_of(settings, upstreams)
        self._group: asyncio.TaskGroup | None = None
        """That of `run`."""
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def routes(self) -> Routes:
        """The table of what is known now.

        An only upstream without `models` gets every model: with one server there is nothing to choose.
        """
        configured = self._settings.upstreams
        told = {name: self._models_of(name) for name in configured}
        serves = {
            name: Serves(upstream.models or told[name], upstream.aliases, told[name])
            for name, upstream in configured.items()
        }
        default = self._settings.server.default_upstream
        if not default and len(configured) == 1:
            default = next((name for name, upstream in configured.items() if not upstream.models), "")
        return Routes(serves, default)

    def _models_of(self, owner: str) -> tuple[str, ...]:
        told = [server.models for server in self._servers.values() if server.owner == owner and server.models]
        return tuple(dict.fromkeys(model for models in told for model in models))

    def replace(self, settings: Settings, upstreams: Mapping[str, Upstream], kept: Mapping[str, str]) -> None:
        """Other settings and servers; `kept` is the old name of each that was one before, of which all stays known."""
        old, self._settings = self._servers, settings
        self._servers = _servers_of(settings, upstreams)
        for name, server in self._servers.items():
            there = old.get(kept.get(name, ""))
            if there is not None:
                server.take_over(there)
            if there is None or not there.tells_slots:
                server.assumed = self._admission.gate(server.owner).limits.max_concurrent
        for owner in settings.upstreams:
            if not any(server.too_few for server in self._servers.values() if server.owner == owner):
                self._admission.set_alarm(owner, "mismatch", None)
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
        self._follow_all()

    def slots(self, endpoint: str) -> int | None:
        """How many it told that it has; None: it told none."""
        return self._servers[endpoint].slots

    def ask_again(self, endpoint: str) -> None:
        """It was down and is back: whatever it told of itself is asked again, now."""
        server = self._servers.get(endpoint)
        if server is None:  # a reload took it away
            return
        _forget(server)
        server.wake.set()

    async def run(self) -> None:
        """Asks for ever: soon again while a server does not answer, now and then once it has."""
        async with asyncio.TaskGroup() as self._group:
            self._follow_all()
            await asyncio.Event().wait()

    def _follow_all(self) -> None:
        if self._group is not None:
            self._tasks = {
                name: self._group.create_task(self._follow(server)) for name, server in self._servers.items()
            }

    async def _follow(self, server: _Server) -> None:
        retry = FIRST_RETRY_SECONDS
        while True:
            pause = REFRESH_SECONDS
            try:
                await self._ask(server)
                retry = FIRST_RETRY_SECONDS
            except GateError as error:
                self._note_failure(server, error)
                pause, retry = retry, min(retry * 2, LAST_RETRY_SECONDS)
            except Exception:  # whatever it told: the others, and all requests, go on
                logger.exception("%s could not be asked what it serves", server.name)
            await _pause(server, pause)

    async def _ask(self, server: _Server) -> None:
        probe = Probe(server.upstream)
        if server.tells_slots:
            self._note_slots(server, await probe.slots())
        if not server.asked:
            await self._ask_speech(server, probe)
        if server.tells_models:
            cards = await probe.models(needed=not server.settings.models)
            self._note_models(server, tuple(card.name for card in cards))
        if not server.tells_slots and (server.upstream.speech.kind == "llama-server" or server.is_sglang):
            self._note_mismatch(server, await probe.slots())
        server.upstream.cards = await probe.cards(server.upstream.speech.kind, server.upstream.cards)

    async def _ask_speech(self, server: _Server, probe: Probe) -> None:
        """Once: a server that does not tell would not tell the next time."""
        speech, is_auto = server.upstream.speech, server.settings.kind == "auto"
        if is_auto:
            speech.kind = await probe.kind()
            server.is_sglang = speech.kind == "openai"  # nothing else is concluded to be of that kind
        unsure = server.is_sglang or speech.speaks(MESSAGES_PATH) is None
        if unsure and (told := await probe.messages()) is not None:
            speech.messages = told
        server.asked = True
        said = _describe(speech, _SGLANG if server.is_sglang else _WHAT[speech.kind])
        if server.said != said and (is_auto or speech.messages is not None):
            server.said = said
            logger.info("%s is %s", server.name, said)

    # ---- what was told

    def _note_slots(self, server: _Server, slots: int | None) -> None:
        if server.slots_noted and server.slots == slots:
            return
        before, cap = server.slots or server.assumed, slots or UNKNOWN_SLOTS
        server.slots, server.slots_noted = slots, True
        if slots is None:
            logger.info("%s max_concurrent is %d: the server does not tell how many slots it has", server.name, cap)
        else:
            logger.info("%s max_concurrent is %d: the server's own slots", server.name, cap)
        if server.settings.endpoints is None:
            limits = self._admission.gate(server.owner).limits
            if limits.max_concurrent == before:  # else an operator has set another one
                self._admission.set_limits(server.owner, msgspec.structs.replace(limits, max_concurrent=cap))
        else:
            self._admission.set_endpoint(server.owner, server.name, max_concurrent=cap)

    def _note_models(self, server: _Server, models: tuple[str, ...]) -> None:
        if models != server.models:
            server.models = models
            if not server.settings.models:
                logger.info("%s serves %s", server.name, _named(models) or "models that it does not list")
            self._on_routes()

    def _note_failure(self, server: _Server, error: GateError) -> None:
        if isinstance(error, UpstreamDown) and server.asked:
            _forget(server)
        logger.debug("%s does not tell what it serves: %s", server.name, error)

    def _note_mismatch(self, server: _Server, slots: int | None) -> None:
        """The settings win, loudly."""
        gate = self._admission.gate(server.owner)
        cap = gate.endpoints()[server.name].max_concurrent or gate.limits.max_concurrent
        server.too_few = slots is not None and slots < cap
        those = [one for one in self._servers.values() if one.owner == server.owner]
        text = f"mismatch: the server has fewer slots ({slots}) than max_concurrent says: it makes the rest wait"
        self._admission.set_alarm(server.owner, "mismatch", text if any(one.too_few for one in those) else None)


def _named(models: tuple[str, ...]) -> str:
    """Some servers list thousands, or whatever they like."""
    told = ", ".join(model[:_NAME_MOST] for model in models[:_NAMES_TOLD])
    return told + (f" and {len(models) - _NAMES_TOLD} more" if len(models) > _NAMES_TOLD else "")


def _servers_of(settings: Settings, upstreams: Mapping[str, Upstream]) -> dict[str, _Server]:
    return {
        name: _Server(name, owner, upstream, upstreams[name], tells_slots=endpoint.max_concurrent == "auto")
        for owner, upstream in settings.upstreams.items()
        for name, endpoint in zip(endpoint_names(owner, upstream), upstream.all_endpoints, strict=True)
    }


async def _pause(server: _Server, seconds: float) -> None:
    """Until then, or until it is to be asked now."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await server.wake.wait()
    server.wake.clear()


def _forget(server: _Server) -> None:
    """It was away. Here, and not when it is asked: a request may learn something of it before it answers us."""
    server.asked = False
    server.upstream.speech.forget()


def _describe(speech: Speech, what: str) -> str:
    match speech.speaks(MESSAGES_PATH):
        case True:
            return f"{what} and speaks Messages"
        case False:
            return f"{what} and does not speak Messages"
    return what
