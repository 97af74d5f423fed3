"""The accounts of all servers, by their URLs: an endpoint that comes back, or goes to another upstream, finds its own.

A server is forgotten with the last endpoint that leads there and the last request that is counted there.
"""

from collections import Counter
from collections.abc import Iterable
from weakref import WeakValueDictionary

from llmgate.config.checks import server_of
from llmgate.config.settings import UpstreamSettings
from llmgate.core.account import Account
from llmgate.core.gate import Gate
from llmgate.fleet import endpoint_names


class Accounts:
    """Of one daemon."""

    def __init__(self) -> None:
        self._by_server: WeakValueDictionary[tuple[str, int, str], Account] = WeakValueDictionary()

    def of(self, name: str, settings: UpstreamSettings) -> dict[str, Account]:
        """Those of an upstream's servers, by the names of its endpoints."""
        servers = [server_of(endpoint.url) for endpoint in settings.all_endpoints]
        accounts = [self._by_server.setdefault(server, Account()) for server in servers]
        return dict(zip(endpoint_names(name, settings), accounts, strict=True))

    def are_shared(self, gates: Iterable[Gate]) -> bool:
        """Whether at any server somebody is counted, or may be sent, who is not of its one upstream."""
        own: Counter[Account] = Counter()
        for gate in gates:
            own.update(in_flight_of(gate))
        return any(account.owners > 1 or account.in_flight > own[account] for account in self._by_server.values())


def in_flight_of(gate: Gate) -> dict[Account, int]:
    """What an upstream itself has in flight at each of its servers."""
    endpoints = gate.endpoints()
    return {account: endpoints[name].in_flight for name, account in gate.accounts().items()}


def servers_of(settings: UpstreamSettings) -> frozenset[tuple[str, int, str]]:
    """All that an upstream has."""
    return frozenset(server_of(endpoint.url) for endpoint in settings.all_endpoints)
