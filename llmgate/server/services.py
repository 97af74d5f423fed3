"""What one request needs of the daemon: made by the composition root, shared by all exchanges."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Protocol

from llmgate.admission.local import LocalAdmission
from llmgate.config.settings import Settings
from llmgate.core.routing import Routes
from llmgate.errors import GateError
from llmgate.telemetry.ledger import Ledger
from llmgate.upstreams.upstream import Upstream


class Stoppable(Protocol):
    """What can be ended from outside."""

    def stop(self, error: GateError) -> None: ...

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
    ) -> None:
        self.settings = settings
        self.admission = admission
        self.upstreams = upstreams
        self.ledger = ledger
        self.routes = routes
        self.running = Running()
        self.draining = False
