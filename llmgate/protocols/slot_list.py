"""What a llama-server tells of its slots: GET /slots, and of a router of several models GET /v1/models before it.

Each slot has `is_processing`. Newer servers (build 10434) add, of its present or last request, `id_task`,
`n_prompt_tokens_processed`, and in `next_token`, a list of one, `n_decoded`; in older ones `next_token` is an object.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from llmgate.protocols.decoding import decoded

SLOTS_PATH = b"/slots"
MODELS_PATH = b"/v1/models"
PROPERTIES_PATH = b"/props"
"""Does not wake a server that sleeps, nor keep one awake (llama.cpp, tools/server/README.md); /slots does."""

_NO_MODEL = b"model name is missing"


class Slot(msgspec.Struct):
    """One slot; what the server does not tell is None."""

    is_processing: bool
    id: int | None = None
    id_task: int | None = None
    """Of the request that it works on."""
    n_prompt_tokens_processed: int | None = None
    next_token: Any = None
    model: str = ""
    """Of a router: which of its servers the slot is one of. Not the server's own field."""

    @property
    def decoded(self) -> int | None:
        """Tokens of the answer so far."""
        told = self.next_token[0] if isinstance(self.next_token, list) and self.next_token else self.next_token
        count = told.get("n_decoded") if isinstance(told, dict) else None
        return count if isinstance(count, int) else None

    @property
    def task(self) -> tuple[str, int] | None:
        """The request that it works on, among all of the server's."""
        return None if self.id_task is None else (self.model, self.id_task)


class _Properties(msgspec.Struct):
    is_sleeping: bool = False


class _Status(msgspec.Struct):
    value: str


class _Model(msgspec.Struct):
    id: str
    status: _Status


class _Models(msgspec.Struct):
    data: list[_Model]


_SLOTS = msgspec.json.Decoder(list[Slot])
_MODELS = msgspec.json.Decoder(_Models)
_PROPERTIES = msgspec.json.Decoder(_Properties)


def read_slots(body: bytes, model: str = "") -> list[Slot] | None:
    """The slots; None where this is no list of them. `model`: of which of a router's servers."""
    slots = decoded(_SLOTS, body)
    for slot in slots or ():
        slot.model = model
    return slots


def read_sleeping(body: bytes) -> bool:
    """From GET /props: whether the server has put its model away until somebody wants it (--sleep-idle-seconds)."""
    told = decoded(_PROPERTIES, body)
    return told is not None and told.is_sleeping


def is_router(status: int, body: bytes) -> bool:
    """By the answer to GET /slots: a router wants to know of which model."""
    return status == 400 and _NO_MODEL in body


def read_loaded(body: bytes) -> Sequence[str] | None:
    """The models that a router has loaded, from GET /v1/models; None while it loads one: nobody can say what waits
    for that."""
    listed = decoded(_MODELS, body)
    if listed is None or any(model.status.value == "loading" for model in listed.data):
        return None
    return [model.id for model in listed.data if model.status.value == "loaded"]


def slots_path_of(model: str) -> bytes:
    """Where a router tells the slots of one model; with `autoload` left out it would load the model for that."""
    return b"%b?model=%b&autoload=false" % (SLOTS_PATH, quote(model, safe="").encode("ascii"))
