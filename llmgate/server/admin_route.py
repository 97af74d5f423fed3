"""One entry of the admin API's route table, and what a call of it brings and gives.

The table (admin_table.py) is the only place that knows the paths: permissions, 404, 405, the check of queries and
bodies, and the OpenAPI document all come from it.
"""

import dataclasses
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import msgspec

from llmgate.adminapi import View
from llmgate.errors import LlmgateError
from llmgate.names import meant

if TYPE_CHECKING:
    from llmgate.server.admin_operator import Operator

Level = Literal["look", "act"]
Kind = TypeVar("Kind")

JSON = "application/json"

_AT = re.compile(r" - at `\$\.(\w+)")
_UNKNOWN = re.compile(r"unknown field `(.*?)`")


class Fault(LlmgateError):
    """What was asked is not done; the message says what to do instead."""

    status: ClassVar[int] = 400
    code: ClassVar[str] = "BAD_REQUEST"


class NoSuchPath(Fault):
    status, code = 404, "NOT_FOUND"


class UnknownUpstream(Fault):
    status, code = 404, "UNKNOWN_UPSTREAM"


class UnknownRequest(Fault):
    status, code = 404, "UNKNOWN_REQUEST"


class WrongMethod(Fault):
    """`allowed` are the methods that the path takes."""

    status, code = 405, "METHOD_NOT_ALLOWED"

    def __init__(self, message: str, allowed: Iterable[str]) -> None:
        super().__init__(message)
        self.allowed = tuple(allowed)


class MayNot(Fault):
    status, code = 403, "FORBIDDEN"


class Conflict(Fault):
    """As things stand now it can not be done."""

    status, code = 409, "CONFLICT"


@dataclasses.dataclass(frozen=True)
class Call:
    """One request that may be made, checked."""

    by: str
    """Who makes it, for events and log; known for what acts."""
    may_act: bool
    target: str = ""
    """The part of the path that is variable: an upstream's name, or a request's id."""
    query: Any = None
    body: Any = None


@dataclasses.dataclass(frozen=True)
class Answer:
    """One that is not simply a view with status 200."""

    body: bytes
    status: int = 200
    content_type: str = JSON


Handler = Callable[["Operator", Call], Awaitable[View | Answer]]


@dataclasses.dataclass(frozen=True)
class Route:
    """One method of one path. `target` in braces is the path's variable part, if it has one."""

    method: str
    path: str
    level: Level
    summary: str
    answer: type[View] | str
    """A view, or the content type of what is none."""
    handle: Handler | None
    """None for the event stream, which is written item by item."""
    query: type[View] | None = None
    body: Any = None
    """Type of the JSON body, where there is one."""
    faults: tuple[type[Fault], ...] = ()
    """Beside those that every route has."""
    statuses: tuple[int, ...] = ()
    """Beside 200, with the same kind of answer."""

    @property
    def parts(self) -> list[str]:
        return self.path.split("/")

    def match(self, path: str) -> str | None:
        """The variable part ("" where the route has none) of a path that is this route's; None of any other."""
        parts, target = path.split("/"), ""
        if len(parts) != len(self.parts):
            return None
        for part, own in zip(parts, self.parts, strict=True):
            if own.startswith("{") and part:
                target = part
            elif part != own:
                return None
        return target


def find(routes: Iterable[Route], method: str, path: str) -> tuple[Route, str]:
    """The route and the variable part of its path. Raises NoSuchPath, WrongMethod. HEAD is asked of what has GET."""
    there = [(route, target) for route in routes if (target := route.match(path)) is not None]
    if not there:
        raise NoSuchPath("there is no such path; GET /openapi.json lists all that there are")
    wanted = "GET" if method == "HEAD" else method
    for route, target in there:
        if route.method == wanted and (route.handle is not None or method == "GET"):
            return route, target
    allowed = [route.method for route, _ in there]
    raise WrongMethod(f"this path takes {' or '.join(allowed)} only", allowed)


def read_query(pairs: Iterable[tuple[str, str]], kind: type[View] | None) -> Any:
    """The parameters as their type says. Raises Fault."""
    known = kind.__struct_fields__ if kind is not None else ()
    values: dict[str, str] = {}
    for name, value in pairs:
        if name not in known:
            raise Fault(f"there is no parameter {name!r} here; {_those(known, name)}")
        if name in values:
            raise Fault(f"the parameter {name} is given twice")
        values[name] = value
    if kind is None:
        return None
    try:
        return msgspec.convert(values, type=kind, strict=False)
    except msgspec.ValidationError as error:
        raise _explain(error, kind) from None


def read_body(data: bytes, kind: Any) -> Any:
    """The JSON body as its type says, with at least one field. Raises Fault."""
    struct = kind.__origin__ if hasattr(kind, "__metadata__") else kind
    names = ", ".join(struct.__struct_fields__)
    try:
        body = msgspec.convert(_whole(msgspec.json.decode(data)), type=struct)
    except msgspec.ValidationError as error:
        raise _explain(error, struct) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise Fault(f"the body is no JSON; it must be an object of {names}") from None
    if all(getattr(body, name) is msgspec.UNSET for name in struct.__struct_fields__):
        raise Fault(f"the body must name at least one of {names}")
    return body


def _whole(value: Any) -> Any:
    """JSON knows one kind of number: 2.0 is as whole as 2."""
    if not isinstance(value, dict):
        return value
    return {name: int(each) if isinstance(each, float) and each.is_integer() else each for name, each in value.items()}


def _explain(error: msgspec.ValidationError, kind: type[View]) -> Fault:
    """Names the field, and what is allowed there."""
    text = str(error)
    unknown, at = _UNKNOWN.search(text), _AT.search(text)
    if unknown:
        return Fault(f"there is no field {unknown[1]!r}; {_those(kind.__struct_fields__, unknown[1])}")
    if at is None:
        return Fault(f"the body must be an object of {', '.join(kind.__struct_fields__)}")
    return Fault(f"{at[1]} must be {_allowed(kind, at[1])}")


def _allowed(kind: type[View], name: str) -> str:
    _, components = msgspec.json.schema_components([kind])
    return str(components[kind.__name__]["properties"][name]["description"])


def _those(known: Iterable[str], name: str) -> str:
    """All that there are, the nearest named."""
    names = list(known)
    if not names:
        return "this path takes none"
    return f"{meant(name, names)}there are: {', '.join(names)}"
