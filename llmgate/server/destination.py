"""Where a request was routed to, by the name that the upstream has now: a reload may come between that and its place.

What has a place already goes through reloads with its gate; this does the same for what has none yet. It is made where
the name is looked up, before anything is awaited.
"""

from llmgate.config.settings import UpstreamSettings
from llmgate.core.closing import Closing, refusal
from llmgate.core.gate import Gate
from llmgate.server.services import Services


class Destination:
    """One upstream, for one request."""

    __slots__ = ("_gate", "_services")

    def __init__(self, services: Services, upstream: str) -> None:
        self._services = services
        self._gate = services.admission.gate(upstream)

    @property
    def gate(self) -> Gate:
        """For looking. Another one, where its upstream was dropped and has come back."""
        return self._services.admission.gate(self.name) if self.is_there else self._gate

    @property
    def name(self) -> str:
        """What the settings call it; once it is dropped, what they called it last."""
        return self._gate.upstream

    @property
    def is_there(self) -> bool:
        """Whether the settings name it, or somebody is left there."""
        return self.name in self._services.settings.upstreams

    @property
    def settings(self) -> UpstreamSettings:
        """Raises Refused where a reload dropped it."""
        self.check_is_there()
        return self._services.settings.upstreams[self.name]

    def check_is_there(self) -> None:
        """Raises Refused as `settings` does."""
        if not self.is_there:
            raise refusal(Closing.LEAVE, self.name)
