"""What a server says of itself, asked without side effects: what it is, its slots, its models.

Nothing that is asked loads a model, keeps one loaded or makes one answer: POST /v1/messages gets `{}`, in which there
is nothing to be answered, and POST /api/show reads a file's head.
"""

from collections.abc import Mapping

import msgspec

from llmgate.errors import UpstreamFailed
from llmgate.protocols.decoding import decoded
from llmgate.protocols.model_card import ModelCard, read_models, read_slot_context
from llmgate.protocols.ollama_card import read_tags, with_ps, with_show
from llmgate.protocols.recognition import (
    is_llama_server,
    is_ollama,
    is_sglang,
    is_vllm,
    sglang_slots,
    speaks_messages,
    tells_version,
)
from llmgate.protocols.speech import MESSAGES_PATH, Kind
from llmgate.upstreams.answer import Timeouts
from llmgate.upstreams.upstream import Upstream

SHOWN_MOST = 100
"""Models that an Ollama is asked about one by one."""

_NO_SUCH_PATH = (404, 405, 501)
_LATER = (429, 502, 503, 504)
"""Loading, busy, or a proxy whose server is away."""
_LIMIT = 4 * 1024 * 1024
_TIMEOUTS = Timeouts(connect=5.0, first_byte=10.0, idle=10.0, total=20.0)


class _Props(msgspec.Struct):
    total_slots: int


_PROPS = msgspec.json.Decoder(_Props)


class Probe:
    """One round of questions to one server; each path is asked at most once.

    Every method raises GateError where the server does not answer, or answers that it cannot now.
    """

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._answers: dict[bytes, tuple[int, bytes]] = {}

    async def slots(self) -> int | None:
        """How many requests the server runs at once; None where it does not tell.

        llama-server's --parallel, SGLang's --max-running-requests or what it found for itself.
        """
        props = decoded(_PROPS, await self._get(b"/props", needed=True))
        if props is not None:
            return props.total_slots if props.total_slots > 0 else None
        if await self.is_sglang():
            return sglang_slots(await self._get(b"/server_info") or await self._get(b"/get_server_info"))
        return None

    async def is_sglang(self) -> bool:
        return is_sglang(await self._get(b"/v1/models"))

    async def models(self, *, needed: bool) -> tuple[ModelCard, ...]:
        """The server's models, () where it tells none. `needed`: a refusal to tell is an error."""
        return read_models(await self._get(b"/v1/models", needed=needed)) or ()

    async def kind(self) -> Kind:
        """What the server is; "auto" where it is none of those that are known."""
        if is_llama_server(await self._get(b"/props")):
            return "llama-server"
        if tells_version(await self._get(b"/api/version")) and is_ollama(await self._get(b"/")):
            return "ollama"
        if tells_version(await self._get(b"/version")) and is_vllm(await self._get(b"/v1/models")):
            return "vllm"
        return "openai" if await self.is_sglang() else "auto"

    async def messages(self) -> bool | None:
        """Whether the server answers POST /v1/messages; None where its answer does not tell."""
        return speaks_messages(*await self._ask(b"POST", MESSAGES_PATH.encode(), b"{}"))

    async def cards(self, kind: Kind, known: Mapping[str, ModelCard]) -> dict[str, ModelCard]:
        """All that the server tells of its models, by name; what is `known` of an unchanged one is not asked again."""
        listed = {card.name: card for card in await self.models(needed=False)}
        if kind == "llama-server":
            return _with_slot_context(listed, await self._get(b"/props"))
        if kind == "ollama":
            return await self._ollama_cards(listed, known)
        return listed

    async def _ollama_cards(
        self, listed: Mapping[str, ModelCard], known: Mapping[str, ModelCard]
    ) -> dict[str, ModelCard]:
        tags = read_tags(await self._get(b"/api/tags")) or {}
        asked = 0
        for name, card in tags.items():
            old = known.get(name)
            if old and old.model_info and (old.digest, old.modified_at) == (card.digest, card.modified_at):
                tags[name] = old
            elif asked < SHOWN_MOST:
                asked += 1
                status, body = await self._ask(b"POST", b"/api/show", msgspec.json.encode({"model": name}))
                tags[name] = with_show(card, body) if status == 200 else card
        return with_ps({**listed, **tags}, await self._get(b"/api/ps"))

    async def _get(self, path: bytes, *, needed: bool = False) -> bytes:
        """The body of a 200; b"" where there is no such path, or where it is refused and not `needed`."""
        if path not in self._answers:
            self._answers[path] = await self._ask(b"GET", path)
        status, body = self._answers[path]
        if status == 200:
            return body
        if status in _NO_SUCH_PATH or (status not in _LATER and not needed):
            return b""
        raise UpstreamFailed("llmgate: the upstream does not tell what it serves (UPSTREAM_ERROR)")

    async def _ask(self, method: bytes, path: bytes, body: bytes = b"") -> tuple[int, bytes]:
        return await self._upstream.ask(path, method=method, body=body, timeouts=_TIMEOUTS, limit=_LIMIT)


def _with_slot_context(cards: Mapping[str, ModelCard], props: bytes) -> dict[str, ModelCard]:
    """A llama-server's only model has what one slot has; a router's models have their own."""
    context = read_slot_context(props)
    if context is None or len(cards) != 1:
        return dict(cards)
    return {name: msgspec.structs.replace(card, context_window=context, loaded=True) for name, card in cards.items()}
