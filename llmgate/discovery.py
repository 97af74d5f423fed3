"""Asks upstreams what they serve and how much at once, where the settings leave that to them, and keeps the routes."""

import asyncio
import logging
from collections.abc import Callable, Mapping

from llmgate.admission.local import LocalAdmission
from llmgate.config.settings import Settings, UpstreamSettings
from llmgate.core.events import Limits
from llmgate.core.routing import Routes, Serves
from llmgate.errors import GateError, UpstreamDown
from llmgate.upstreams.probe import ask_models, ask_slots
from llmgate.upstreams.upstream import Upstream

logger = logging.getLogger("llmgate")

FIRST_RETRY_SECONDS = 0.5
LAST_RETRY_SECONDS = 3.0
REFRESH_SECONDS = 60.0


class Discovery:
    """Models and slots as the servers tell them. Their failure to answer is not held against them here."""

    def __init__(
        self,
        settings: Settings,
        upstreams: Mapping[str, Upstream],
        admission: LocalAdmission,
        on_routes: Callable[[], None],
        on_health: Callable[[str, bool], None],
    ) -> None:
        """`on_health` is told, after each question, whether the upstream of that name could be connected to."""
        self._settings = settings
        self._upstreams = upstreams
        self._admission = admission
        self._on_routes = on_routes
        self._on_health = on_health
        self._models: dict[str, tuple[str, ...]] = {}
        self._slots: dict[str, int | None] = {}
        """As each server told them last; None: it told none."""

    def routes(self) -> Routes:
        """The table of what is known now.

        An only upstream without `models` gets every model: with one server there is nothing to choose.
        """
        configured = self._settings.upstreams
        serves = {
            name: Serves(upstream.models or self._models.get(name, ()), upstream.aliases)
            for name, upstream in configured.items()
        }
        default = self._settings.server.default_upstream
        if not default and len(configured) == 1:
            default = next((name for name, upstream in configured.items() if not upstream.models), "")
        return Routes(serves, default)

    async def run(self) -> None:
        """Asks for ever: soon again while a server does not answer, now and then once it has."""
        async with asyncio.TaskGroup() as tasks:
            for name, settings in self._settings.upstreams.items():
                if not settings.models or settings.max_concurrent == "auto":
                    tasks.create_task(self._follow(name, settings))

    async def _follow(self, name: str, settings: UpstreamSettings) -> None:
        retry = FIRST_RETRY_SECONDS
        while True:
            try:
                await self._ask(name, settings)
            except GateError as error:
                self._on_health(name, not isinstance(error, UpstreamDown))
                logger.debug("%s does not tell what it serves: %s", name, error)
                await asyncio.sleep(retry)
                retry = min(retry * 2, LAST_RETRY_SECONDS)
            else:
                self._on_health(name, True)
                retry = FIRST_RETRY_SECONDS
                await asyncio.sleep(REFRESH_SECONDS)

    async def _ask(self, name: str, settings: UpstreamSettings) -> None:
        upstream = self._upstreams[name]
        if settings.max_concurrent == "auto":
            self._note_slots(name, settings, await ask_slots(upstream))
        if not settings.models:
            models = await ask_models(upstream) or ()
            if models != self._models.get(name):
                self._models[name] = models
                logger.info("%s serves %s", name, ", ".join(models) or "models that it does not list")
                self._on_routes()

    def _note_slots(self, name: str, settings: UpstreamSettings, slots: int | None) -> None:
        if name in self._slots and self._slots[name] == slots:
            return
        self._slots[name] = slots
        if slots is None:
            logger.info("%s max_concurrent is 1: the server does not tell how many slots it has", name)
        else:
            logger.info("%s max_concurrent is %d: the server's own slots", name, slots)
        self._admission.set_limits(name, Limits(slots or 1, settings.max_queued, settings.queue_timeout))
