"""The field `queue` by which a frame tells a position where it must otherwise look like a part of the answer."""

import msgspec

from llmgate.protocols.surface import QueuePosition


class QueueField(msgspec.Struct, frozen=True):
    """`"queue":{"position":2,"depth":3}`: readers of these protocols pass over a field that they do not know."""

    position: int
    depth: int
    state: str | msgspec.UnsetType = msgspec.UNSET
    """As in QueuePosition, left out while there is nothing to tell."""


def queue_field(position: QueuePosition | None) -> QueueField | msgspec.UnsetType:
    """UNSET, which is left out of the JSON, while there is no position to tell."""
    if position is None:
        return msgspec.UNSET
    return QueueField(position.position, position.depth, position.state or msgspec.UNSET)
