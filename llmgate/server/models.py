"""The lists of models that llmgate answers by itself, in the shapes of Anthropic, OpenAI and Ollama.

What those shapes want and nobody knows of a model behind a gate has a value that their clients can read and that says
nothing: a date of 1970, a size of 0. A digest must have its 64 letters, since Ollama's command line cuts it: it is made
of the name.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from llmgate.core.routing import Route

Models = Sequence[tuple[str, Route]]
"""Names that clients may ask for, with where they lead: see Routes.models."""

OLLAMA_VERSION = "0.12.6"
"""Of the Ollama whose API is spoken here: clients refuse versions that lack what they use."""

_CREATED = "1970-01-01T00:00:00Z"
_NEVER = "9999-12-31T23:59:59Z"


def anthropic_models(models: Models) -> dict[str, Any]:
    """GET /v1/models, as Anthropic has it."""
    data = [anthropic_model(name) for name, _ in models]
    ends = {"first_id": data[0]["id"] if data else None, "last_id": data[-1]["id"] if data else None}
    return {"data": data, "has_more": False, **ends}


def anthropic_model(name: str) -> dict[str, Any]:
    """GET /v1/models/NAME, as Anthropic has it."""
    return {"type": "model", "id": name, "display_name": name, "created_at": _CREATED}


def openai_models(models: Models) -> dict[str, Any]:
    """GET /v1/models, as OpenAI has it."""
    return {"object": "list", "data": [openai_model(name, route) for name, route in models]}


def openai_model(name: str, route: Route) -> dict[str, Any]:
    """GET /v1/models/NAME, as OpenAI has it."""
    return {"id": name, "object": "model", "created": 0, "owned_by": route.upstream}


def ollama_tags(models: Models) -> dict[str, Any]:
    """GET /api/tags: the models that may be asked for."""
    return {"models": [{**_ollama_model(name, route), "modified_at": _CREATED} for name, route in models]}


def ollama_ps(models: Models) -> dict[str, Any]:
    """GET /api/ps: the models that are in memory. Who asks need not load one, so all of them are said to be."""
    loaded = {"expires_at": _NEVER, "size_vram": 0}
    return {"models": [{**_ollama_model(name, route), **loaded} for name, route in models]}


def ollama_show(name: str) -> dict[str, Any]:
    """POST /api/show: one model."""
    return {
        "license": "",
        "modelfile": "",
        "parameters": "",
        "template": "",
        "details": _details(),
        "model_info": {"general.basename": name},
        "capabilities": ["completion"],
        "modified_at": _CREATED,
    }


def _ollama_model(name: str, route: Route) -> dict[str, Any]:
    digest = hashlib.sha256(f"{route.upstream}/{route.model}".encode()).hexdigest()
    return {"name": name, "model": name, "size": 0, "digest": digest, "details": _details()}


def _details() -> dict[str, Any]:
    unknown = dict.fromkeys(("parent_model", "format", "family", "parameter_size", "quantization_level"), "")
    return {**unknown, "families": []}
