"""Which server this is, and whether it speaks Messages, from its answers to questions that change nothing in it.

    llama-server  GET /props has `default_generation_settings`, as a server or as a router of several models
    Ollama        GET /api/version tells a version, and GET / says "Ollama is running"; others answer the first, for
                  the sake of Ollama's clients
    vLLM          GET /version tells a version, and its models are `owned_by` vllm

No other kind is concluded: what answers like OpenAI may be a gateway to anything. LM Studio answers 200 and an error
that names the endpoint where it does not know a path.
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


_PROPS = msgspec.json.Decoder(_Props)
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
    listed = decoded(_MODELS, models)
    return listed is not None and any(model.owned_by == "vllm" for model in listed.data)


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
