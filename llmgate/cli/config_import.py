"""`llmgate config import`: another program's settings as a settings file of ours, on standard output."""

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llmgate.cli.context import context_of, print_json, print_lines
from llmgate.errors import LlmgateError

if TYPE_CHECKING:
    from llmgate.cli.importing.draft import Draft


class Source(StrEnum):
    """The programs whose settings are understood."""

    LITELLM = "litellm"
    LLAMA_SWAP = "llama-swap"
    OLLAMA = "ollama"


def _source(text: str) -> Source:
    try:
        return Source(text)
    except ValueError:
        raise typer.BadParameter("must be litellm, llama-swap or ollama") from None


def import_settings(
    ctx: typer.Context,
    source: Annotated[
        Source, typer.Option("--from", help="litellm, llama-swap or ollama.", parser=_source, metavar="PROGRAM")
    ],
    file: Annotated[Path | None, typer.Argument(metavar="FILE", hidden=True)] = None,
) -> None:
    """Print another program's settings as settings of ours.

    FILE is its YAML file, - is standard input; of Ollama it is the environment unless FILE names a file of variables.
    What could not be carried over stands in comments.

    \b
    Example:
      llmgate config import --from litellm config.yaml > llmgate.toml
    """
    context = context_of(ctx)
    text = _draft(source, file).text(os.environ)
    if context.json:
        import tomllib

        remarks = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# NOT CARRIED OVER")]
        print_json({"settings": tomllib.loads(text), "toml": text, "remarks": remarks})
    else:
        print_lines(text.splitlines())


def _draft(source: Source, file: Path | None) -> "Draft":
    from llmgate.cli.importing import litellm, llama_swap, ollama

    if source is Source.OLLAMA:
        return ollama.read(os.environ if file is None else ollama.read_lines(_read(file)))
    if file is None:
        raise typer.BadParameter(f"name the YAML file of {source.value}, or - for standard input", param_hint="FILE")
    plain = _parse(file, _read(file))
    if source is Source.LITELLM:
        return litellm.read(plain, os.environ)
    return llama_swap.read(plain, os.environ)


def _read(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise LlmgateError(f"llmgate: {file} cannot be read: {os.strerror(error.errno or 0)}") from None
    except UnicodeDecodeError:
        raise LlmgateError(f"llmgate: {file} is not UTF-8 text") from None


def _parse(file: Path, text: str) -> dict[str, Any]:
    import yaml

    try:
        plain = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f":{mark.line + 1}" if mark is not None else ""
        raise LlmgateError(
            f"llmgate: {file}{place}: is not YAML: {getattr(error, 'problem', None) or 'not text'}"
        ) from None
    except RecursionError:
        raise LlmgateError(f"llmgate: {file}: is not YAML: too many brackets inside each other") from None
    if not isinstance(plain, dict):
        raise LlmgateError(f"llmgate: {file}: must be a YAML table with model_list or models in it")
    return plain
