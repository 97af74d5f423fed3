"""As whom a simulated server is known: by the same answers by which llmgate knows the real ones."""

import json
from typing import Any

import pytest

from llmgate.cli.simulate import Kind
from llmgate.protocols.model_card import read_models
from llmgate.protocols.ollama_card import read_tags, with_ps, with_show
from llmgate.protocols.recognition import is_llama_server, is_ollama, is_vllm, tells_version
from llmgate.protocols.slot_list import read_slots
from llmgate.simulator.guise import CONTEXT, KINDS, Guise

EVERY = pytest.mark.parametrize("kind", KINDS)


def guise(kind: Any) -> Guise:
    return Guise(kind, ("a", "b:7b"), 3)


def told(kind: Any, path: str) -> bytes:
    view = guise(kind).view(path, {1})
    return b"" if view is None else view.encode() if isinstance(view, str) else json.dumps(view).encode()


@EVERY
def test_it_is_taken_for_what_it_is_and_for_nothing_else(kind: str) -> None:
    known = {
        "llama-server": is_llama_server(told(kind, "/props")),
        "ollama": tells_version(told(kind, "/api/version")) and is_ollama(told(kind, "/")),
        "vllm": tells_version(told(kind, "/version")) and is_vllm(told(kind, "/v1/models")),
    }
    assert {name for name, so in known.items() if so} == {kind} - {"any"}


@EVERY
def test_it_lives_and_lists_its_models(kind: str) -> None:
    assert json.loads(told(kind, "/health")) == {"status": "ok"}
    assert [card.name for card in read_models(told(kind, "/v1/models")) or ()] == ["a", "b:7b"]
    assert guise(kind).view("/nothing", ()) is None


@EVERY
def test_who_tells_slots(kind: str) -> None:
    slots = read_slots(told(kind, "/slots"))
    if kind in ("any", "llama-server"):
        assert slots is not None
        assert [slot.is_processing for slot in slots] == [False, True, False]
        assert json.loads(told(kind, "/props"))["total_slots"] == 3
    else:
        assert (slots, told(kind, "/props")) == (None, b"")


@pytest.mark.parametrize("kind", ["any", "ollama"])
def test_its_models_for_ollamas_clients(kind: str) -> None:
    tags = read_tags(told(kind, "/api/tags"))
    assert tags is not None
    assert list(tags) == ["a", "b:7b"]
    status, shown = guise(kind).show(b'{"model":"b:7b"}')
    card = with_show(tags["b:7b"], json.dumps(shown).encode())
    assert (status, card.context_window, card.capabilities, card.details["family"]) == (
        200,
        CONTEXT,
        ("completion",),
        "llama",
    )
    assert card.modified_at
    assert len(card.digest) == 64
    assert all(one.loaded and one.loaded_context == CONTEXT for one in with_ps(tags, told(kind, "/api/ps")).values())


@pytest.mark.parametrize(
    ("body", "status"), [(b'{"name":"a"}', 200), (b'{"model":"c"}', 404), (b"{}", 404), (b"{", 400), (b"[]", 400)]
)
def test_one_that_is_not_there_is_not_shown(body: bytes, status: int) -> None:
    assert guise("ollama").show(body)[0] == status


@pytest.mark.parametrize("kind", ["llama-server", "vllm"])
def test_others_know_nothing_of_that(kind: str) -> None:
    assert [told(kind, path) for path in ("/api/tags", "/api/ps", "/api/version")] == [b"", b"", b""]
    assert guise(kind).show(b'{"model":"a"}')[0] == 404


def test_the_command_line_knows_every_kind() -> None:
    assert [kind.value for kind in Kind] == list(KINDS)
