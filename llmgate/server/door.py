"""The door, where ASGI meets `core.access`: who may come in, and what pages of other origins may read of the answer.

Where keys are asked, those of clients end here: what is behind the door sees neither Authorization nor x-api-key, so
that no log, error or upstream can get them, `forward_auth` or not.
"""

import ipaddress
from collections.abc import Callable
from typing import cast

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llmgate.config.listen import parse_listen
from llmgate.config.settings import Settings
from llmgate.core import access
from llmgate.core.access import CREDENTIALS, Asked, Rules
from llmgate.core.keys import ClientKeys
from llmgate.errors import HostNotAllowed, NotAllowed, OriginNotAllowed
from llmgate.protocols import cors
from llmgate.server import identity
from llmgate.server.asgi import ACCESS, Header, Headers, headers_of
from llmgate.server.services import Services

OPEN_PATHS = frozenset({"/health", "/healthz", "/readyz"})
"""Where no key is asked."""


class Door:
    """Before everything that the clients' ports serve, or the address of the metrics."""

    def __init__(self, services: Services, rules: Callable[[Settings, ClientKeys], Rules] | None = None) -> None:
        """`rules` makes them of what is set now; None: those of the clients' ports."""
        self._services = services
        self._make_rules = rules or make_rules
        self._made_of: tuple[Settings, ClientKeys] | None = None
        self._rules = Rules(keys=services.keys)

    def enter(self, scope: Scope) -> ASGIApp | None:
        """Notes in the scope who it is. What answers in our stead, of a preflight; None: it may go on.

        Raises NotAllowed.
        """
        rules = self._current_rules()
        headers = headers_of(scope)
        asked = _asked(scope, headers)
        try:
            found = access.check(asked, rules)
        except NotAllowed as error:
            self._services.turned_away.note(error, _who(error, headers, access.peer_of(asked, rules.trusted_proxies)))
            raise
        scope[ACCESS] = found
        if rules.keys:
            scope["headers"] = [pair for pair in scope["headers"] if pair[0] not in CREDENTIALS]
        return _answer_preflight if found.is_preflight else None

    def marked(self, scope: Scope, send: Send) -> Send:
        """`send` that adds to the head of every answer what browsers need to let an allowed page read it."""
        rules = self._current_rules()
        if not rules.origins:
            return send
        origin = headers_of(scope).get(b"origin")
        added: list[Header] = [cors.VARY]
        if origin is not None and origin in rules.origins:
            added += cors.answer_headers(origin)

        def send_marked(message: Message) -> object:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *added]
            return send(message)

        return cast("Send", send_marked)

    def _current_rules(self) -> Rules:
        """Made anew when a reload has replaced what they are made of."""
        settings, keys = self._services.settings, self._services.keys
        if self._made_of is None or self._made_of[0] is not settings or self._made_of[1] is not keys:
            self._made_of = settings, keys
            rules = self._make_rules(settings, keys)
            self._rules = msgspec.structs.replace(rules, allowed_hosts=(*rules.allowed_hosts, *self._services.names))
        return self._rules


def make_rules(settings: Settings, keys: ClientKeys) -> Rules:
    """What the settings say. The names that it listens on are its own."""
    server = settings.server
    own = {parse_listen(text).host for text in server.listen} - {""}
    return Rules(
        keys=keys,
        open_paths=OPEN_PATHS,
        allowed_hosts=(*server.allowed_hosts, *sorted(own)),
        origins=frozenset(origin.encode("ascii") for origin in server.cors.origins),
        trusted_proxies=tuple(ipaddress.ip_network(text) for text in server.trusted_proxies),
    )


def metrics_rules(settings: Settings, _: ClientKeys) -> Rules:
    """No key: Prometheus has none for what it scrapes, unless it is told. But pages must not read them either."""
    listen = settings.metrics.listen
    own = () if listen in ("", "main") else (parse_listen(listen).host,)  # a reload may have changed it
    return Rules(keys=ClientKeys(), allowed_hosts=(*settings.server.allowed_hosts, *own))


def _asked(scope: Scope, headers: Headers) -> Asked:
    client, server = scope.get("client"), scope.get("server")
    address, port = client or ("", 0)
    # a TCP client that was gone before it was accepted has no address either
    unix = client is None and (server is None or server[1] is None)
    return Asked(
        method=scope["method"], path=scope["path"], headers=headers, address=address, port=port or 0, unix=unix
    )


def _who(error: NotAllowed, headers: Headers, peer: str) -> str:
    who = f"a request from {peer}"
    if isinstance(error, HostNotAllowed):
        return f"{who} under the name {identity.clean(headers.get(b'host', b''))!r}"
    if isinstance(error, OriginNotAllowed):
        return f"{who} of a page of {identity.clean(headers.get(b'origin', b'')) or 'another site'!r}"
    return who


async def _answer_preflight(scope: Scope, receive: Receive, send: Send) -> None:
    headers = {name.decode(): value.decode("latin-1") for name, value in cors.preflight_headers(headers_of(scope))}
    await Response(status_code=204, headers=headers)(scope, receive, send)
