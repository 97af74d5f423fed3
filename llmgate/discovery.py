"""Asks servers what they are, what they serve and how much at once, where the settings leave that to them, and keeps
the routes.

What a server is, is asked once, and again when it was down and is back: it may be another version then, or another
server. Its models, with all that it tells of them, are asked now and then.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from llmgate.admission.local import LocalAdmission
from llmgate.config.settings import Settings, UpstreamSettings
from llmgate.core.routing import Routes, Serves, is_glob
from llmgate.errors import GateError, UpstreamDown
from llmgate.fleet import UNKNOWN_SLOTS, endpoint_names
from llmgate.protocols.speech import MESSAGES_PATH, Kind, Speech
from llmgate.server.admin_route import Conflict
from llmgate.upstreams.probe import Probe
from llmgate.upstreams.upstream import Upstream

logger = logging.getLogger("llmgate")

FIRST_RETRY_SECONDS = 0.5
LAST_RETRY_SECONDS = 3.0
REFRESH_SECONDS = 60.0
ASK_SECONDS = 2.0
"""How long a server may take to tell its slots to an operator who waits for it."""

_LEAVING = (
    "upstream {} is no longer in the settings, so its server is not asked for its slots: set a number, or put it back "
    "there and reload"
)
_RELOADED = (
    "a reload changed upstream {} while its server was asked for its slots, and nothing was set: look at the status, "
    "and set it again"
)

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
        self, name: str, owner: str, settings: UpstreamSettings, upstream: Upstream, *, written: int | Literal["auto"]
    ) -> None:
        self.name = name
        self.owner = owner
        """The upstream whose endpoint it is."""
        self.settings = settings
        self.upstream = upstream
        self.written = written
        """Its own max_concurrent in the settings."""
        self.tells_slots = written == "auto"
        """It is asked for its slots, since its max_concurrent is "auto": in the settings, or as an operator set it."""
        self.follows = self.tells_slots
        """Its max_concurrent is what it tells, until an operator sets a number."""
        self.slots: int | None = None
        """None: it told none."""
        self.slots_noted = False
        self.too_few = False
        """It has fewer slots than it gets requests at once."""
        self.models: tuple[str, ...] | None = None
        self.asked = False
        """What it is, since it was down."""
        self.is_sglang = False
        self.counts_slots = False
        """It tells how much it runs at once, whatever it is."""
        self.said = ""
        """What the log says that it is."""
        self.wake = asyncio.Event()

    def keep_order(self, old: "_Server") -> None:
        """What an operator made of the same upstream's max_concurrent, where the settings say the same as before."""
        if self.is_only and old.is_only and self.written == old.written:
            self.tells_slots, self.follows = old.tells_slots, old.follows

    def take_over(self, old: "_Server") -> None:
        """What the same server told before a reload."""
        self.models, self.said = old.models, old.said
        self.is_sglang, self.counts_slots = old.is_sglang, old.counts_slots
        self.too_few = old.too_few and not self.follows
        self.asked = old.asked and self.upstream.speech is old.upstream.speech
        if self.tells_slots and old.tells_slots:
            self.slots, self.slots_noted = old.slots, old.slots_noted

    @property
    def is_only(self) -> bool:
        """Its max_concurrent is that of its upstream, which an operator can set."""
        return self.settings.endpoints is None

    @property
    def cap(self) -> int | None:
        """What "auto" is; None: it was not asked yet."""
        return (self.slots or UNKNOWN_SLOTS) if self.slots_noted else None

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
        self._leaving: dict[str, _Server] = {}
        """Those that the settings no longer name: nobody asks them, but they may come back."""
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
        old, self._settings = {**self._leaving, **self._servers}, settings
        self._servers = _servers_of(settings, upstreams)
        self._leaving = {name: it for name, it in old.items() if upstreams.get(name) is it.upstream}
        for name, server in self._servers.items():
            self._leaving.pop(name, None)
            there = old.get(kept.get(name, ""))
            if (before := there or old.get(name)) is not None:
                server.keep_order(before)
            if there is not None:
                server.take_over(there)
        for owner in settings.upstreams:
            if not any(server.too_few for server in self._servers.values() if server.owner == owner):
                self._admission.set_alarm(owner, "mismatch", None)
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
        self._follow_all()

    def drop(self, upstream: str) -> None:
        """The last request of one that the settings no longer name is over: it does not come back."""
        self._leaving = {name: it for name, it in self._leaving.items() if it.owner != upstream}

    def slots(self, endpoint: str) -> int | None:
        """How many it told that it has; None: it told none."""
        return self._servers[endpoint].slots

    def auto_cap(self, upstream: str) -> int | None:
        """What "auto" is, for an upstream with one server; None: nobody knows yet."""
        return self._servers[upstream].cap

    # ---- an operator's max_concurrent, which stays until the settings say otherwise

    def follows(self, upstream: str) -> bool:
        """Whether its max_concurrent is what its only server tells."""
        server = self._servers.get(upstream)
        return server is not None and server.follows and server.is_only

    async def follow_slots(self, upstream: str) -> int:
        """An operator's "auto": from now on max_concurrent is what the server tells. How many that is now; where it
        does not answer, what it told last, else what is in force, until it answers.

        Of several endpoints it is 0: no bound on all together. Conflict where the settings no longer name it, or where
        a reload made another server of it meanwhile: then nothing has changed.
        """
        server = self._servers.get(upstream)
        if server is None:
            raise Conflict(_LEAVING.format(upstream))
        if not server.is_only:
            return 0
        told = await _slots_in_time(server.upstream)
        server = self._as_it_is_now(server)
        server.tells_slots = server.follows = True
        if not told:
            server.wake.set()
            return server.cap or self._admission.gate(upstream).limits.max_concurrent
        server.slots, server.slots_noted = told[0], True
        _log_cap(server)
        self._end_mismatch(server)
        return told[0] or UNKNOWN_SLOTS

    def _as_it_is_now(self, asked: _Server) -> _Server:
        """After a question, while a reload may have come."""
        now = self._servers.get(asked.name)
        if now is None or now.upstream is not asked.upstream or not now.is_only:
            raise Conflict(_RELOADED.format(asked.owner))
        return now

    def pin(self, upstream: str) -> None:
        """An operator's number."""
        server = self._servers.get(upstream) or self._leaving.get(upstream)
        if server is not None and server.is_only:
            server.follows = False
            server.wake.set()  # it may be more than the server has

    def ask_again(self, endpoint: str) -> None:
        """It was down and is back: whatever it told of itself is asked again, now."""
        server = self._servers.get(endpoint) or self._leaving.get(endpoint)
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
        if not server.follows and server.counts_slots:
            slots = await probe.slots()
            if not server.follows:  # an operator may have set "auto" meanwhile
                self._note_mismatch(server, slots)
        server.upstream.cards = await probe.cards(server.upstream.speech.kind, server.upstream.cards)

    async def _ask_speech(self, server: _Server, probe: Probe) -> None:
        """Once: a server that does not tell would not tell the next time."""
        speech, is_auto = server.upstream.speech, server.settings.kind == "auto"
        if is_auto:
            speech.kind = await probe.kind()
            server.is_sglang = speech.kind == "openai"  # nothing else is concluded to be of that kind
        server.counts_slots = speech.kind == "llama-server" or (is_auto and await _counts_slots(probe))
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
        server.slots, server.slots_noted = slots, True
        _log_cap(server)
        cap = slots or UNKNOWN_SLOTS
        if not server.is_only:
            self._admission.set_endpoint(server.owner, server.name, max_concurrent=cap)
        elif server.follows:  # else an operator has set a number
            limits = self._admission.gate(server.owner).limits
            self._admission.set_limits(server.owner, msgspec.structs.replace(limits, max_concurrent=cap))
            self._end_mismatch(server)

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

    def _end_mismatch(self, server: _Server) -> None:
        """Of an only server, which says itself how much it gets from now on."""
        server.too_few = False
        self._admission.set_alarm(server.owner, "mismatch", None)


async def _slots_in_time(upstream: Upstream) -> tuple[int | None] | None:
    """What it tells; None where it does not answer."""
    try:
        async with asyncio.timeout(ASK_SECONDS):
            return (await Probe(upstream).slots(),)
    except (GateError, TimeoutError):
        return None


async def _counts_slots(probe: Probe) -> bool:
    """Of one that was asked for its kind, so that the answers are there. Whatever is refused says nothing of slots."""
    try:
        return await probe.slots() is not None
    except GateError:
        return False


def _log_cap(server: _Server) -> None:
    why = "the server's own slots" if server.slots else "the server does not tell how many slots it has"
    logger.info("%s max_concurrent is %d: %s", server.name, server.slots or UNKNOWN_SLOTS, why)


def _named(models: tuple[str, ...]) -> str:
    """Some servers list thousands, or whatever they like."""
    told = ", ".join(model[:_NAME_MOST] for model in models[:_NAMES_TOLD])
    return told + (f" and {len(models) - _NAMES_TOLD} more" if len(models) > _NAMES_TOLD else "")


def _servers_of(settings: Settings, upstreams: Mapping[str, Upstream]) -> dict[str, _Server]:
    return {
        name: _Server(name, owner, upstream, upstreams[name], written=endpoint.max_concurrent)
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
