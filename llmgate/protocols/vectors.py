"""The surfaces that answer with numbers and never stream: POST /v1/embeddings and /v1/rerank.

Errors have OpenAI's shape on both. Rerank is not OpenAI's: llama-server and vLLM took its path from Jina and Cohere.
"""

from msgspec.structs import replace

from llmgate.protocols.openai import OpenAISurface
from llmgate.protocols.surface import ModelRequest


class _VectorsSurface(OpenAISurface):
    def read_request(self, body: bytes) -> ModelRequest:
        """See Surface. Whatever the body says, there is no stream."""
        return replace(super().read_request(body), stream=False)


class EmbeddingsSurface(_VectorsSurface):
    """See Surface."""

    name = "embeddings"
    paths = ("/v1/embeddings",)


class RerankSurface(_VectorsSurface):
    """See Surface."""

    name = "rerank"
    paths = ("/v1/rerank",)
