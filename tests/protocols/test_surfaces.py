"""Paths and surfaces."""

from llmgate.protocols.surfaces import CHAT, MESSAGES, SURFACES


def test_every_path_has_its_surface() -> None:
    assert SURFACES == {"/v1/messages": MESSAGES, "/v1/chat/completions": CHAT}
    assert (MESSAGES.name, CHAT.name) == ("messages", "chat")
    assert all(path in surface.paths for path, surface in SURFACES.items())
