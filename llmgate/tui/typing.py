"""The line at the bottom while something is typed there, or a question stands there."""

from dataclasses import replace

from llmgate.tui import commands, targets
from llmgate.tui.deeds import begin, doctor
from llmgate.tui.model import View
from llmgate.tui.state import Asking, State, Typing
from llmgate.tui.step import Ask, Quit, Step, says

LONGEST = 500


def answer(state: State, key: str, asking: Asking, view: View) -> Step:
    """`y` is yes, everything else no."""
    state = replace(state, prompt=None)
    if key not in ("y", "Y"):
        return says(state, "Nothing was done", is_bad=False)
    refusal = targets.forbidden(view, state)
    return says(state, refusal) if refusal else begin(state, asking.actions, view, asks=False)


def press(state: State, key: str, typing: Typing, view: View) -> Step:
    """One key of a line that is being typed."""
    text = typing.text
    match key:
        case "escape":
            return Step(_typed(state, replace(typing, text=""), prompt=False))
        case "enter":
            state = replace(state, prompt=None)
            return _run(state, text, view) if typing.kind == "command" else Step(state)
        case "backspace" if not text:
            return Step(replace(state, prompt=None))
        case "backspace":
            text = text[:-1]
        case "ctrl+u":
            text = ""
        case "ctrl+w":
            text = text.rstrip().rpartition(" ")[0]
        case "tab" if typing.kind == "command":
            text = commands.complete(text, view)
        case _ if len(key) == 1 and key.isprintable():
            text = (text + key)[:LONGEST]
    return Step(_typed(state, replace(typing, text=text)))


def paste(state: State, text: str) -> State:
    """Text that came at once; only where something is being typed."""
    if not isinstance(state.prompt, Typing):
        return state
    harmless = "".join(character for character in text if character.isprintable())
    return _typed(state, replace(state.prompt, text=(state.prompt.text + harmless)[:LONGEST]))


def _typed(state: State, typing: Typing, *, prompt: bool = True) -> State:
    """A filter holds while it is typed."""
    kept = typing.text if typing.kind == "filter" else state.filter
    return replace(state, filter=kept, prompt=typing if prompt else None)


def _run(state: State, line: str, view: View) -> Step:
    command = commands.parse(line, view, state)
    if command.error:
        return says(state, command.error)
    if command.actions:
        refusal = targets.forbidden(view, state)
        return says(state, refusal) if refusal else begin(state, command.actions, view, asks=False)
    if command.page is not None:
        return Step(replace(state, page=command.page, detail=""))
    if command.inspect:
        return Step(replace(state, detail=command.inspect, told=None), (Ask(command.inspect),))
    if command.word == "doctor":
        return doctor(state)
    return Step(state, (Quit(),)) if command.word == "quit" else Step(replace(state, help=0))
