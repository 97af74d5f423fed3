"""What a reload does to the upstream of a stage: another name, or none any more, and back."""

from collections.abc import Iterator
from contextlib import contextmanager

from llmgate.config.frozen import FrozenDict
from llmgate.config.settings import UpstreamSettings
from llmgate.core.routing import Routes, Serves
from llmgate.server.services import Services
from llmgate.upstreams.upstream import Upstream
from tests.server.house import UPSTREAM

OTHER = "another"


@contextmanager
def renamed(services: Services) -> Iterator[None]:
    """It is called OTHER inside."""
    one = services.settings.upstreams[UPSTREAM]
    server = services.upstreams[UPSTREAM]
    _rename(services, UPSTREAM, OTHER, one, server)
    try:
        yield
    finally:
        _rename(services, OTHER, UPSTREAM, one, server)


def _rename(services: Services, old: str, new: str, one: UpstreamSettings, server: Upstream) -> None:
    admission = services.admission
    accounts = {new: admission.gate(old).accounts()[old]}
    admission.rename(old, new)
    admission.set_endpoints(new, {new: 0}, kept={new: old}, holds=False, accounts=accounts)
    _set(services, {new: one}, {new: server})


@contextmanager
def dropped(services: Services) -> Iterator[None]:
    """It is not there inside."""
    upstreams, servers = services.settings.upstreams, services.upstreams
    desk = services.admission._desks.pop(UPSTREAM)
    _set(services, {}, {})
    try:
        yield
    finally:
        services.admission._desks[UPSTREAM] = desk
        _set(services, dict(upstreams), dict(servers))


def _set(services: Services, upstreams: dict[str, UpstreamSettings], servers: dict[str, Upstream]) -> None:
    services.settings = services.settings.model_copy(update={"upstreams": FrozenDict(upstreams)})
    services.upstreams = servers
    services.routes = Routes({name: Serves(it.models, it.aliases) for name, it in upstreams.items()})
