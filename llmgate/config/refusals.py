"""What the models refuse, in words: unknown keys with the nearest known one, missing keys, values that may not be.

No text holds a value: pydantic's own messages are used only where they cannot.
"""

from typing import Any

from pydantic import BaseModel, ValidationError

from llmgate.config.problems import Path, Problem, dotted
from llmgate.config.settings import EndpointSettings, Settings, UpstreamSettings, tables
from llmgate.names import nearest

_WORDS = {
    "bool_type": "must be true or false",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
}


def find_refusals(error: ValidationError) -> list[Problem]:
    """One problem for each thing that pydantic refused; a missing key that was only misspelt is told once."""
    refused = error.errors(include_url=False, include_input=False)
    meant = {
        (*details["loc"][:-1], key)
        for details in refused
        if details["type"] == "extra_forbidden"
        for key in _meant(details["loc"])
    }
    return [_problem(details) for details in refused if details["type"] != "missing" or details["loc"] not in meant]


def _meant(path: Path) -> tuple[str, ...]:
    """The keys that are not missing if the unknown one at `path` is put right."""
    near = nearest(str(path[-1]), _model_at(path[:-1]).model_fields)
    return ("url", "max_concurrent") if near == "endpoints" else (near,) if near else ()


def _problem(details: Any) -> Problem:
    path: Path = details["loc"]
    kind = details["type"]
    if kind == "extra_forbidden":
        return Problem(path, _advice(path), unknown=True)
    if kind == "missing":
        field = _model_at(path[:-1]).model_fields[str(path[-1])]
        return Problem(path, f"is missing. {field.description}")
    if kind == "value_error":
        if path[-1] == "[key]":  # pydantic's word for the name of an entry
            path = path[:-1]
        return Problem(path, str(details["ctx"]["error"]))
    if kind == "literal_error":
        return Problem(path, "must be " + details["ctx"]["expected"].replace("'", '"'))
    return Problem(path, _WORDS.get(kind, "has a value that is not allowed here"))


def _model_at(path: Path) -> type[BaseModel]:
    """The model of the table at `path`."""
    if not path:
        return Settings
    if path[0] == "upstreams":
        return EndpointSettings if "endpoints" in path[2:] else UpstreamSettings
    return tables().get(tuple(map(str, path)), Settings)


def _advice(path: Path) -> str:
    """What goes on after "unknown key a.b": the nearest key, or where such a key is, or which there are."""
    key = str(path[-1])
    known = list(_model_at(path[:-1]).model_fields)
    near = nearest(key, known)
    if near:
        return f"; did you mean {near}?"
    places = [place for place in _places() if place[-1] == key]
    if places:
        return f"; there is {dotted(places[0])}"
    return f"; known here are {', '.join(known)}"


def _places() -> list[tuple[str, ...]]:
    placed = [(*table, key) for table, model in tables().items() for key in model.model_fields]
    return [*placed, *(("upstreams", "NAME", key) for key in UpstreamSettings.model_fields)]
