"""The surface of OpenAI's older completions of a prompt: POST /v1/completions.

Errors, comments and the end of a stream are those of chat completions; only the choices of a chunk have another shape.
"""

from llmgate.protocols.openai import OpenAISurface, chunk
from llmgate.protocols.sse import comment
from llmgate.protocols.surface import Opening, QueuePosition


class CompletionsSurface(OpenAISurface):
    """See Surface."""

    name = "completions"
    paths = ("/v1/completions",)

    def heartbeat(self, position: QueuePosition | None, opening: Opening) -> bytes:
        """A comment, or a chunk with an empty text."""
        if opening.manner != "chunks":
            return comment(position)
        choice = {"index": 0, "text": "", "logprobs": None, "finish_reason": None}
        return chunk("cmpl-", "text_completion", choice, position, opening)
