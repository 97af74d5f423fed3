"""`llmgate config show` and `config schema`: the settings in force, where each comes from, and what there can be."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from llmgate.cli.context import context_of, print_json, print_lines, say
from llmgate.cli.failure import sentence

Keys = Mapping[tuple[str, ...], Any]


def show(
    ctx: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", hidden=True)] = None,
    origin: Annotated[bool, typer.Option("--origin", help="Say of each key where its value comes from.")] = False,
) -> None:
    """Print every setting with the value in force.

    That is a whole settings file, of FILE or else of what serve would use, with the defaults. Values of headers are
    not shown, nor are keys: only where they lie.

    \b
    Example:
      llmgate config show --origin | grep -v default
    """
    from llmgate.config.load import trace
    from llmgate.config.written import written

    context = context_of(ctx)
    loaded, origins = trace(file or context.config, environ=os.environ)
    settings = written(loaded.settings)
    places = {path: origins.place(path) for path in flat(settings)} if origin else {}
    if context.json:
        told = {"origins": {_name(path): place for path, place in places.items()}} if origin else {}
        print_json({"config": str(loaded.path or ""), "settings": settings} | told)
        return
    print_lines(_with_places(flat(settings), places) if origin else _as_file(settings))
    for warning in loaded.warnings if not context.quiet else ():
        say(sentence(warning))


def flat(settings: Mapping[str, Any]) -> Keys:
    """Every key by what leads to it: a section and a key, or "upstreams", a name and a key."""
    found: dict[tuple[str, ...], Any] = {}
    for section, table in settings.items():
        for name, value in table.items():
            if section == "upstreams":
                found |= {(section, name, key): each for key, each in value.items()}
            else:
                found[section, name] = value
    return found


def _as_file(settings: Mapping[str, Any]) -> list[str]:
    from llmgate.config.toml import dump

    return dump(settings).splitlines()


def _with_places(keys: Keys, places: Mapping[tuple[str, ...], str]) -> Iterator[str]:
    """Dotted keys, which TOML takes as well, each with its origin as a comment."""
    from llmgate.config.toml import scalar

    for path, value in keys.items():
        yield f"{_name(path)} = {scalar(value)}  # {places[path]}"


def _name(path: tuple[str, ...]) -> str:
    from llmgate.config.toml import key

    return ".".join(key(part) for part in path)


def schema(ctx: typer.Context) -> None:
    """Print the JSON Schema of the settings file.

    Editors and programs check a file with it.

    \b
    Example:
      llmgate config schema > llmgate.schema.json
    """
    import json

    from llmgate.config.schema import schema as make_schema

    if context_of(ctx).json:
        print_json({"json_schema": make_schema()})
    else:
        print_lines([json.dumps(make_schema(), indent=2, ensure_ascii=False)])
