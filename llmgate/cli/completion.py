"""`llmgate completion`: scripts that let a shell complete commands, options, and the names that the daemon knows.

They are made from the typer tree and hold its words themselves: pressing TAB starts no Python, but where the name of an
upstream or the id of a request may stand. Since the global options may stand anywhere, they are offered everywhere.
"""

import contextlib
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

import typer

from llmgate.cli.context import Context, context_of, print_json, print_lines
from llmgate.errors import LlmgateError


class Shell(StrEnum):
    """The shells that there are scripts for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


class Names(StrEnum):
    """What the daemon is asked for by a script."""

    UPSTREAMS = "upstreams"
    REQUESTS = "requests"
    WAITING = "waiting"


class Values(NamedTuple):
    """What may stand somewhere: some words, and names of the daemon's."""

    words: tuple[str, ...] = ()
    names: Names | None = None


NOTHING = Values()


@dataclass(frozen=True)
class Words:
    """What may come after one command: `commands` and `options`, each with its help; `values` for an argument."""

    commands: Mapping[str, str]
    options: Mapping[str, str]
    valued: Mapping[str, Values] = field(default_factory=dict)
    """The options that a value follows."""
    values: Values = NOTHING


Tree = Mapping[tuple[str, ...], Words]

_ASK = "command llmgate"
"""How a script asks for names."""


def _shell(text: str) -> Shell:
    try:
        return Shell(text)
    except ValueError:
        raise typer.BadParameter("must be bash, zsh or fish") from None


def _names(text: str) -> Names:
    try:
        return Names(text)
    except ValueError:
        raise typer.BadParameter("must be upstreams, requests or waiting") from None


def completion(
    ctx: typer.Context,
    shell: Annotated[Shell | None, typer.Argument(metavar="SHELL", hidden=True, parser=_shell)] = None,
    names: Annotated[
        Names | None,
        typer.Option(
            help="Instead print what the daemon knows: upstreams, requests or waiting.", parser=_names, metavar="WHAT"
        ),
    ] = None,
) -> None:
    """Print the completions for bash, zsh or fish.

    SHELL is bash, zsh or fish.

    \b
    Examples:
      llmgate completion bash > ~/.local/share/bash-completion/completions/llmgate
      llmgate completion zsh > "${fpath[1]}/_llmgate"
      llmgate completion fish > ~/.config/fish/completions/llmgate.fish
    """
    context = context_of(ctx)
    if names is not None:
        _print_names(names, context)
        return
    if shell is None:
        raise typer.BadParameter("name a shell: bash, zsh or fish")
    text = "\n".join(SCRIPTS[shell](words_of(ctx.find_root().command)))
    if context.json:
        print_json({"shell": shell.value, "script": text})
    else:
        print_lines([text])


def _print_names(wanted: Names, context: Context) -> None:
    """One a line. Nothing where no daemon answers: a script that completes a line must not say why not."""
    found: list[str] = []
    with contextlib.suppress(LlmgateError):
        client = context.client("completion")
        if wanted is Names.UPSTREAMS:
            found = [view.name for view in client.status().upstreams]
        else:
            state = "waiting" if wanted is Names.WAITING else None
            found = [request.id for request in client.requests(state=state).requests]
    if context.json:
        print_json({"names": found})
    else:
        print_lines(found)


def words_of(command: Any, path: tuple[str, ...] = ()) -> Tree:
    """The words of a command and of all below it, by what leads there."""
    children = getattr(command, "commands", {})
    found = {path: _words(command, children, path)}
    for name, child in children.items():
        found |= words_of(child, (*path, name))
    return found


def _words(command: Any, children: Mapping[str, Any], path: tuple[str, ...]) -> Words:
    options: dict[str, str] = {"--help": "Show the help and exit."}
    valued: dict[str, Values] = {}
    for parameter in command.params:
        for name in (*parameter.opts, *parameter.secondary_opts):
            if name.startswith("--"):
                options[name] = getattr(parameter, "help", None) or options.get(name, "")
                valued |= {} if getattr(parameter, "is_flag", False) else {name: _values(path, name)}
    commands = {name: child.get_short_help_str(limit=80) for name, child in children.items()}
    return Words(commands, options, valued, _values(path, ""))


def _values(path: tuple[str, ...], option: str) -> Values:
    """Of the argument of a command, or of one of its options."""
    from llmgate.cli.config_import import Source
    from llmgate.cli.connect.clients import CLIENTS
    from llmgate.cli.ps import State
    from llmgate.cli.top import Theme

    upstreams, requests, waiting = (Values(names=names) for names in Names)
    known = {
        **dict.fromkeys(("status", "pause", "resume", "drain"), upstreams),
        "set": Values(("max_concurrent=", "max_queued=", "queue_timeout="), Names.UPSTREAMS),
        **dict.fromkeys((f"{name} --upstream" for name in ("ps", "events", "wait")), upstreams),
        **dict.fromkeys(("inspect", "cancel"), requests),
        "move": waiting,
        "completion": Values(tuple(Shell)),
        "completion --names": Values(tuple(Names)),
        "connect": Values(tuple(CLIENTS)),
        "ps --state": Values(tuple(State)),
        "top --theme": Values(tuple(Theme)),
        "config import --from": Values(tuple(Source)),
    }
    return known.get(" ".join(filter(None, (*path, option))), NOTHING)


def _key(path: tuple[str, ...]) -> str:
    return " ".join(path)


def _everywhere(tree: Tree, words: Words) -> dict[str, str]:
    return {**tree[()].options, **words.options}


def _slots(tree: Tree) -> Iterator[tuple[str, Values]]:
    """Every option that some value is known for, as "command|option"."""
    for path, words in tree.items():
        yield from ((f"{_key(path)}|{name}", values) for name, values in words.valued.items() if values != NOTHING)


def _any_valued(tree: Tree) -> str:
    """A pattern of what stands before a value that nothing is known of."""
    return "|".join(f'*"|{name}"' for name in sorted({name for words in tree.values() for name in words.valued}))


def _bash(tree: Tree) -> Iterator[str]:
    """`path` is the command so far; a value that nothing is known of is completed as a file."""
    yield "# bash completion of llmgate, made by: llmgate completion bash"
    yield "_llmgate() {"
    yield '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"'
    yield '  local path="" plain="" names="" index each'
    yield "  local -a globals=(--no-color)"
    yield "  COMPREPLY=()"
    yield "  for ((index = 1; index < COMP_CWORD; index++)); do"
    yield '    each="${COMP_WORDS[index]}"'
    yield '    case "$path|$each" in'
    yield '      *"|--socket"|*"|--config") globals+=("$each" "${COMP_WORDS[index+1]}") ;;'
    for path, words in tree.items():
        for name in words.commands:
            yield f'      "{_key(path)}|{name}") path="{_key((*path, name))}" ;;'
    yield "    esac"
    yield "  done"
    yield '  case "$path|$before" in'
    for slot, values in _slots(tree):
        yield f'    "{slot}") plain="{" ".join(values.words)}" names="{values.names or ""}" ;;'
    yield f"    {_any_valued(tree)}) return 0 ;;"
    yield '    *) case "$path" in'
    for path, words in tree.items():
        yield f'      "{_key(path)}")'
        yield f'        if [[ "$word" == -* ]]; then plain="{" ".join(_everywhere(tree, words))}"'
        named = f'{" ".join((*words.commands, *words.values.words))}" names="{words.values.names or ""}'
        yield f'        else plain="{named}"; fi ;;'
    yield "    esac ;;"
    yield "  esac"
    yield f'  if [[ "$names" ]]; then plain+=" $({_ASK} "${{globals[@]}}" completion --names "$names" 2>/dev/null)"; fi'
    yield '  COMPREPLY=($(compgen -W "$plain" -- "$word"))'
    yield '  if [[ "${COMPREPLY[*]}" == *= ]]; then compopt -o nospace 2>/dev/null; fi'
    yield "}"
    yield "complete -o default -F _llmgate llmgate"


def _zsh(tree: Tree) -> Iterator[str]:
    yield "#compdef llmgate"
    yield "# zsh completion of llmgate, made by: llmgate completion zsh"
    yield "_llmgate() {"
    yield "  local path_='' names=''"
    yield "  local -i index"
    yield "  local -a found globals"
    yield "  globals=(--no-color)"
    yield "  for ((index = 2; index < CURRENT; index++)); do"
    yield '    case "$path_|$words[index]" in'
    yield '      *"|--socket"|*"|--config") globals+=("$words[index]" "$words[index+1]") ;;'
    for path, words in tree.items():
        for name in words.commands:
            yield f'      "{_key(path)}|{name}") path_="{_key((*path, name))}" ;;'
    yield "    esac"
    yield "  done"
    yield '  case "$path_|$words[CURRENT-1]" in'
    for slot, values in _slots(tree):
        plain = _zsh_words(dict.fromkeys(values.words, ""))
        yield f'    "{slot}") found=({plain}) names="{values.names or ""}" ;;'
    yield f"    {_any_valued(tree)}) ;;"
    yield '    *) case "$path_" in'
    for path, words in tree.items():
        plain = _zsh_words({**words.commands, **dict.fromkeys(words.values.words, "")})
        yield f'      "{_key(path)}")'
        yield f"        if [[ $PREFIX == -* ]]; then found=({_zsh_words(_everywhere(tree, words))})"
        yield f'        else found=({plain}) names="{words.values.names or ""}"; fi ;;'
    yield "    esac ;;"
    yield "  esac"
    asked = f'"$({_ASK} $globals completion --names $names 2>/dev/null)"'
    yield f'  if [[ -n "$names" ]]; then found+=(${{(f){asked}}}); fi'
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
    yield "function __llmgate_names"
    yield "  set -l globals --no-color"
    yield "  set -l words (commandline -opc)"
    yield "  for at in (seq (count $words))"
    yield "    contains -- $words[$at] --socket --config; and set -a globals $words[$at] $words[(math $at + 1)]"
    yield "  end"
    yield f"  {_ASK} $globals completion --names $argv[1] 2>/dev/null"
    yield "end"
    for path, words in tree.items():
        where = _fish_text(f'test (__llmgate_path) = "{_key(path)}"')
        for name, help_ in words.commands.items():
            yield f"complete -c llmgate -f -n {where} -a {name} -d {_fish_text(help_)}"
        if words.values != NOTHING:
            yield f"complete -c llmgate -f -n {where} -a {_fish_values(words.values)}"
        for name, help_ in words.options.items() if path else ():
            yield _fish_option(words, name, help_, f" -n {where}")
    for name, help_ in tree[()].options.items():
        yield _fish_option(tree[()], name, help_)


def _fish_option(words: Words, name: str, help_: str, where: str = "") -> str:
    values = words.valued.get(name)
    takes = "" if values is None else " -r" if values == NOTHING else f" -x -a {_fish_values(values)}"
    return f"complete -c llmgate{where} -l {name.removeprefix('--')}{takes} -d {_fish_text(help_)}"


def _fish_values(values: Values) -> str:
    return _fish_text(" ".join([*values.words, *([f"(__llmgate_names {values.names})"] if values.names else [])]))


def _fish_text(text: str) -> str:
    """In fish's single quotes a backslash and a quote are escaped."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SCRIPTS = {Shell.BASH: _bash, Shell.ZSH: _zsh, Shell.FISH: _fish}
