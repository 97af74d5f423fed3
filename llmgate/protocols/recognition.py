"""Which server this is, and whether it speaks Messages, from its answers to questions that change nothing in it.

    llama-server  GET /props has `default_generation_settings`, as a server or as a router of several models
    Ollama        GET /api/version tells a version, and GET / says "Ollama is running"; others answer the first, for
                  the sake of Ollama's clients
    vLLM          GET /version tells a version, and its models are `owned_by` vllm
    SGLang        its models are `owned_by` sglang; how much it runs at once is in GET /server_info, in older versions
                  GET /get_server_info (python/sglang/srt/entrypoints/http_server.py)

An SGLang is of the kind "openai". No other is concluded: what answers like OpenAI may be a gateway to anything. LM
Studio answers 200 and an error that names the endpoint where it does not know a path.
"""

from typing import Any

import msgspec

from llmgate.protocols.decoding import decoded
from llmgate.protocols.speech import is_no_such_path
from llmgate.protocols.upstream_error import read_upstream_error


class _Props(msgspec.Struct):
    default_generation_settings: dict[str, Any]


class _Version(msgspec.Struct):
    version: str


class _Model(msgspec.Struct):
    owned_by: str = ""


class _Models(msgspec.Struct):
    data: list[_Model]


class _Scheduler(msgspec.Struct):
    """Of one of its data-parallel parts. The answer has much more, secrets among it, that is never looked at."""

    effective_max_running_requests_per_dp: int = 0


class _ServerInfo(msgspec.Struct):
    internal_states: list[_Scheduler] = []
    max_running_requests: int | None = None
    """As it was started; None: it found its own."""


_PROPS = msgspec.json.Decoder(_Props)
_SERVER_INFO = msgspec.json.Decoder(_ServerInfo)
_VERSION = msgspec.json.Decoder(_Version)
_MODELS = msgspec.json.Decoder(_Models)
_OBJECT = msgspec.json.Decoder(dict[str, Any])


def is_llama_server(props: bytes) -> bool:
    """By the answer to GET /props."""
    return decoded(_PROPS, props) is not None


def tells_version(body: bytes) -> bool:
    """By the answer to GET /api/version or GET /version."""
    return decoded(_VERSION, body) is not None


def is_ollama(root: bytes) -> bool:
    """By the answer to GET /, of a server that tells a version."""
    return root.strip() == b"Ollama is running"


def is_vllm(models: bytes) -> bool:
    """By the answer to GET /v1/models, of a server that tells a version."""
    return _is_owned_by("vllm", models)


def is_sglang(models: bytes) -> bool:
    """By the answer to GET /v1/models."""
    return _is_owned_by("sglang", models)


def sglang_slots(info: bytes) -> int | None:
    """How many requests an SGLang runs at once, by its GET /server_info; None where it does not tell."""
    told = decoded(_SERVER_INFO, info)
    if told is None:
        return None
    running = sum(part.effective_max_running_requests_per_dp for part in told.internal_states)
    slots = running or told.max_running_requests or 0
    return slots if slots > 0 else None


def _is_owned_by(owner: str, models: bytes) -> bool:
    listed = decoded(_MODELS, models)
    return listed is not None and any(model.owned_by == owner for model in listed.data)


def speaks_messages(status: int, body: bytes) -> bool | None:
    """By the answer to POST /v1/messages with `{}`; None: it says nothing of that (no key, loading, broken)."""
    if is_no_such_path(status, body):
        return False
    if status == 200:
        return _speaks_by_success(body)
    if read_upstream_error(status, body).status in (400, 422):
        return True
    return None


def _speaks_by_success(body: bytes) -> bool | None:
    document = decoded(_OBJECT, body)
    if document is None:
        return None
    if "error" in document:
        return False if b"endpoint" in body.lower() else None
    return True
