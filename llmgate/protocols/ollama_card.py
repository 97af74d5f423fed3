"""What an Ollama tells of its models: GET /api/tags lists them, POST /api/show tells more of one, GET /api/ps what is
in memory.

None of the three loads a model. Source: Ollama's docs/api.md and api/types.go. What it tells goes on to clients that
stop at a wrong type, so each value is taken only where it is what that place must hold.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from llmgate.protocols.decoding import decoded
from llmgate.protocols.model_card import ModelCard, count

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)\s*$", re.MULTILINE | re.ASCII)
_TEXTS = ("parent_model", "format", "family", "parameter_size", "quantization_level")
_TEXT_MOST = 4096
_INFO_MOST = 256
"""Values of a model's model_info that are kept."""


class _Listed(msgspec.Struct):
    name: str
    size: Any = None
    digest: Any = None
    modified_at: Any = None
    details: Any = None
    capabilities: Any = None
    expires_at: Any = None
    size_vram: Any = None
    context_length: Any = None


class _List(msgspec.Struct):
    models: list[_Listed]


class _Shown(msgspec.Struct):
    parameters: Any = None
    model_info: Any = None
    details: Any = None
    capabilities: Any = None


_LIST = msgspec.json.Decoder(_List)
_SHOWN = msgspec.json.Decoder(_Shown)


def read_tags(body: bytes) -> dict[str, ModelCard] | None:
    """The models of GET /api/tags by name; None where the body is no such list."""
    listed = decoded(_LIST, body)
    if listed is None:
        return None
    return {
        model.name: ModelCard(
            name=model.name,
            size=count(model.size) or 0,
            digest=_matching(_DIGEST, model.digest),
            modified_at=_matching(_TIME, model.modified_at),
            details=_details(model.details),
            capabilities=_texts(model.capabilities),
        )
        for model in listed.models
    }


def with_show(card: ModelCard, body: bytes) -> ModelCard:
    """The card with what POST /api/show tells of it; the same where that is nothing."""
    shown = decoded(_SHOWN, body)
    if shown is None:
        return card
    parameters = shown.parameters if isinstance(shown.parameters, str) and len(shown.parameters) <= _TEXT_MOST else ""
    info = _scalars(shown.model_info)
    return msgspec.structs.replace(
        card,
        parameters=parameters,
        model_info=info,
        details=_details(shown.details) or card.details,
        capabilities=_texts(shown.capabilities) or card.capabilities,
        context_window=_context(parameters, info),
    )


def with_ps(cards: Mapping[str, ModelCard], body: bytes) -> dict[str, ModelCard]:
    """The cards with what GET /api/ps tells; a model that is not in it is not in memory."""
    listed = decoded(_LIST, body)
    if listed is None:
        return dict(cards)
    running = {model.name: model for model in listed.models}
    return {name: _with_running(card, running.get(name)) for name, card in cards.items()}


def _with_running(card: ModelCard, running: _Listed | None) -> ModelCard:
    if running is None:
        return msgspec.structs.replace(card, loaded=False, expires_at="", size_vram=0, loaded_context=None)
    return msgspec.structs.replace(
        card,
        loaded=True,
        expires_at=_matching(_TIME, running.expires_at),
        size_vram=count(running.size_vram) or 0,
        loaded_context=count(running.context_length),
    )


def _context(parameters: str, info: Mapping[str, Any]) -> int | None:
    """The model's own num_ctx goes before what it was trained with."""
    if found := _NUM_CTX.search(parameters):
        return count(int(found[1][:16]))
    return next((count(value) for key, value in info.items() if key.endswith(".context_length")), None)


def _details(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {}
    details: dict[str, Any] = {key: text for key in _TEXTS if isinstance(text := value.get(key), str)}
    if families := _texts(value.get("families")):
        details["families"] = list(families)
    return details


def _scalars(value: Any) -> dict[str, Any]:
    """Without tokens and merges, which are null unless asked for, or lists of many thousands."""
    if not isinstance(value, dict):
        return {}
    kept = [(key, one) for key, one in value.items() if isinstance(one, bool | int | float) or _is_short(one)]
    return dict(kept[:_INFO_MOST])


def _is_short(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _TEXT_MOST


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()


def _matching(pattern: re.Pattern[str], value: Any) -> str:
    return value if isinstance(value, str) and pattern.fullmatch(value) else ""
