"""The tool calls of one message, put together from the pieces in its deltas.

- A piece belongs to the newest call at its `index`; without an index (Gemini) to the call of its id, else to the last
  call. Whether it does, or begins another there, is decided as for an answer that is translated: see `goes_on`.
- A name may come in parts, or again in every piece.
- Half a call of an answer that was cut short is what the server itself answers too. Where the answer is told to be
  whole, arguments that are no JSON are an error: servers were seen to lose the end of them in their streams alone.
"""

from typing import Any

from llmgate.errors import UpstreamFailed
from llmgate.protocols import seam
from llmgate.protocols.brackets import Brackets
from llmgate.protocols.budget import Budget
from llmgate.protocols.call_piece import CallPiece, KnownCall, arguments_of, goes_on, piece_of
from llmgate.protocols.decoding import is_json
from llmgate.protocols.document import is_object
from llmgate.protocols.gather.merged import Merged, with_defaults

_COST = 1024
"""Bytes that a call costs beyond its texts."""

_HALF_A_CALL = "llmgate: the upstream sent a tool call whose arguments are no JSON (UPSTREAM_ERROR)"
_INPUTS = {"function": "arguments", "custom": "input"}
"""What may be called, and the field of its text."""


class Called:
    """The function, or the custom tool, of a call; also OpenAI's older function_call."""

    __slots__ = ("_brackets", "_budget", "_input", "_rest", "begun", "complete", "name")

    def __init__(self, budget: Budget, text: str) -> None:
        """`text` is the name of the field that holds the arguments."""
        self._budget = budget
        self._input = text
        self._rest = Merged(budget)
        self.name = ""
        self.begun = False
        """Some of the arguments have come."""
        self.complete = False
        """They are an object that has ended; what a custom tool takes is any text."""
        self._brackets = Brackets()

    def add(self, piece: dict[str, Any]) -> None:
        """Raises UpstreamFailed beyond the limit."""
        rest = dict(piece)
        name = _text(rest.pop("name", None))
        if not self.begun or not self.name:
            self.name = name if name.startswith(self.name) else self.name + name
            self._budget.take(len(name))
        self._follow(arguments_of(rest.get(self._input)))
        self._rest.add(rest)

    def value(self, *, whole: bool) -> dict[str, Any]:
        """As in a whole message; UpstreamFailed where it should be `whole` and is not."""
        rest = with_defaults(self._rest.value(), **{self._input: ""})
        if whole and self._input == "arguments":
            rest["arguments"] = _without_empty(rest["arguments"])
            if not _is_whole(rest["arguments"]):
                raise UpstreamFailed(_HALF_A_CALL)
        return {"name": seam.whole(self.name), **rest}

    def _follow(self, arguments: str) -> None:
        text = arguments if self.begun else arguments.lstrip()
        self.begun = self.begun or text != ""
        if self._input == "arguments" and not self.complete:
            self.complete = self._brackets.find_end(text.encode("utf-8", "replace")) > 0


class _Call:
    __slots__ = ("_budget", "_called", "_rest", "identity")

    def __init__(self, budget: Budget) -> None:
        budget.take(_COST)
        self._budget = budget
        self._called: dict[str, Called] = {}
        self._rest = Merged(budget)
        self.identity = ""

    def goes_on_with(self, piece: CallPiece) -> bool:
        """Whether a piece at this call's index belongs to it."""
        for called in self._called.values():
            return goes_on(KnownCall(self.identity, called.name, called.begun, called.complete), piece)
        return goes_on(KnownCall(self.identity, "", begun=False, complete=False), piece)

    def add(self, entry: dict[str, Any], identity: str) -> None:
        rest = {key: value for key, value in entry.items() if key not in ("id", "index")}
        if not self.identity:
            self.identity = identity
            self._budget.take(len(self.identity))
        for kind, text in _INPUTS.items():
            called = rest.pop(kind, None)
            if isinstance(called, dict):
                self._called.setdefault(kind, Called(self._budget, text)).add(called)
        self._rest.add(rest)

    def value(self, *, whole: bool) -> dict[str, Any]:
        kind = next(iter(self._called), "function")
        identity = {"id": self.identity} if self.identity else {}
        called = {kind: called.value(whole=whole) for kind, called in self._called.items()}
        return {**identity, **with_defaults(self._rest.value(), type=kind), **called}


class Calls:
    """Feed it the lists of the deltas by `add`."""

    __slots__ = ("_at", "_budget", "_calls", "_latest")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._calls: list[_Call] = []
        self._at: dict[int | str, _Call] = {}
        """The newest call at each index, and the call of each id."""
        self._latest: _Call | None = None

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, pieces: list[Any]) -> None:
        """Raises UpstreamFailed beyond the limit."""
        for entry in pieces:
            if isinstance(entry, dict):
                piece = _piece(entry)
                call = self._call_of(piece)
                call.add(entry, piece.id)
                if call.identity:
                    self._at.setdefault(call.identity, call)

    def value(self, *, whole: bool) -> list[dict[str, Any]]:
        """As in a whole message, in the order in which they began; raises as that of one."""
        return [call.value(whole=whole) for call in self._calls]

    def _call_of(self, piece: CallPiece) -> _Call:
        call = self._at.get(piece.id, self._latest) if piece.index is None else self._at.get(piece.index)
        if call is None or not call.goes_on_with(piece):
            call = _Call(self._budget)
            self._calls.append(call)
        self._latest = call
        if piece.index is not None:
            self._at[piece.index] = call
        return call


def _piece(entry: dict[str, Any]) -> CallPiece:
    custom = entry.get("custom")
    if isinstance(custom, dict):
        return piece_of(entry, {"name": custom.get("name"), "arguments": custom.get("input")})
    return piece_of(entry, entry.get("function"))


def _without_empty(arguments: Any) -> Any:
    """Proxies were seen to send an empty object first and the object after it, as in translate.arguments."""
    if not isinstance(arguments, str):
        return arguments
    first, after = arguments.lstrip()[:2], arguments.lstrip()[2:].lstrip()
    return after if first == "{}" and after.startswith("{") else arguments


def _is_whole(arguments: Any) -> bool:
    """Servers also send nothing, for "no arguments", or the object itself; single surrogates in it are the client's."""
    if not isinstance(arguments, str) or not arguments.strip():
        return True
    text = arguments.encode("utf-8", "replace")
    return is_json(text) or is_object(text)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
