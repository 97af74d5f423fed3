"""Paths and surfaces."""

from llmgate.protocols.surfaces import CHAT, MESSAGES, OLLAMA_CHAT, SURFACES

NAMES = {
    "/v1/messages": "messages",
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/v1/responses": "responses",
    "/v1/embeddings": "embeddings",
    "/v1/rerank": "rerank",
    "/api/chat": "ollama-chat",
    "/api/generate": "ollama-generate",
    "/api/embed": "ollama-embed",
}


def test_every_path_has_its_surface() -> None:
    assert {path: surface.name for path, surface in SURFACES.items()} == NAMES
    assert all(path in surface.paths for path, surface in SURFACES.items())
    named = (SURFACES["/v1/messages"], SURFACES["/v1/chat/completions"], SURFACES["/api/chat"])
    assert named == (MESSAGES, CHAT, OLLAMA_CHAT)
