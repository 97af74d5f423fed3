"""What servers tell of their models in GET /v1/models: each has its own names for the same few numbers.

context window  max_model_len (vLLM), context_length (OpenRouter, Together), context_window (Groq, llmgate),
                max_context_length (Mistral), max_input_tokens (Anthropic), meta.n_ctx and n_ctx_train (llama-server)
longest answer  max_output_tokens (llmgate), max_completion_tokens (Groq), top_provider.max_completion_tokens
                (OpenRouter), max_tokens (Anthropic)
name to show    display_name (Anthropic, llmgate), name (OpenRouter)
loaded          status.value, of a llama-server that is a router of several models
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from llmgate.protocols.decoding import decoded

_MOST = 2**53


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """One model, as its server described it; what it left out is empty or None."""

    name: str
    """As the server lists it."""
    display_name: str = ""
    context_window: int | None = None
    """Tokens of prompt and answer together, of one request."""
    max_output_tokens: int | None = None
    loaded: bool | None = None
    """Whether it is in memory now; None: it was not told."""
    size: int = 0
    """Bytes of the model's file."""
    digest: str = ""
    """64 letters."""
    modified_at: str = ""
    """RFC 3339, as is `expires_at`."""
    details: Mapping[str, Any] = {}
    """As Ollama has them: family, parameter_size, ..."""
    capabilities: tuple[str, ...] = ()
    model_info: Mapping[str, Any] = {}
    """As Ollama has it, scalars only."""
    parameters: str = ""
    expires_at: str = ""
    """When Ollama will unload it."""
    size_vram: int = 0
    loaded_context: int | None = None
    """Tokens of context that it was loaded with."""


class _Entry(msgspec.Struct):
    """Of no other field the type is sure."""

    id: str
    name: Any = None
    display_name: Any = None
    max_model_len: Any = None
    context_length: Any = None
    context_window: Any = None
    max_context_length: Any = None
    max_input_tokens: Any = None
    max_output_tokens: Any = None
    max_completion_tokens: Any = None
    max_tokens: Any = None
    top_provider: Any = None
    meta: Any = None
    status: Any = None


class _List(msgspec.Struct):
    data: list[_Entry]


class _Settings(msgspec.Struct):
    n_ctx: Any = None


class _Props(msgspec.Struct):
    default_generation_settings: _Settings


_LIST = msgspec.json.Decoder(_List)
_PROPS = msgspec.json.Decoder(_Props)


def read_models(body: bytes) -> tuple[ModelCard, ...] | None:
    """The models of a list; None where the body is none."""
    listed = decoded(_LIST, body)
    return None if listed is None else tuple(_card(entry) for entry in listed.data)


def read_slot_context(props: bytes) -> int | None:
    """What one slot of a llama-server really has, of GET /props; None where it is a router and tells 0."""
    told = decoded(_PROPS, props)
    return count(told.default_generation_settings.n_ctx) if told else None


def count(value: Any) -> int | None:
    """A number of tokens or bytes; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST else None


def _card(entry: _Entry) -> ModelCard:
    meta, provider = _table(entry.meta), _table(entry.top_provider)
    state = _table(entry.status).get("value")
    return ModelCard(
        name=entry.id,
        display_name=next((text for text in (entry.display_name, entry.name) if isinstance(text, str)), ""),
        context_window=_first(
            entry.max_model_len,
            entry.context_window,
            entry.context_length,
            entry.max_context_length,
            entry.max_input_tokens,
            meta.get("n_ctx"),
            meta.get("n_ctx_train"),
        ),
        max_output_tokens=_first(
            entry.max_output_tokens,
            entry.max_completion_tokens,
            provider.get("max_completion_tokens"),
            entry.max_tokens,
        ),
        loaded=state == "loaded" if isinstance(state, str) else None,
        size=count(meta.get("size")) or 0,
    )


def _first(*values: Any) -> int | None:
    return next((number for value in values if (number := count(value)) is not None), None)


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
