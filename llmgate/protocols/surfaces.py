"""Every surface that is served, by the path that it is served on."""

from typing import Final

from llmgate.protocols.anthropic import MessagesSurface
from llmgate.protocols.completions import CompletionsSurface
from llmgate.protocols.ollama import OllamaChatSurface, OllamaEmbedSurface, OllamaGenerateSurface
from llmgate.protocols.openai import ChatSurface
from llmgate.protocols.responses import ResponsesSurface
from llmgate.protocols.surface import Surface
from llmgate.protocols.vectors import EmbeddingsSurface, RerankSurface

MESSAGES: Final = MessagesSurface()
CHAT: Final = ChatSurface()
OLLAMA_CHAT: Final = OllamaChatSurface()

_ALL: tuple[Surface, ...] = (
    MESSAGES,
    CHAT,
    CompletionsSurface(),
    ResponsesSurface(),
    EmbeddingsSurface(),
    RerankSurface(),
    OLLAMA_CHAT,
    OllamaGenerateSurface(),
    OllamaEmbedSurface(),
)

SURFACES: Final[dict[str, Surface]] = {path: surface for surface in _ALL for path in surface.paths}
"""By the path without prefix: "/v1/messages"."""
