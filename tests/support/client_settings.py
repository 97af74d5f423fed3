"""Reads what `connect` prints as its client would."""

import json
import shlex
import subprocess
import tomllib
from typing import Any

import yaml

from llmgate.cli.connect.recipe import Block, Recipe, dump
from llmgate.cli.connect.target import Target

TARGET = Target("http://127.0.0.1:8080/llm", "qwen2.5:3b-instruct", 3600.0)
FOR_EVER = Target("http://127.0.0.1:8080/llm", 'it\'s "odd" $HOME', None, key_needed=True)
KNOWN = Target("http://h/llm", "m", 60.0, context_window=8192, max_output_tokens=1024)

READERS = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}


def settings_of(recipe: Recipe) -> list[Any]:
    """What each file says, read from the text that is printed."""
    return [READERS[file.format](dump(file.format, file.values)) for file in recipe.files]


def variables_of(block: Block) -> dict[str, str]:
    """The variables that a real shell has after these lines."""
    assert block.language == "sh"
    names = [line.removeprefix("export ").partition("=")[0] for line in block.text.splitlines()]
    script = block.text + "".join(f'printf "%s\\0" "${name}"\n' for name in names)
    done = subprocess.run(["sh", "-euc", script], capture_output=True, text=True, check=True)
    return dict(zip(names, done.stdout.split("\0"), strict=False))


def words_of(block: Block) -> list[str]:
    return shlex.split(block.text)
