"""The table of clients."""

import pytest
from client_settings import FOR_EVER, KNOWN, TARGET, settings_of

from llmgate.cli.connect.clients import CLIENTS, OTHER_NAMES, find_client
from llmgate.cli.connect.target import Target

NAMES = {
    *("claude-code", "codex", "opencode", "cline", "continue", "aider", "zed", "open-webui", "pi", "dsh", "python"),
    "curl",
}


def test_all_are_there() -> None:
    assert CLIENTS.keys() == NAMES
    assert set(OTHER_NAMES.values()) <= NAMES


@pytest.mark.parametrize(
    ("typed", "name"),
    [("Claude Code", "claude-code"), ("CLAUDE", "claude-code"), ("open_webui", "open-webui"), ("dsh", "dsh")],
)
def test_names_are_found_as_they_are_typed(typed: str, name: str) -> None:
    found = find_client(typed)
    assert found is not None
    assert found.name == name


def test_a_stranger_is_not_found() -> None:
    assert find_client("emacs") is None


@pytest.mark.parametrize("name", sorted(NAMES))
@pytest.mark.parametrize("target", [TARGET, FOR_EVER, KNOWN])
def test_every_recipe_can_be_read_and_names_url_and_model(name: str, target: Target) -> None:
    recipe = CLIENTS[name].render(target)
    settings_of(recipe)
    text = "".join(block.text for block in recipe.blocks) + repr([file.values for file in recipe.files])
    assert target.root in text
    assert recipe.blocks or recipe.files
