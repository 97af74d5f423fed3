"""What a simulated server says of itself: as whom it wants to be known, its slots, its models.

    any           tells its slots as a llama-server does, lists its models as an Ollama too, and is known as neither: a
                  gate sends it every surface
    llama-server  GET /props and /slots in full
    ollama        GET / says "Ollama is running"; slots are not told
    vllm          GET /version, and its models are `owned_by` vllm; slots are not told

Sources: llama.cpp tools/server/README.md; Ollama docs/api.md; vLLM's OpenAI-compatible server.
"""

import json
from collections.abc import Container, Sequence
from typing import Any, Literal, get_args

Kind = Literal["any", "llama-server", "ollama", "vllm"]
KINDS: tuple[Kind, ...] = get_args(Kind)

CONTEXT = 4096
"""Tokens that each model may have."""
OLLAMA_VERSION = "0.12.6"
VLLM_VERSION = "0.11.0"

_DAY = "1970-01-01T00:00:00Z"
_NEVER = "2999-01-01T00:00:00Z"
_DETAILS = {"parent_model": "", "format": "gguf", "family": "llama", "families": ["llama"]}
_SIZES = {"parameter_size": "3B", "quantization_level": "Q4_K_M"}
_SIZE = 1 << 31


class Guise:
    """Of one server with so many `slots`."""

    def __init__(self, kind: Kind, models: Sequence[str], slots: int) -> None:
        self.kind = kind
        self._models = tuple(models)
        self._slots = slots
        self._tells_slots = kind in ("any", "llama-server")

    def view(self, path: str, busy: Container[int]) -> Any:
        """What a GET of this path shows: text, or what JSON is made of; None where there is nothing. `busy` are the
        numbers of the slots that are taken."""
        match path:
            case "/":
                return "Ollama is running" if self.kind == "ollama" else None
            case "/health":
                return {"status": "ok"}
            case "/version" if self.kind == "vllm":
                return {"version": VLLM_VERSION}
            case "/props" if self._tells_slots:
                return self._props()
            case "/slots" if self._tells_slots:
                return [{"id": slot, "is_processing": slot in busy} for slot in range(self._slots)]
            case "/v1/models":
                owner = "vllm" if self.kind == "vllm" else "llmgate"
                models = [{"id": name, "object": "model", "created": 0, "owned_by": owner} for name in self._models]
                return {"object": "list", "data": models}
            case _:
                return self._ollama_view(path) if self.kind in ("any", "ollama") else None

    def _props(self) -> dict[str, Any]:
        props = {"total_slots": self._slots, "model_path": self._models[0], "build_info": "llmgate-simulate"}
        known = {"default_generation_settings": {"n_ctx": CONTEXT}} if self.kind == "llama-server" else {}
        return props | known

    def _ollama_view(self, path: str) -> Any:
        match path:
            case "/api/version":
                return {"version": OLLAMA_VERSION}
            case "/api/tags":
                return {"models": [_listed(name) | {"modified_at": _DAY} for name in self._models]}
            case "/api/ps":
                loaded = {"expires_at": _NEVER, "size_vram": _SIZE, "context_length": CONTEXT}
                return {"models": [_listed(name) | loaded for name in self._models]}
            case _:
                return None

    def show(self, body: bytes) -> tuple[int, Any]:
        """Status and answer of POST /api/show with this body."""
        if self.kind not in ("any", "ollama"):
            return 404, {"error": "File Not Found"}
        try:
            asked = json.loads(body)
            name = asked.get("model") or asked.get("name")
        except (ValueError, AttributeError, RecursionError):
            return 400, {"error": "the body is not a JSON object that names a model"}
        if name not in self._models:
            return 404, {"error": f"model '{name}' not found"}
        info = {"general.architecture": "llama", "llama.context_length": CONTEXT}
        details = {**_DETAILS, **_SIZES}
        texts = {"modelfile": "", "parameters": "", "template": ""}
        return 200, {**texts, "details": details, "model_info": info, "capabilities": ["completion"]}


def _listed(name: str) -> dict[str, Any]:
    """The digest is no file's."""
    return {"name": name, "model": name, "size": _SIZE, "digest": "0" * 64, "details": {**_DETAILS, **_SIZES}}
