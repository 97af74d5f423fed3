"""Settings that are made of another program's: servers with what they serve, and remarks on what is left out.

What `text` gives is always a settings file that llmgate takes: a URL, a name or a model that it would refuse is left
out with a remark, and so is a model that two servers would have.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from llmgate.config.listen import parse_listen, points_at
from llmgate.config.toml import dump, pair
from llmgate.config.units import BadValue
from llmgate.config.values import parse_aliases, parse_models, parse_url, parse_variable

LISTEN, OTHER_LISTEN = "127.0.0.1:8080", "127.0.0.1:8081"

AUTO = (
    'max_concurrent = "auto" is as many requests at once as the server says that it has slots, and one where it does '
    "not say, as most do not: put the right number there."
)


@dataclass
class Server:
    """One server. `models` are what clients ask for, each with the name by which the server knows it."""

    name: str
    url: str
    models: dict[str, str] = field(default_factory=dict)
    max_concurrent: int | None = None
    """None = "auto"."""
    more: dict[str, Any] = field(default_factory=dict)
    """Further keys of the upstream as they are written."""
    key_variable: str = ""
    remarks: list[str] = field(default_factory=list)
    others: list["Server"] = field(default_factory=list)
    """Further servers of exactly the same models."""

    def raise_limit(self, count: Any) -> None:
        """The largest of several limits that were given for one server."""
        if isinstance(count, int) and not isinstance(count, bool) and 0 < count < 1 << 31:
            self.max_concurrent = max(self.max_concurrent or 0, count)


class Draft:
    """Servers as they come; `remarks` are of the file as a whole."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.servers: list[Server] = []
        self.remarks: list[str] = []

    def server(self, name: str, url: str) -> Server | None:
        """The server at this URL, which may be known already; None, with a remark, where that is no URL to use."""
        try:
            plain = parse_url(url.rstrip("/").removesuffix("/v1"))
        except BadValue as error:
            self.remarks.append(f"{name} is left out: its URL {error}")
            return None
        known = next((server for server in self.servers if server.url == plain), None)
        if known is None:
            known = Server(self._free_name(name), plain)
            self.servers.append(known)
        return known

    def _free_name(self, wanted: str) -> str:
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", wanted).strip("-.")[:48] or "server"
        taken = {server.name for server in self.servers}
        return next(
            free for number in range(1, 10**9) if (free := f"{name}-{number}" if number > 1 else name) not in taken
        )

    def gather_equals(self) -> None:
        """Servers of exactly the same models become the endpoints of one upstream."""
        firsts: dict[tuple[tuple[str, str], ...], Server] = {}
        for server in list(self.servers):
            models = tuple(sorted(server.models.items()))
            first = firsts.setdefault(models, server)
            if models and first is not server:
                first.others.append(server)
                self.servers.remove(server)

    def text(self, environ: Collection[str] = ()) -> str:
        """The settings file; `environ` names the variables that are set, of which a key may be taken."""
        self._settle_names()
        told = [f"Made from the settings of {self.source} by llmgate config import."]
        if any(each.max_concurrent is None for server in self.servers for each in (server, *server.others)):
            told.append(AUTO)
        told += [f"NOT CARRIED OVER: {remark}" for remark in self.remarks]
        blocks = ["".join(map(_comment, told)), self._listen()]
        blocks += ["".join(self._upstream(server, environ)) for server in self.servers]
        if not self.servers:
            blocks.append(_comment("No server was found: add one with [upstreams.NAME], see llmgate.toml(5)."))
        return "\n".join(filter(None, blocks))

    def _listen(self) -> str:
        """A server that stands on our own port keeps it."""
        own = parse_listen(LISTEN)
        urls = [each.url for server in self.servers for each in (server, *server.others)]
        if not any(points_at(urlsplit(url), own) for url in urls):
            return ""
        return _comment("One of the servers has port 8080, where llmgate listens unless told otherwise.") + dump(
            {"server": {"listen": [OTHER_LISTEN]}}
        )

    def _settle_names(self) -> None:
        owners: dict[str, Server] = {}
        for server in self.servers:
            for asked, real in list(server.models.items()):
                why = _why_refused(asked, real)
                if not why and any(owners.get(name, server) is not server for name in (asked, real)):
                    why = f"{owners.get(asked, owners.get(real, server)).name} has it too, with other models beside it"
                if why:
                    server.remarks.append(f"the model {asked!r}: {why}")
                    del server.models[asked]
                else:
                    owners |= {asked: server, real: server}
                if not server.models:
                    server.remarks.append("all of its models, so that it serves what the server itself lists")

    def _upstream(self, server: Server, environ: Collection[str]) -> Iterator[str]:
        yield from (_comment(f"NOT CARRIED OVER: {remark}") for remark in server.remarks)
        yield dump({"upstreams": {server.name: dict(_values(server))}})
        for variable in (each.key_variable for each in (server, *server.others)):
            if variable and _is_variable(variable):
                sign = "" if variable in environ else "#"
                hint = "" if variable in environ else '  # set the variable for llmgate, then take the first "#" away'
                yield f"{sign}{pair('api_key_env', variable)}{hint}\n"
                return


def _values(server: Server) -> Iterator[tuple[str, Any]]:
    limit: int | str = server.max_concurrent or "auto"
    if server.others:
        everyone = (server, *server.others)
        yield "endpoints", [{"url": each.url, "max_concurrent": each.max_concurrent or "auto"} for each in everyone]
    else:
        yield from (("url", server.url), ("max_concurrent", limit))
    if server.models:
        yield "models", list(dict.fromkeys(server.models.values()))
    if aliases := {asked: real for asked, real in server.models.items() if asked != real}:
        yield "aliases", aliases
    yield from server.more.items()


def _why_refused(asked: str, real: str) -> str:
    try:
        parse_models([real])
        parse_aliases({asked: real})
    except BadValue as error:
        return f"names {error}"
    return ""


def _is_variable(name: str) -> bool:
    try:
        return bool(parse_variable(name))
    except BadValue:
        return False


def _comment(text: str) -> str:
    return f"# {' '.join(''.join(sign if sign.isprintable() else ' ' for sign in text).split())}\n"
