"""What a server says of itself, asked without side effects: its models and its slots.

`GET /v1/models` is OpenAI's list, which llama-server, vLLM, SGLang and Ollama answer. `GET /props` is llama-server's:
`total_slots` is its `--parallel`. Neither loads a model.
"""

import msgspec

from llmgate.errors import GateError, UpstreamFailed
from llmgate.upstreams.answer import Done, Timeouts
from llmgate.upstreams.upstream import Upstream

_NO_SUCH_PATH = (404, 405, 501)
_LIMIT = 4 * 1024 * 1024
_TIMEOUTS = Timeouts(connect=5.0, first_byte=10.0, idle=10.0, total=20.0)


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class _Props(msgspec.Struct):
    total_slots: int


async def ask_models(upstream: Upstream) -> tuple[str, ...] | None:
    """The ids of the server's models; None where it tells none. Raises GateError where it does not answer."""
    body = await _get(upstream, b"/v1/models")
    try:
        return tuple(model.id for model in msgspec.json.decode(body, type=_Models).data) if body else None
    except (msgspec.MsgspecError, RecursionError):
        return None


async def ask_slots(upstream: Upstream) -> int | None:
    """How many requests the server runs at once; None where it does not tell. Raises GateError."""
    body = await _get(upstream, b"/props")
    try:
        slots = msgspec.json.decode(body, type=_Props).total_slots if body else 0
    except (msgspec.MsgspecError, RecursionError):
        return None
    return slots if slots > 0 else None


async def _get(upstream: Upstream, path: bytes) -> bytes:
    """The body of a 200; b"" where there is no such path. Any other answer (loading, busy, no key) tells nothing."""
    async with upstream.call(b"GET", path, {}, b"", _ignore, timeouts=_TIMEOUTS) as answer:
        body = await answer.read(_LIMIT)
        if answer.status == 200:
            return body
        if answer.status in _NO_SUCH_PATH:
            return b""
        raise UpstreamFailed("llmgate: the upstream does not tell what it serves (UPSTREAM_ERROR)")


def _ignore(_: Done, __: GateError | None) -> None:
    """A probe has no slot."""
