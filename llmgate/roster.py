"""The upstreams of one daemon: their gates, their servers, and who looks after them, through every reload.

- An endpoint is the same server before and after if its URL is: then it keeps its count, its state and what is known of
  it, whatever its name or its other settings become.
- An upstream that the settings no longer name is leaving: it takes nobody new, who waits there is served to the end, or
  sent away where no server of it is up, and it is dropped when the last is gone. Named again before, it comes back.
- `prepare` may fail and changes nothing; `apply` cannot fail and does not wait, so nobody sees half of a change.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Mapping

from pydantic import SecretStr

from llmgate.admission.local import LocalAdmission
from llmgate.config.frozen import FrozenDict
from llmgate.config.load import Loaded
from llmgate.config.settings import Settings, UpstreamSettings
from llmgate.core.events import Event, Mode
from llmgate.core.routing import Routes
from llmgate.discovery import Discovery
from llmgate.fleet import UNKNOWN_SLOTS, endpoint_names, limits_of, make_gate, make_upstream, owners_of
from llmgate.lookout import Lookout
from llmgate.upstreams.upstream import Upstream

LAST_WORD_SECONDS = 1.0
"""How long an upstream stays known after its last request: whoever was sent away is still being told."""

_OF_THE_GATE = frozenset(
    {
        "aliases",
        "endpoints",
        "max_concurrent",
        "max_queued",
        "models",
        "on_down",
        "passthrough",
        "queue_timeout",
        "queue_timeout_nonstream",
        "reasoning_history",
        "force_stream",
        "release_timeout",
        "server_tools",
        "stall_alarm",
        "url",
    }
)
"""Settings of an upstream that its servers' objects know nothing of; `url` and `endpoints` are looked at themselves."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything that a change needs, made and checked."""

    settings: Settings
    """Those to be in force, with the leaving upstreams."""
    named: frozenset[str]
    """The upstreams that the settings name."""
    keys: Mapping[str, SecretStr]
    servers: Mapping[str, Upstream]
    """By the name of the endpoint."""
    kept: Mapping[str, str]
    """Old name of each endpoint that was there before, by its new one."""


class Roster:
    """Make it inside the running loop."""

    def __init__(
        self, loaded: Loaded, listener: Callable[[Event], None], on_change: Callable[["Roster"], None]
    ) -> None:
        """`on_change`: servers, routes or settings are other ones."""
        self._on_change = on_change
        self.settings = loaded.settings
        self._named = frozenset(loaded.settings.upstreams)
        self._keys = loaded.api_keys
        self.servers: Mapping[str, Upstream] = _make_servers(loaded.settings, loaded.api_keys)
        self._retired: set[Upstream] = set()
        """Servers that others took the place of, as long as something runs there."""
        gates = [make_gate(name, upstream) for name, upstream in loaded.settings.upstreams.items()]
        self.admission = LocalAdmission(gates, listener)
        self.discovery = Discovery(loaded.settings, self.servers, self.admission, self._tell)
        owners = owners_of(loaded.settings)
        self.lookout = Lookout(self.servers, owners, self.admission, self.discovery.ask_again)

    @property
    def routes(self) -> Routes:
        return self.discovery.routes()

    @property
    def leaving(self) -> frozenset[str]:
        """Upstreams that the settings no longer name, and that have somebody left."""
        return frozenset(self.settings.upstreams) - self._named

    @property
    def shared(self) -> list[tuple[str, str]]:
        """Upstreams that leave and have somebody left, each with one that is named and has a server of it: until the
        last is gone both may send there, together more than it should get."""
        urls = {name: {url for _, url in _urls(name, it)} for name, it in self.settings.upstreams.items()}
        busy = [name for name in self.settings.upstreams if name in self.leaving and not self._is_empty(name)]
        return [(name, other) for name in busy for other in urls if other in self._named and urls[name] & urls[other]]

    async def run(self) -> None:
        """Looks after them for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.discovery.run())
            tasks.create_task(self.lookout.run())

    def note(self, event: Event) -> None:
        """Every event of the gates must be told."""
        self.lookout.apply(event)
        if event.upstream not in self._named:
            asyncio.get_running_loop().call_soon(self._see_off, event.upstream)

    def in_use(self, upstream: str) -> int:
        """Connections to its servers with a request on them, those included that a reload replaced."""
        names = endpoint_names(upstream, self.settings.upstreams[upstream])
        self._forget_idle()
        retired = sum(server.in_use for server in self._retired if _owner(server.name) == upstream)
        return retired + sum(self.servers[name].in_use for name in names)

    def _forget_idle(self) -> None:
        self._retired = {server for server in self._retired if server.in_use}

    async def aclose(self) -> None:
        """Closes every connection, and ends all timers."""
        for server in [*self.servers.values(), *self._retired]:
            await server.aclose()
        self.admission.stop()

    # ---- a change

    def prepare(self, settings: Settings, keys: Mapping[str, SecretStr]) -> Plan:
        """Makes what `settings` ask for beside what is there. Raises OSError where a certificate cannot be read."""
        leaving = {name: it for name, it in self.settings.upstreams.items() if name not in settings.upstreams}
        kept: dict[str, str] = {}
        for name, upstream in settings.upstreams.items():
            if (old := self.settings.upstreams.get(name)) is not None:
                kept |= same_servers(name, old, upstream)
        servers: dict[str, Upstream] = {
            endpoint: self.servers[endpoint]
            for name, upstream in leaving.items()
            for endpoint in endpoint_names(name, upstream)
        }
        for name, upstream in settings.upstreams.items():
            for endpoint, url in _urls(name, upstream):
                servers[endpoint] = self._server(name, endpoint, url, upstream, kept, keys.get(name))
        every = FrozenDict({**settings.upstreams, **leaving})
        return Plan(
            settings.model_copy(update={"upstreams": every}), frozenset(settings.upstreams), keys, servers, kept
        )

    def apply(self, plan: Plan) -> None:
        """Puts it in force, from one moment to the next."""
        before, old_servers = self.settings, self.servers
        self.settings, self.servers, self._keys = plan.settings, plan.servers, plan.keys
        was_named, self._named = self._named, plan.named
        self._forget_idle()  # those of earlier changes; what was just replaced may be about to be called
        for server in set(old_servers.values()) - set(plan.servers.values()):
            server.retire()
            self._retired.add(server)
        for name in plan.named - before.upstreams.keys():
            self.admission.add(make_gate(name, plan.settings.upstreams[name]))
        self._tell_discovery(plan.kept)
        self._tell()
        for name in plan.named & before.upstreams.keys():
            self._change_gate(name, plan)
            if name not in was_named:
                self.admission.reopen(name)
        self.lookout.replace(self.servers, owners_of(self.settings))
        self._tell()
        for name in was_named - plan.named:
            self.admission.retire(name, dismiss=self._stands(name))
            self._see_off(name)

    def _server(
        self,
        name: str,
        endpoint: str,
        url: str,
        settings: UpstreamSettings,
        kept: Mapping[str, str],
        key: SecretStr | None,
    ) -> Upstream:
        """The one that is there where nothing of it changes, a new one otherwise."""
        old = self.settings.upstreams.get(name)
        if endpoint in kept and old is not None:
            there = self.servers[kept[endpoint]]
            same_key = self._keys.get(name) == key
            if kept[endpoint] == endpoint and same_key and not settings.ca_file and _is_same(old, settings):
                return there
            made = make_upstream(endpoint, settings, url, _plain(key))
            made.take_over(there)
            return made
        return make_upstream(endpoint, settings, url, _plain(key))

    def _change_gate(self, name: str, plan: Plan) -> None:
        settings = plan.settings.upstreams[name]
        names = endpoint_names(name, settings)
        kept = {new: plan.kept[new] for new in names if new in plan.kept}
        caps = {endpoint: self._cap(name, endpoint, settings, kept) for endpoint in names}
        holds = settings.on_down == "hold"
        gate = self.admission.gate(name)
        now = {endpoint: it.max_concurrent for endpoint, it in gate.endpoints().items()}
        if now != caps or holds != gate.holds or kept != {endpoint: endpoint for endpoint in now}:
            self.admission.set_endpoints(name, caps, kept=kept, holds=holds)
        slots = self.discovery.slots(name) or gate.limits.max_concurrent
        self.admission.set_limits(name, limits_of(settings, slots))

    def _cap(self, name: str, endpoint: str, settings: UpstreamSettings, kept: Mapping[str, str]) -> int:
        """Of one of several; "auto" stays as it was until the server tells."""
        if settings.endpoints is None:
            return 0
        cap = settings.endpoints[endpoint_names(name, settings).index(endpoint)].max_concurrent
        if cap != "auto":
            return cap
        there = self.admission.gate(name).endpoints()
        was = there[kept[endpoint]].max_concurrent if endpoint in kept else 0
        return self.discovery.slots(endpoint) or was or UNKNOWN_SLOTS

    # ---- upstreams that leave

    def _stands(self, name: str) -> bool:
        """Who waits there may wait for ever."""
        gate = self.admission.gate(name)
        return gate.mode is Mode.PAUSED or (gate.holds and not any(it.up for it in gate.endpoints().values()))

    def _see_off(self, name: str) -> None:
        """Something happened there: it is dropped when nobody is left."""
        if name not in self.leaving:
            return
        gate = self.admission.gate(name)
        if gate.depth and self._stands(name):
            self.admission.retire(name, dismiss=True)
        if not self._is_empty(name):
            return
        asyncio.get_running_loop().call_later(LAST_WORD_SECONDS, self._drop, name)

    def _is_empty(self, name: str) -> bool:
        now = self.admission.gate(name).statistics()
        return not (now.waiting or now.running or now.draining)

    def _drop(self, name: str) -> None:
        if name not in self.leaving or not self._is_empty(name):
            return
        names = endpoint_names(name, self.settings.upstreams[name])
        for endpoint in names:
            self.servers[endpoint].retire()
            self._retired.add(self.servers[endpoint])
        self.servers = {endpoint: server for endpoint, server in self.servers.items() if endpoint not in names}
        rest = {other: it for other, it in self.settings.upstreams.items() if other != name}
        self.settings = self.settings.model_copy(update={"upstreams": FrozenDict(rest)})
        self.lookout.replace(self.servers, owners_of(self.settings))
        self.admission.remove(name)
        self._tell()

    def _tell_discovery(self, kept: Mapping[str, str]) -> None:
        named = {name: it for name, it in self.settings.upstreams.items() if name in self._named}
        settings = self.settings.model_copy(update={"upstreams": FrozenDict(named)})
        self.discovery.replace(settings, self.servers, kept)

    def _tell(self) -> None:
        self._on_change(self)


def same_servers(name: str, old: UpstreamSettings, new: UpstreamSettings) -> dict[str, str]:
    """The endpoints that are there before and after: new name to old."""
    there = {url: endpoint for endpoint, url in _urls(name, old)}
    return {endpoint: there[url] for endpoint, url in _urls(name, new) if url in there}


def _urls(name: str, settings: UpstreamSettings) -> list[tuple[str, str]]:
    urls = [endpoint.url for endpoint in settings.all_endpoints]
    return list(zip(endpoint_names(name, settings), urls, strict=True))


def _make_servers(settings: Settings, keys: Mapping[str, SecretStr]) -> dict[str, Upstream]:
    return {
        endpoint: make_upstream(endpoint, upstream, url, _plain(keys.get(name)))
        for name, upstream in settings.upstreams.items()
        for endpoint, url in _urls(name, upstream)
    }


def _is_same(old: UpstreamSettings, new: UpstreamSettings) -> bool:
    """Nothing that a server's object knows has changed."""
    fields = UpstreamSettings.model_fields.keys() - _OF_THE_GATE
    return all(getattr(old, field) == getattr(new, field) for field in fields)


def _owner(endpoint: str) -> str:
    return endpoint.partition("#")[0]


def _plain(key: SecretStr | None) -> str:
    return key.get_secret_value() if key is not None else ""
