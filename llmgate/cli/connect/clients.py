"""Every client that `connect` knows, by name."""

from collections.abc import Mapping

from llmgate.cli.connect import agents, editors, pi, programs
from llmgate.cli.connect.recipe import Client

CLIENTS: Mapping[str, Client] = {
    client.name: client for family in (agents, pi, editors, programs) for client in family.CLIENTS
}

OTHER_NAMES = {
    "claude": "claude-code",
    "deepseek-harness": "dsh",
    "openwebui": "open-webui",
    "continue.dev": "continue",
}


def find_client(name: str) -> Client | None:
    """In any case, blanks and underscores as dashes."""
    plain = name.strip().lower().replace(" ", "-").replace("_", "-")
    return CLIENTS.get(OTHER_NAMES.get(plain, plain))
