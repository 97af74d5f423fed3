"""What one request needs of the daemon: made by the composition root, shared by all exchanges."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Protocol

from llmgate.admission.base import Place
from llmgate.admission.local import LocalAdmission
from llmgate.config.settings import Settings
from llmgate.core.keys import ClientKeys, KeyCounts
from llmgate.core.routing import Routes
from llmgate.errors import GateError, Outcome
from llmgate.server.turned_away import TurnedAway
from llmgate.telemetry.ledger import Ledger
from llmgate.upstreams.slots import SlotWatch
from llmgate.upstreams.upstream import Upstream


class Stoppable(Protocol):
    """What can be ended from outside."""

    @property
    def id(self) -> str:
        """The request's, as in log and feed."""
        ...

    def stop(self, error: GateError) -> None: ...

    def check_key(self) -> None: ...

    def give_up(self) -> None: ...


class Running:
    """The exchanges that have gone past reading their request and are not over yet."""

    def __init__(self) -> None:
        self._members: set[Stoppable] = set()
        self._empty = asyncio.Event()

    def __iter__(self) -> Iterator[Stoppable]:
        return iter(list(self._members))

    def __len__(self) -> int:
        return len(self._members)

    def add(self, member: Stoppable) -> None:
        self._members.add(member)

    def discard(self, member: Stoppable) -> None:
        self._members.discard(member)
        if not self._members:
            self._empty.set()

    def find(self, request_id: str) -> Stoppable | None:
        """The one of that request. It looks at all: for an operator."""
        return next((member for member in self._members if member.id == request_id), None)

    async def wait_empty(self) -> None:
        """Until none is left."""
        while self._members:
            self._empty.clear()
            await self._empty.wait()


class Services:
    """Attributes are replaced as a whole when settings or routes change; nobody keeps a copy beyond one request."""

    def __init__(
        self,
        settings: Settings,
        admission: LocalAdmission,
        upstreams: Mapping[str, Upstream],
        ledger: Ledger,
        routes: Routes,
        slot_watches: Mapping[str, SlotWatch] | None = None,
        keys: ClientKeys | None = None,
    ) -> None:
        """`upstreams` and `slot_watches` by the name of the endpoint; the first one of an upstream has its name."""
        self.settings = settings
        self.admission = admission
        self.upstreams = upstreams
        self.slot_watches = slot_watches or {}
        self.ledger = ledger
        self.routes = routes
        self.keys = keys or ClientKeys()
        self.names: tuple[str, ...] = ()
        """Host names in lower case that are its own, for its certificate says so."""
        self.key_counts = KeyCounts()
        self.turned_away = TurnedAway()
        self.running = Running()
        self.ungated = 0
        """How many passages are under way that need no slot: no gate knows of them."""
        self.draining = False
        self.frames: Counter[tuple[str, str]] = Counter()
        """What waiting clients were told, by surface and kind: queue, heartbeat, blank."""

    def set_keys(self, keys: ClientKeys) -> None:
        """Those of clients, after a reload. Requests that were not sent yet are sent away where their key opens them no
        more; what runs goes on."""
        if keys != self.keys:
            self.keys = keys
            for member in self.running:
                member.check_key()

    async def wait_for_room(self, place: Place) -> None:
        """The slot is there: where others use its server too, until the server can take the request."""
        watch = self.slot_watches.get(place.endpoint)
        if watch is not None and watch.has_strangers:
            await watch.wait_for_room(place.time_left)

    def drain(
        self,
        place: Place,
        outcome: Outcome,
        release_timeout: float,
        *,
        lost: bool = False,
        had_head: bool = True,
        reason: str = "",
    ) -> None:
        """The request is over, its server may not be: its slot comes back when the server says so, or after that time
        (seconds) where it says nothing. `lost`: the server broke it off, perhaps since it is dying: then nobody may be
        sent there before that is clear. `had_head`: the server had begun to answer. `reason`: see Place.leave."""
        watch = self._watch_of(place)
        if watch is None:
            if lost:
                place.leave(outcome, reason)
            else:
                place.drain(outcome, release_timeout, reason)
        elif watch.is_source:
            place.drain(outcome, None, reason)
            watch.follow(lambda: place.leave(outcome), release_timeout, had_head=had_head)
        else:
            place.drain(outcome, release_timeout, reason)
            if lost:
                watch.knock(lambda: place.leave(outcome))

    def _watch_of(self, place: Place) -> SlotWatch | None:
        """The one of its server, also where a reload gave that to another upstream."""
        endpoint = place.endpoint or self.admission.endpoint_at(place.account)
        return None if endpoint is None else self.slot_watches.get(endpoint)
