"""`llmgate completion`: scripts that let a shell complete commands and options.

They are made from the typer tree and hold all words themselves: pressing TAB starts no Python. Since the global options
may stand anywhere, they are offered everywhere.
"""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from llmgate.cli.context import context_of, print_json, print_lines


class Shell(StrEnum):
    """The shells that there are scripts for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@dataclass(frozen=True)
class Words:
    """What may come after one command: `commands` and `options`, each with its help; `values` for an argument."""

    commands: Mapping[str, str]
    options: Mapping[str, str]
    valued: tuple[str, ...]
    """The options that a value follows."""
    values: tuple[str, ...] = ()


Tree = Mapping[tuple[str, ...], Words]


def _shell(text: str) -> Shell:
    try:
        return Shell(text)
    except ValueError:
        raise typer.BadParameter("must be bash, zsh or fish") from None


def completion(
    ctx: typer.Context, shell: Annotated[Shell, typer.Argument(metavar="SHELL", hidden=True, parser=_shell)]
) -> None:
    """Print the completions for bash, zsh or fish.

    SHELL is bash, zsh or fish.

    \b
    Examples:
      llmgate completion bash > ~/.local/share/bash-completion/completions/llmgate
      llmgate completion zsh > "${fpath[1]}/_llmgate"
      llmgate completion fish > ~/.config/fish/completions/llmgate.fish
    """
    root = ctx.find_root()
    text = "\n".join(SCRIPTS[shell](words_of(root.command)))
    if context_of(ctx).json:
        print_json({"shell": shell.value, "script": text})
    else:
        print_lines([text])


def words_of(command: Any, path: tuple[str, ...] = ()) -> Tree:
    """The words of a command and of all below it, by what leads there."""
    children = getattr(command, "commands", {})
    found = {path: _words(command, children, path)}
    for name, child in children.items():
        found |= words_of(child, (*path, name))
    return found


def _words(command: Any, children: Mapping[str, Any], path: tuple[str, ...]) -> Words:
    options: dict[str, str] = {"--help": "Show the help and exit."}
    valued = []
    for parameter in command.params:
        for name in (*parameter.opts, *parameter.secondary_opts):
            if name.startswith("--"):
                options[name] = getattr(parameter, "help", None) or options.get(name, "")
                valued += [] if getattr(parameter, "is_flag", False) else [name]
    commands = {name: child.get_short_help_str(limit=80) for name, child in children.items()}
    return Words(commands, options, tuple(valued), _values(path))


def _values(path: tuple[str, ...]) -> tuple[str, ...]:
    """Of the argument of a command that takes one of a few words."""
    if path == ("completion",):
        return tuple(Shell)
    if path == ("connect",):
        from llmgate.cli.connect.clients import CLIENTS

        return tuple(CLIENTS)
    return ()


def _key(path: tuple[str, ...]) -> str:
    return " ".join(path)


def _everywhere(tree: Tree, words: Words) -> dict[str, str]:
    return {**tree[()].options, **words.options}


def _bash(tree: Tree) -> Iterator[str]:
    """`path` is the command so far; a word behind an option with a value is no command, and completed as a file."""
    valued = sorted({name for words in tree.values() for name in words.valued})
    yield "# bash completion of llmgate, made by: llmgate completion bash"
    yield "_llmgate() {"
    yield '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" path="" index each'
    yield "  COMPREPLY=()"
    yield '  case "$before" in'
    yield f"    {'|'.join(valued)}) return 0 ;;"
    yield "  esac"
    yield "  for ((index = 1; index < COMP_CWORD; index++)); do"
    yield '    each="${COMP_WORDS[index]}"'
    yield '    case "$path|$each" in'
    for path, words in tree.items():
        for name in words.commands:
            yield f'      "{_key(path)}|{name}") path="{_key((*path, name))}" ;;'
    yield "    esac"
    yield "  done"
    yield '  case "$path" in'
    for path, words in tree.items():
        plain = " ".join((*words.commands, *words.values))
        options = " ".join(_everywhere(tree, words))
        yield f'    "{_key(path)}")'
        yield f'      if [[ "$word" == -* ]]; then COMPREPLY=($(compgen -W "{options}" -- "$word"))'
        yield f'      else COMPREPLY=($(compgen -W "{plain}" -- "$word")); fi ;;'
    yield "  esac"
    yield "}"
    yield "complete -o default -F _llmgate llmgate"


def _zsh(tree: Tree) -> Iterator[str]:
    yield "#compdef llmgate"
    yield "# zsh completion of llmgate, made by: llmgate completion zsh"
    yield "_llmgate() {"
    yield "  local path_=''"
    yield "  local -i index"
    yield "  local -a found"
    yield "  for ((index = 2; index < CURRENT; index++)); do"
    yield '    case "$path_|$words[index]" in'
    for path, words in tree.items():
        for name in words.commands:
            yield f'      "{_key(path)}|{name}") path_="{_key((*path, name))}" ;;'
    yield "    esac"
    yield "  done"
    yield '  case "$path_" in'
    for path, words in tree.items():
        plain = {**words.commands, **dict.fromkeys(words.values, "")}
        yield f'    "{_key(path)}")'
        yield f"      if [[ $PREFIX == -* ]]; then found=({_zsh_words(_everywhere(tree, words))})"
        yield f"      else found=({_zsh_words(plain)}); fi ;;"
    yield "  esac"
    yield "  if (( $#found )); then _describe llmgate found; else _files; fi"
    yield "}"
    yield 'if [[ "$funcstack[1]" == _llmgate ]]; then _llmgate "$@"; else compdef _llmgate llmgate; fi'


def _zsh_words(words: Mapping[str, str]) -> str:
    return " ".join(shlex.quote(f"{name}:{help_}" if help_ else name) for name, help_ in words.items())


def _fish(tree: Tree) -> Iterator[str]:
    """`__llmgate_path` prints the command so far; each line is offered where that is its own."""
    yield "# fish completion of llmgate, made by: llmgate completion fish"
    yield "function __llmgate_path"
    yield "  set -l path ''"
    yield "  for word in (commandline -opc)[2..-1]"
    yield '    switch "$path|$word"'
    for path, words in tree.items():
        for name in words.commands:
            yield f"      case {_fish_text(f'{_key(path)}|{name}')}"
            yield f"        set path {_fish_text(_key((*path, name)))}"
    yield "    end"
    yield "  end"
    yield '  echo "$path"'
    yield "end"
    for path, words in tree.items():
        where = _fish_text(f'test (__llmgate_path) = "{_key(path)}"')
        for name, help_ in (*words.commands.items(), *((value, "") for value in words.values)):
            yield f"complete -c llmgate -f -n {where} -a {name} -d {_fish_text(help_)}"
        for name, help_ in words.options.items() if path else ():
            takes = " -r" if name in words.valued else ""
            yield f"complete -c llmgate -n {where} -l {name.removeprefix('--')}{takes} -d {_fish_text(help_)}"
    for name, help_ in tree[()].options.items():
        takes = " -r" if name in tree[()].valued else ""
        yield f"complete -c llmgate -l {name.removeprefix('--')}{takes} -d {_fish_text(help_)}"


def _fish_text(text: str) -> str:
    """In fish's single quotes a backslash and a quote are escaped."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SCRIPTS = {Shell.BASH: _bash, Shell.ZSH: _zsh, Shell.FISH: _fish}
