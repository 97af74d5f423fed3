"""Every surface that is served, by the path that it is served on."""

from typing import Final

from llmgate.protocols.anthropic import MessagesSurface
from llmgate.protocols.openai import ChatSurface
from llmgate.protocols.surface import Surface

MESSAGES: Final = MessagesSurface()
CHAT: Final = ChatSurface()

_ALL: tuple[Surface, ...] = (MESSAGES, CHAT)

SURFACES: Final[dict[str, Surface]] = {path: surface for surface in _ALL for path in surface.paths}
"""By the path without prefix: "/v1/messages"."""
