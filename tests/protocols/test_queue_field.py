"""The field that tells a position, and its absence."""

import msgspec

from llmgate.core.line import Position
from llmgate.protocols.queue_field import QueueField, queue_field


class Part(msgspec.Struct):
    queue: QueueField | msgspec.UnsetType


def test_with_and_without_a_position() -> None:
    position = Position(position=2, depth=3, waited_ms=1200, eta_ms=4000)
    assert msgspec.json.encode(Part(queue_field(position))) == b'{"queue":{"position":2,"depth":3}}'
    assert msgspec.json.encode(Part(queue_field(None))) == b"{}"


def test_a_state_is_told_while_there_is_one() -> None:
    position = Position(position=2, depth=3, waited_ms=1200, state="upstream_down")
    told = b'{"queue":{"position":2,"depth":3,"state":"upstream_down"}}'
    assert msgspec.json.encode(Part(queue_field(position))) == told
