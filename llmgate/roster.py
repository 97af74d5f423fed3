"""The upstreams of one daemon: their gates, their servers, and who looks after them, through every reload.

- An endpoint is the same server before and after if its URL is: then it keeps its count, its state and what is known of
  it, whatever its name or its other settings become.
- An upstream is the same before and after if its name is. One that is only called otherwise, with a server of the old
  one, takes over its queue: see core.succession. Who waits stays in that queue; no reload routes anybody anew.
- Any other that the settings no longer name is leaving: it takes nobody new, who waits there is served to the end, or
  sent away where it is paused or no server of it is up, and it is dropped when the last is gone. Named again before, it
  comes back; an operator cannot bring it back.
- What runs at a server is counted by its URL, whoever sent it: see core.account.
- `prepare` may fail and changes nothing; `apply` cannot fail and does not wait, so nobody sees half of a change.
"""

import asyncio
import dataclasses
import ssl
from collections.abc import Callable, Mapping

import msgspec
from pydantic import SecretStr

from llmgate.accounts import Accounts, servers_of
from llmgate.admission.local import LocalAdmission
from llmgate.config.frozen import FrozenDict
from llmgate.config.load import Loaded
from llmgate.config.settings import Settings, UpstreamSettings
from llmgate.core.account import Account
from llmgate.core.events import Event, Limits
from llmgate.core.gate import Gate
from llmgate.core.routing import Routes
from llmgate.core.succession import find_successors, names_known
from llmgate.discovery import Discovery
from llmgate.fleet import UNKNOWN_SLOTS, endpoint_names, limits_of, make_gate, make_upstream, make_upstreams, owners_of
from llmgate.lookout import Lookout
from llmgate.upstreams.upstream import Upstream

LAST_WORD_SECONDS = 1.0
"""How long an upstream stays known after its last request: whoever was sent away is still being told."""

_SET = ("max_concurrent", "max_queued", "queue_timeout")
"""Limits that an operator can set."""

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
    renamed: Mapping[str, str]
    """Old name of each upstream that is only called otherwise, by its new one."""


class Roster:
    """Make it inside the running loop."""

    def __init__(
        self, loaded: Loaded, listener: Callable[[Event], None], on_change: Callable[["Roster"], None]
    ) -> None:
        """`on_change`: servers, routes or settings are other ones."""
        self._on_change = on_change
        self.settings = loaded.settings
        self._named = frozenset(loaded.settings.upstreams)
        self.renamed: Mapping[str, str] = {}
        """What reloads call an upstream now, by each name that it had before."""
        self._keys = loaded.api_keys
        self.servers: Mapping[str, Upstream] = make_upstreams(
            loaded.settings, {name: _plain(key) for name, key in loaded.api_keys.items()}
        )
        self._retired: dict[Upstream, str] = {}
        """Servers that others took the place of, as long as something runs there, and the upstreams that have that."""
        self._accounts = Accounts()
        self._is_shared = True
        """Whether what one upstream gives back may be room for another one."""
        self._looking: asyncio.Handle | None = None
        gates = [make_gate(name, it, self._accounts.of(name, it)) for name, it in self.settings.upstreams.items()]
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

    def is_leaving(self, name: str) -> bool:
        """Whether that upstream is one of these."""
        return name not in self._named and name in self.settings.upstreams

    @property
    def overridden(self) -> list[tuple[str, str, float | None, float | None]]:
        """Limits that an operator set: upstream, key, what is in force, what the settings say."""
        return [
            (name, key, now, said)
            for name in filter(self._named.__contains__, self.settings.upstreams)
            for key, now, said in self._differences(name)
        ]

    def _differences(self, name: str) -> list[tuple[str, float | None, float | None]]:
        now, settings = self.admission.gate(name).limits, self.settings.upstreams[name]
        own = self.discovery.auto_cap(name)
        said = limits_of(settings, own or now.max_concurrent)
        found = [(key, getattr(now, key), getattr(said, key)) for key in _SET]
        follows, is_auto = self.discovery.follows(name), settings.max_concurrent == "auto"
        is_other = (follows and not is_auto) or (is_auto and not follows and own is not None)
        return [it for it in found if it[1] != it[2] or (is_other and it[0] == "max_concurrent")]

    async def run(self) -> None:
        """Looks after them for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.discovery.run())
            tasks.create_task(self.lookout.run())

    def note(self, event: Event) -> None:
        """Every event of the gates must be told."""
        self.lookout.apply(event)
        if self._is_shared:
            self._look_again_soon()
        if event.upstream not in self._named:
            asyncio.get_running_loop().call_soon(self._see_off, event.upstream)

    def in_use(self, upstream: str) -> int:
        """Connections to its servers with a request on them, those included that a reload replaced."""
        names = endpoint_names(upstream, self.settings.upstreams[upstream])
        self._forget_idle()
        retired = sum(server.in_use for server, owner in self._retired.items() if owner == upstream)
        return retired + sum(self.servers[name].in_use for name in names)

    def asides(self, upstream: str) -> int:
        """How many of these need no slot."""
        names = endpoint_names(upstream, self.settings.upstreams[upstream])
        retired = sum(server.asides for server, owner in self._retired.items() if owner == upstream)
        return retired + sum(self.servers[name].asides for name in names)

    def sent_to(self, upstream: str) -> dict[tuple[str, int], Account | None]:
        """Requests in flight at its servers, whichever upstream has them (its name, and the number of the ticket), and
        at which."""
        accounts = set(self.admission.gate(upstream).accounts().values())
        return {
            (name, ticket.number): ticket.account
            for name in self.admission.upstreams()
            for ticket in self.admission.gate(name).in_flight()
            if ticket.account in accounts
        }

    def _forget_idle(self) -> None:
        self._retired = {server: owner for server, owner in self._retired.items() if server.in_use}

    def _retire(self, server: Upstream, owner: str) -> None:
        server.retire()
        self._retired[server] = owner

    async def aclose(self) -> None:
        """Closes every connection, and ends all timers."""
        for server in [*self.servers.values(), *self._retired]:
            await server.aclose()
        self.admission.stop()

    # ---- a change

    def prepare(
        self,
        settings: Settings,
        keys: Mapping[str, SecretStr],
        contexts: Mapping[str, ssl.SSLContext] = FrozenDict(),
    ) -> Plan:
        """Makes what `settings` ask for beside what is there. `contexts`: see fleet.make_contexts; what is not there is
        made, which raises OSError where a certificate cannot be read."""
        renamed = self._find_renamed(settings)
        old_names = {name: renamed.get(name, name) for name in settings.upstreams}
        leaving = {name: it for name, it in self.settings.upstreams.items() if name not in old_names.values()}
        kept: dict[str, str] = {}
        for name, upstream in settings.upstreams.items():
            if (old := self.settings.upstreams.get(old_names[name])) is not None:
                kept |= same_servers(name, upstream, old_names[name], old)
        servers: dict[str, Upstream] = {
            endpoint: self.servers[endpoint]
            for name, upstream in leaving.items()
            for endpoint in endpoint_names(name, upstream)
        }
        for name, upstream in settings.upstreams.items():
            for endpoint, url in _urls(name, upstream):
                if endpoint in kept and self._stays(kept[endpoint], endpoint, name, upstream, keys.get(name)):
                    servers[endpoint] = self.servers[endpoint]
                    continue
                made = make_upstream(endpoint, upstream, url, _plain(keys.get(name)), contexts.get(name))
                if endpoint in kept:
                    made.take_over(self.servers[kept[endpoint]])
                servers[endpoint] = made
        every = settings.model_copy(update={"upstreams": FrozenDict({**settings.upstreams, **leaving})})
        return Plan(every, frozenset(settings.upstreams), keys, servers, kept, renamed)

    def note_written(self, name: str, settings: UpstreamSettings) -> None:
        """The settings of that upstream say now what is in force there."""
        upstreams = FrozenDict({**self.settings.upstreams, name: settings})
        self.settings = self.settings.model_copy(update={"upstreams": upstreams})
        self._tell_discovery({endpoint: endpoint for endpoint in self.servers})
        self._tell()

    def _find_renamed(self, settings: Settings) -> dict[str, str]:
        """Old name by new one. One that is leaving already counts as long as somebody is there."""
        before, now = self.settings.upstreams, settings.upstreams
        gone = {
            name: servers_of(it)
            for name, it in before.items()
            if name not in now and (name in self._named or not self._is_empty(name))
        }
        return find_successors(gone, {name: servers_of(it) for name, it in now.items() if name not in before})

    def apply(self, plan: Plan) -> None:
        """Puts it in force, from one moment to the next."""
        before, was_named = self.settings, self._named
        self._take_on(plan, owners_of(before))
        leave = was_named - plan.named - set(plan.renamed.values())
        with self.admission.standstill():
            self._rename_and_add(plan, before)
            for name in leave:
                self.admission.retire(name, dismiss=self._stands(name))
            for name in filter(plan.named.__contains__, plan.settings.upstreams):
                old = plan.renamed.get(name, name)
                if old in before.upstreams:
                    self._change_gate(name, before.upstreams[old], plan)
                    if old not in was_named:
                        self.admission.reopen(name)
            self.lookout.replace(self.servers, owners_of(self.settings), plan.kept)
            self._tell()
        for name in leave:
            self._see_off(name)

    def _take_on(self, plan: Plan, owners: Mapping[str, str]) -> None:
        """Settings and servers; `owners` of the servers that were there."""
        new_names = {old: new for new, old in plan.renamed.items()}
        self._forget_idle()  # those of earlier changes; what is just being replaced may be about to be called
        self._retired = {server: new_names.get(owner, owner) for server, owner in self._retired.items()}
        stay = set(plan.servers.values())
        for endpoint, server in self.servers.items():
            if server not in stay:
                self._retire(server, new_names.get(owners[endpoint], owners[endpoint]))
        self.settings, self.servers, self._keys = plan.settings, plan.servers, plan.keys
        self._named = plan.named
        self.renamed = names_known(self.renamed, plan.renamed, plan.settings.upstreams)
        self._is_shared = True  # until somebody has looked

    def _rename_and_add(self, plan: Plan, before: Settings) -> None:
        for new, old in plan.renamed.items():
            self.admission.rename(old, new)
        self.lookout.rename({old: new for new, old in plan.renamed.items()})
        for name in plan.named - before.upstreams.keys() - plan.renamed.keys():
            settings = plan.settings.upstreams[name]
            self.admission.add(make_gate(name, settings, self._accounts.of(name, settings)))
        self._tell_discovery(plan.kept)
        self._tell()

    def _stays(
        self, old_endpoint: str, endpoint: str, name: str, settings: UpstreamSettings, key: SecretStr | None
    ) -> bool:
        """Nothing of that server changes, so that its object stays. A file of certificates may have another content."""
        same = old_endpoint == endpoint and self._keys.get(name) == key and not settings.ca_file
        return same and _is_same(self.settings.upstreams[name], settings)

    def _change_gate(self, name: str, old: UpstreamSettings, plan: Plan) -> None:
        settings = plan.settings.upstreams[name]
        names = endpoint_names(name, settings)
        kept = {new: plan.kept[new] for new in names if new in plan.kept}
        caps = {endpoint: self._cap(name, endpoint, settings, kept) for endpoint in names}
        holds = settings.on_down == "hold"
        gate = self.admission.gate(name)
        now = {endpoint: it.max_concurrent for endpoint, it in gate.endpoints().items()}
        if now != caps or holds != gate.holds or kept != {endpoint: endpoint for endpoint in now}:
            accounts = self._accounts.of(name, settings)
            self.admission.set_endpoints(name, caps, kept=kept, holds=holds, accounts=accounts)
        self.admission.set_limits(name, self._limits(name, old, settings, gate.limits))

    def _limits(self, name: str, old: UpstreamSettings, new: UpstreamSettings, now: Limits) -> Limits:
        """What the settings say otherwise than before; the rest stays, whether an operator set it or not."""
        was, wanted = limits_of(old), limits_of(new, self.discovery.slots(name) or now.max_concurrent)
        same_cap = old.max_concurrent == new.max_concurrent and bool(old.endpoints) is bool(new.endpoints)
        changed = {key for key in Limits.__struct_fields__ if getattr(was, key) != getattr(wanted, key)}
        changed -= {"max_concurrent"}
        changed |= set() if same_cap else {"max_concurrent"}  # "auto" may be any number, so none tells that it is new
        return msgspec.structs.replace(now, **{key: getattr(wanted, key) for key in changed})

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

    # ---- servers that more than one upstream sends to, or sent to

    def _look_again_soon(self) -> None:
        if self._looking is None:
            self._looking = asyncio.get_running_loop().call_soon(self._look_again)

    def _look_again(self) -> None:
        """Those that are leaving first: who waits there came before all others."""
        self._looking = None
        for name in sorted(self.admission.upstreams(), key=lambda name: name in self._named):
            self.admission.look_again(name)
        self._is_shared = self._accounts.are_shared(self._gates())

    def _gates(self) -> list[Gate]:
        return [self.admission.gate(name) for name in self.admission.upstreams()]

    # ---- upstreams that leave

    def _stands(self, name: str) -> bool:
        """Who waits there may wait for ever."""
        return self.admission.gate(name).stands

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
            self._retire(self.servers[endpoint], name)
        self.servers = {endpoint: server for endpoint, server in self.servers.items() if endpoint not in names}
        rest = {other: it for other, it in self.settings.upstreams.items() if other != name}
        self.settings = self.settings.model_copy(update={"upstreams": FrozenDict(rest)})
        self.lookout.replace(self.servers, owners_of(self.settings), {endpoint: endpoint for endpoint in self.servers})
        self.discovery.drop(name)
        self.admission.remove(name)
        self._tell()

    def _tell_discovery(self, kept: Mapping[str, str]) -> None:
        named = {name: it for name, it in self.settings.upstreams.items() if name in self._named}
        settings = self.settings.model_copy(update={"upstreams": FrozenDict(named)})
        self.discovery.replace(settings, self.servers, kept)

    def _tell(self) -> None:
        self._on_change(self)


def same_servers(name: str, new: UpstreamSettings, old_name: str, old: UpstreamSettings) -> dict[str, str]:
    """The endpoints of an upstream that are there before and after: new name to old."""
    there = {url: endpoint for endpoint, url in _urls(old_name, old)}
    return {endpoint: there[url] for endpoint, url in _urls(name, new) if url in there}


def _urls(name: str, settings: UpstreamSettings) -> list[tuple[str, str]]:
    urls = [endpoint.url for endpoint in settings.all_endpoints]
    return list(zip(endpoint_names(name, settings), urls, strict=True))


def _is_same(old: UpstreamSettings, new: UpstreamSettings) -> bool:
    """Nothing that a server's object knows has changed."""
    fields = UpstreamSettings.model_fields.keys() - _OF_THE_GATE
    return all(getattr(old, field) == getattr(new, field) for field in fields)


def _plain(key: SecretStr | None) -> str:
    return key.get_secret_value() if key is not None else ""
