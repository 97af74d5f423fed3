"""Whether the daemon, or one upstream, takes new requests: what /readyz says, to clients and on the admin socket."""

from llmgate.adminapi import Readiness
from llmgate.admission.local import LocalAdmission
from llmgate.core.events import Mode

DOWN = "down"
"""Of one that keeps no queue while no server of it takes a request; the gate of one that does is held."""


def readiness(admission: LocalAdmission, upstream: str | None, *, stopping: bool) -> Readiness:
    """Of the daemon, with a check of each upstream; or of that one, which must be there. An upstream that takes no
    request keeps the daemon from nothing: the others go on."""
    names = admission.upstreams() if upstream is None else (upstream,)
    checks = {name: _check(admission, name) for name in names}
    ready = not stopping and (upstream is None or checks[upstream] == Mode.OPEN.value)
    return Readiness(ready=ready, checks={**checks, "llmgate": "stopping" if stopping else "listening"})


def _check(admission: LocalAdmission, name: str) -> str:
    gate = admission.gate(name)
    is_told_by_mode = gate.mode is not Mode.OPEN or any(endpoint.up for endpoint in gate.endpoints().values())
    return gate.mode.value if is_told_by_mode else DOWN
