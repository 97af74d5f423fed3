"""The tool calls of one message, put together from the pieces in its deltas.

- A piece belongs to the call at its `index`. Some servers use one index for several calls: an id, or a name after the
  arguments began, that is not the call's own begins another. Some (vLLM did) make a new id for every piece: one without
  a name goes on.
- Without an index (Gemini) a piece belongs to the call of its id, and one with neither id nor name to the last call.
- A name may come in parts, or again in every piece.
- Nothing is checked: half a call of an answer that was cut short is what the server itself answers too.
"""

from typing import Any

from llmgate.protocols.budget import Budget
from llmgate.protocols.gather.merged import Merged, with_defaults
from llmgate.protocols.seam import whole

_COST = 1024
"""Bytes that a call costs beyond its texts."""

_INPUTS = {"function": "arguments", "custom": "input"}
"""What may be called, and the field of its text."""


class Called:
    """The function, or the custom tool, of a call; also OpenAI's older function_call."""

    __slots__ = ("_budget", "_input", "_rest", "begun", "name")

    def __init__(self, budget: Budget, text: str) -> None:
        """`text` is the name of the field that holds the arguments."""
        self._budget = budget
        self._input = text
        self._rest = Merged(budget)
        self.name = ""
        self.begun = False
        """Some of the arguments have come."""

    def add(self, piece: dict[str, Any]) -> None:
        """Raises UpstreamFailed beyond the limit."""
        rest = dict(piece)
        name = _text(rest.pop("name", None))
        if not self.begun or not self.name:
            self.name = name if name.startswith(self.name) else self.name + name
            self._budget.take(len(name))
        self.begun = self.begun or bool(rest.get(self._input))
        self._rest.add(rest)

    def value(self) -> dict[str, Any]:
        """As in a whole message."""
        return {"name": whole(self.name), **with_defaults(self._rest.value(), **{self._input: ""})}


class _Call:
    __slots__ = ("_budget", "_called", "_rest", "identity")

    def __init__(self, budget: Budget) -> None:
        budget.take(_COST)
        self._budget = budget
        self._called: dict[str, Called] = {}
        self._rest = Merged(budget)
        self.identity = ""

    def is_another(self, identity: str, name: str) -> bool:
        """Whether a piece at this call's index, with this id and name, begins another call."""
        if not name:
            return False
        if identity and self.identity:
            return identity != self.identity
        return any(called.begun and called.name not in ("", name) for called in self._called.values())

    def add(self, piece: dict[str, Any]) -> None:
        rest = {key: value for key, value in piece.items() if key not in ("id", "index")}
        if not self.identity:
            self.identity = _identity(piece)
            self._budget.take(len(self.identity))
        for kind, text in _INPUTS.items():
            called = rest.pop(kind, None)
            if isinstance(called, dict):
                self._called.setdefault(kind, Called(self._budget, text)).add(called)
        self._rest.add(rest)

    def value(self) -> dict[str, Any]:
        kind = next(iter(self._called), "function")
        identity = {"id": whole(self.identity)} if self.identity else {}
        called = {kind: called.value() for kind, called in self._called.items()}
        return {**identity, **with_defaults(self._rest.value(), type=kind), **called}


class Calls:
    """Feed it the lists of the deltas by `add`."""

    __slots__ = ("_at", "_budget", "_calls")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._calls: list[_Call] = []
        self._at: dict[int | str, _Call] = {}
        """The newest call at each index, or id where there is no index."""

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, pieces: list[Any]) -> None:
        """Raises UpstreamFailed beyond the limit."""
        for piece in pieces:
            if isinstance(piece, dict):
                self._call_of(piece).add(piece)

    def value(self) -> list[dict[str, Any]]:
        """As in a whole message, in the order in which they began."""
        return [call.value() for call in self._calls]

    def _call_of(self, piece: dict[str, Any]) -> _Call:
        index, identity, name = piece.get("index"), _identity(piece), _name(piece)
        key = index if isinstance(index, int) else identity
        if key == "":
            return self._begin() if name or not self._calls else self._calls[-1]
        call = self._at.get(key)
        if call is None or call.is_another(identity, name):
            call = self._at[key] = self._begin()
        return call

    def _begin(self) -> _Call:
        self._calls.append(_Call(self._budget))
        return self._calls[-1]


def _identity(piece: dict[str, Any]) -> str:
    identity = piece.get("id")
    return str(identity) if isinstance(identity, int) else _text(identity)


def _name(piece: dict[str, Any]) -> str:
    names = (_text(piece[kind].get("name")) for kind in _INPUTS if isinstance(piece.get(kind), dict))
    return next(filter(None, names), "")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
