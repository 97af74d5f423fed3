"""The lists of models that llmgate answers by itself, in the shapes of Anthropic, OpenAI and Ollama.

What the servers told stands in them: a display name, the context window, the longest answer; and for Ollama's clients
what an Ollama told of size, family, capabilities and so on. What those shapes want and nobody knows has a value that
their clients can read and that says nothing: a date of 1970, a size of 0. A digest must have its 64 letters, since
Ollama's command line cuts it: where none was told it is made of the name.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from llmgate.core.routing import Route, other_tag
from llmgate.protocols.model_card import ModelCard
from llmgate.server.services import Services
from llmgate.upstreams.upstream import Upstream

OLLAMA_VERSION = "0.12.6"
"""Of the Ollama whose API is spoken here: clients refuse versions that lack what they use."""

_CREATED = "1970-01-01T00:00:00Z"
_NEVER = "9999-12-31T23:59:59Z"
_ARCHITECTURE = "unknown"
"""Ollama's clients look the context length up under the name of the architecture."""


class Model(msgspec.Struct, frozen=True):
    """A name that clients may ask for, and what is known of the model behind it."""

    name: str
    route: Route
    card: ModelCard


Models = Sequence[Model]


def list_models(services: Services) -> list[Model]:
    """Every name that can be listed: aliases included, and what the servers list of all that a glob stands for."""
    return [Model(name, route, _find_card(services, route)) for name, route in services.routes.models()]


def find_model(name: str, services: Services) -> Model:
    """Whatever a request would be taken for, in the name that was asked for, listed or not. Raises UnknownModel."""
    route = services.routes.find(name)
    return Model(name, route, _find_card(services, route))


def _find_card(services: Services, route: Route) -> ModelCard:
    """What the first endpoint that knows the model told of it."""
    servers = [services.upstreams[name] for name in services.admission.gate(route.upstream).endpoints()]
    cards = (card for server in servers if (card := _card(server, route.model)) is not None)
    return next(cards, ModelCard(name=route.model))


def _card(server: Upstream, model: str) -> ModelCard | None:
    cards = server.cards
    card = cards.get(model) or cards.get(other_tag(model))
    if card is None and server.speech.kind == "llama-server" and len(cards) == 1:
        (card,) = cards.values()  # it has one model, and serves it under every name
    return card


# ---- Anthropic, OpenAI


def anthropic_models(models: Models) -> dict[str, Any]:
    """GET /v1/models, as Anthropic has it."""
    data = [anthropic_model(model) for model in models]
    ends = {"first_id": data[0]["id"] if data else None, "last_id": data[-1]["id"] if data else None}
    return {"data": data, "has_more": False, **ends}


def anthropic_model(model: Model) -> dict[str, Any]:
    """GET /v1/models/NAME, as Anthropic has it."""
    card = model.card
    named = {"type": "model", "id": model.name, "created_at": _CREATED, "lifecycle": "active"}
    limits = {"max_input_tokens": card.context_window, "max_tokens": card.max_output_tokens}
    return {**named, **limits, **_known(card), "display_name": card.display_name or model.name}


def openai_models(models: Models) -> dict[str, Any]:
    """GET /v1/models, as OpenAI has it."""
    return {"object": "list", "data": [openai_model(model) for model in models]}


def openai_model(model: Model) -> dict[str, Any]:
    """GET /v1/models/NAME, as OpenAI has it; clients of vLLM read max_model_len, those of OpenRouter context_length."""
    named = {"id": model.name, "object": "model", "created": 0, "owned_by": model.route.upstream}
    window = model.card.context_window
    return {**named, **_known(model.card), **_told(max_model_len=window, context_length=window)}


def _known(card: ModelCard) -> dict[str, Any]:
    return _told(
        display_name=card.display_name, context_window=card.context_window, max_output_tokens=card.max_output_tokens
    )


def _told(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}


# ---- Ollama


def ollama_tags(models: Models) -> dict[str, Any]:
    """GET /api/tags: the models that may be asked for."""
    return {"models": [_ollama_model(model, modified_at=model.card.modified_at or _CREATED) for model in models]}


def ollama_ps(models: Models) -> dict[str, Any]:
    """GET /api/ps: the models that are in memory. Of a server that does not tell, all are said to be: who asks for one
    need not load it.
    """
    return {"models": [_running(model) for model in models if model.card.loaded is not False]}


def ollama_show(model: Model) -> dict[str, Any]:
    """POST /api/show: one model."""
    card = model.card
    return {
        "license": "",
        "modelfile": "",
        "parameters": card.parameters,
        "template": "",
        "details": _details(card),
        "model_info": card.model_info or _model_info(model),
        "capabilities": list(card.capabilities) or ["completion"],
        "modified_at": card.modified_at or _CREATED,
        **_known(card),
    }


def _running(model: Model) -> dict[str, Any]:
    card = model.card
    context = _told(context_length=card.loaded_context or card.context_window)
    return _ollama_model(model, expires_at=card.expires_at or _NEVER, size_vram=card.size_vram, **context)


def _ollama_model(model: Model, **fields: Any) -> dict[str, Any]:
    card, route = model.card, model.route
    digest = card.digest or hashlib.sha256(f"{route.upstream}/{route.model}".encode()).hexdigest()
    named = {"name": model.name, "model": model.name, "size": card.size, "digest": digest, "details": _details(card)}
    capabilities = _told(capabilities=list(card.capabilities))
    return {**named, **capabilities, **_known(card), **fields}


def _details(card: ModelCard) -> dict[str, Any]:
    unknown = dict.fromkeys(("parent_model", "format", "family", "parameter_size", "quantization_level"), "")
    return {**unknown, "families": [], **card.details}


def _model_info(model: Model) -> dict[str, Any]:
    info: dict[str, Any] = {"general.basename": model.name}
    if model.card.context_window:
        info["general.architecture"] = _ARCHITECTURE
        info[f"{_ARCHITECTURE}.context_length"] = model.card.context_window
    return info
