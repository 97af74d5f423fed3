"""Finds out what under /upstream/NAME/ is passed on, and to whom; and refuses what is not.

An upstream that nothing is passed on to looks like one that is not there: nobody learns its name here.
A surface's own path goes to an Exchange, which knows how its clients are told of their wait. A body that the surface
cannot read is refused there as everywhere; passed on in another way instead, a client would find that its stream is
told of no wait, for a field that it forgot.
"""

from collections.abc import Sequence

from starlette.types import ASGIApp, Scope

from llmgate.errors import GateError, MethodNotAllowed, NotFound
from llmgate.protocols.passthrough import METHODS, check_method, check_target
from llmgate.protocols.surfaces import SURFACES
from llmgate.server.asgi import access_of, headers_of
from llmgate.server.exchange import Exchange
from llmgate.server.passage import Leg, Passage, shape_of
from llmgate.server.permission import check_unrestricted
from llmgate.server.refusal import refuse
from llmgate.server.services import Services


class Passages:
    """Under each of the prefixes."""

    def __init__(self, services: Services, prefixes: Sequence[str]) -> None:
        self._services = services
        self._starts = [prefix.encode("ascii") + b"/upstream/" for prefix in prefixes]

    def find(self, scope: Scope) -> ASGIApp | None:
        """What answers a request that is for here, be it with a refusal; None: it is not for here."""
        leg = self._leg(scope)
        if leg is None:
            return None
        path = leg.path.decode("latin-1")
        surface = SURFACES.get(path) if scope["method"] == "POST" else None
        try:
            self._check(leg, scope)
            if surface is None:
                check_unrestricted(self._services, access_of(scope))
        except GateError as error:
            allowed = {"allow": METHODS} if isinstance(error, MethodNotAllowed) else {}
            return refuse(shape_of(leg.path, headers_of(scope)), error, allowed)
        services, name = self._services, leg.upstream
        if surface is None:
            return lambda scope, receive, send: Passage(services, leg, scope, receive, send).run()
        return lambda scope, receive, send: Exchange(services, surface, path, scope, receive, send, upstream=name).run()

    def _leg(self, scope: Scope) -> Leg | None:
        """From the path as it stands in the request line: decoded, another one could look like it."""
        raw: bytes = scope.get("raw_path") or b""
        for start in self._starts:
            if raw.startswith(start):
                name, slash, rest = raw.removeprefix(start).partition(b"/")
                return Leg(name.decode("latin-1"), start, slash + rest)
        return None

    def _check(self, leg: Leg, scope: Scope) -> None:
        settings = self._services.settings.upstreams.get(leg.upstream)
        if settings is None or not settings.passthrough or not leg.path:
            raise NotFound(
                "llmgate: nothing is passed on from here; paths under /upstream/NAME/ are, where the settings of the "
                "upstream NAME say passthrough = true (NOT_FOUND)"
            )
        check_method(scope["method"])
        check_target(leg.path, scope["query_string"])
