"""Asks a llama-server for its slots, or says that it does not tell them.

`GET /slots` (on unless the server was started with --no-slots) answers at once, also in the middle of a batch, and is
true to about 50 ms (llmgate's own measurement). It does not show requests that the server holds back.

A router of several models wants the name of a model, and with `autoload=false` loads none for it (llama.cpp,
tools/server/server-models.cpp, and tried on build 10434): its slots are those of all the models that it has loaded. A
request for one that is not loaded waits in the router, where nothing shows it: while one loads, the slots are not told.
"""

import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from llmgate.core.work import Look, Work
from llmgate.errors import UpstreamDown, UpstreamFailed
from llmgate.protocols.slot_list import (
    MODELS_PATH,
    PROPERTIES_PATH,
    SLOTS_PATH,
    Slot,
    is_router,
    read_loaded,
    read_sleeping,
    read_slots,
    slots_path_of,
)
from llmgate.protocols.speech import is_loading
from llmgate.upstreams.answer import Timeouts

if TYPE_CHECKING:
    from llmgate.upstreams.upstream import Upstream

REFUSED_SECONDS = 60.0
"""How long a server that does not tell its slots is not asked for them again."""

_OK = 200
_BAD_GATEWAY = 502
"""Of a proxy whose server takes no connection, or just died."""
_NOT_THERE = "llmgate: the upstream is not there, or loads its model (UPSTREAM_DOWN)"
_LIMIT = 16 * 1024 * 1024
_TIMEOUTS = Timeouts(connect=1.0, first_byte=1.0, idle=1.0, total=1.0)
_LOADING = "llmgate: the upstream loads a model, and tells its slots later (UPSTREAM_ERROR)"


class NotToldError(Exception):
    """This server does not tell its slots."""


class SlotSource:
    """Of one server."""

    def __init__(self, upstream: "Upstream", clock: Callable[[], float] = time.monotonic) -> None:
        self._upstream = upstream
        self._clock = clock
        self._refused_until = 0.0

    @property
    def tells(self) -> bool:
        """Whether it is worth asking."""
        return self._upstream.speech.kind == "llama-server" and self._clock() >= self._refused_until

    def forget(self) -> None:
        """The server was away: it may tell now what it did not tell before."""
        self._refused_until = 0.0

    async def ask(self) -> list[Slot]:
        """All slots. Raises NotToldError; UpstreamDown where it is not there, GateError where it does not answer."""
        status, body = await self._get(SLOTS_PATH)
        if status == _BAD_GATEWAY or is_loading(status, body):
            raise UpstreamDown(_NOT_THERE)
        slots = read_slots(body) if status == _OK else None
        if slots is None and is_router(status, body):
            slots = await self._ask_router()
        if slots is None:  # such as one that asks for a key, another server in its place
            self._refused_until = self._clock() + REFUSED_SECONDS
            raise NotToldError
        return slots

    async def is_asleep(self) -> bool:
        """Whether it works on nothing, and would be woken by the question for its slots. Raises GateError."""
        status, body = await self._get(PROPERTIES_PATH)
        return status == _OK and read_sleeping(body)

    async def look(self) -> Look:
        """What the busy ones have done; raises as `ask`."""
        asked_at = self._clock()
        slots = await self.ask()
        busy: dict[Hashable, Work] = {
            (slot.model, slot.id if slot.id is not None else number): Work(
                slot.id_task, slot.n_prompt_tokens_processed, slot.decoded
            )
            for number, slot in enumerate(slots)
            if slot.is_processing
        }
        return Look(asked_at, busy)

    async def _ask_router(self) -> list[Slot] | None:
        _, body = await self._get(MODELS_PATH)
        loaded = read_loaded(body)
        if loaded is None:
            raise UpstreamFailed(_LOADING)
        slots: list[Slot] = []
        for model in loaded:
            status, body = await self._get(slots_path_of(model))
            told = read_slots(body, model) if status == _OK else None
            if told is None:
                return None
            slots += told
        return slots

    async def _get(self, path: bytes) -> tuple[int, bytes]:
        return await self._upstream.ask(path, timeouts=_TIMEOUTS, limit=_LIMIT)
