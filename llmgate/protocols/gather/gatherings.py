"""Which gathering fits the stream of a surface, by the path that it is served on."""

from typing import Final

from llmgate.protocols.gather.chat import ChatGathering
from llmgate.protocols.gather.completions import CompletionsGathering
from llmgate.protocols.gather.gathering import Gathering, StreamGathering
from llmgate.protocols.gather.messages import MessagesGathering
from llmgate.protocols.gather.ollama import OllamaChatGathering, OllamaGenerateGathering
from llmgate.protocols.gather.responses import ResponsesGathering

_GATHERINGS: Final[dict[str, type[StreamGathering]]] = {
    "/v1/messages": MessagesGathering,
    "/v1/chat/completions": ChatGathering,
    "/v1/completions": CompletionsGathering,
    "/v1/responses": ResponsesGathering,
    "/api/chat": OllamaChatGathering,
    "/api/generate": OllamaGenerateGathering,
}


def gathering_of(path: str) -> Gathering | None:
    """For one answer; `path` is without prefix. None: answers of that surface never stream."""
    gathering = _GATHERINGS.get(path)
    return gathering() if gathering else None
