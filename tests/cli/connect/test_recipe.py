"""Values of a client's settings as text, read back with the reader of that format."""

import json
import tomllib
from typing import Any

import pytest
import yaml

from llmgate.cli.connect.recipe import Format, SettingsFile, dump

VALUES: dict[str, Any] = {
    "a": "x: ü \"q\" 'r' #",
    "b": {"c": 1, "d": {"e": False, "f": ["y", "no"]}},
    "g": [{"id": "1"}],
}


@pytest.mark.parametrize(
    ("format_", "reader"), [("json", json.loads), ("toml", tomllib.loads), ("yaml", yaml.safe_load)]
)
def test_each_format_is_read_back(format_: Format, reader: Any) -> None:
    text = dump(format_, VALUES)
    assert reader(text) == VALUES
    assert text.endswith("\n")


def test_the_place_to_tell_is_the_one_that_everybody_has() -> None:
    assert SettingsFile(("$X/a.json", "~/.x/a.json"), "json", {}).place == "~/.x/a.json"
