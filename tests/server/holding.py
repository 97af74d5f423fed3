"""A stage whose queue is held while its server is down, and the ways in which a server is not there."""

import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hands import ANSWER, WHOLE

from llmgate.core.events import Mode, Requeued
from tests.server.house import UPSTREAM
from tests.server.stage import PLAIN, Call, Stage, Wire, settle

LOADING = b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'
TWO = [{"url": f"http://upstream.invalid/{name}", "max_concurrent": 1} for name in ("a", "b")]
SECOND = UPSTREAM + "#2"


class HoldStage(Stage):
    """Its queue is held while its server is down."""

    def __init__(self, cap: int = 1, *, waiting: dict[str, Any] | None = None, **upstream: Any) -> None:
        super().__init__(upstream={"on_down": "hold", "max_concurrent": cap, **upstream}, waiting=waiting or {})

    async def come_back(self, endpoint: str = UPSTREAM) -> None:
        """What the lookout says when the server answers again."""
        self.services.admission.set_endpoint(UPSTREAM, endpoint, up=True)
        await settle()

    async def serve(self, call: Call, *, stream: bool = True) -> None:
        call.connect()
        await settle()
        call.head(200) if stream else call.head(200, PLAIN)
        await settle()
        call.end(ANSWER if stream else WHOLE)
        await settle()

    @property
    def is_held(self) -> bool:
        return self.gate.mode is Mode.HELD

    @property
    def requeued(self) -> int:
        return sum(isinstance(event, Requeued) for event in self.events)

    def check_over(self) -> None:
        super().check_over()
        begun = Counter(
            call.headers[b"llmgate-request-id"] for call in self.calls if call.sent and not is_loading(call)
        )
        assert max(begun.values(), default=0) <= 1, "two generations for one request"


def is_loading(call: Call) -> bool:
    return call.answer.status in (502, 503)


async def refuse(call: Call) -> None:
    call.refuse()
    await settle()


async def refuse_told_first(call: Call) -> None:
    call.refuse(is_told_first=True)
    await settle()


async def load(call: Call, status: int = 503) -> None:
    """It is there, but not its model."""
    call.connect()
    await settle()
    call.head(status, PLAIN)
    await settle()
    call.end(LOADING)
    await settle()


Away = Callable[[Call], Awaitable[None]]
AWAYS = pytest.mark.parametrize("away", [refuse, refuse_told_first, load], ids=lambda away: away.__name__)
STREAMS = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


def model_of(call: Call) -> str:
    model: str = json.loads(call.body)["model"]
    return model


def frames(wire: Wire) -> list[dict[str, Any]]:
    """The queue frames that it got."""
    return [json.loads(data) for data in re.findall(rb"event: queue\ndata: (.*)\n\n", wire.answer.body)]


def states(wire: Wire) -> list[tuple[int, str | None]]:
    """Position and state in each of them."""
    return [(frame["position"], frame.get("state")) for frame in frames(wire)]


def without_frames(wire: Wire) -> bytes:
    """All the rest."""
    return re.sub(rb"event: queue\ndata: .*\n\n", b"", wire.answer.body)
