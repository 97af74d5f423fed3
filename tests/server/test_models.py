"""Lists of models in the shapes of three protocols."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import httpx
import ollama
import pytest

from llmgate.core.routing import Route
from llmgate.server import models

LISTED = [("m", Route("a", "m")), ("org/big", Route("b", "org/big")), ("nick", Route("a", "m"))]
DETAILS = {
    "parent_model": "",
    "format": "",
    "family": "",
    "parameter_size": "",
    "quantization_level": "",
    "families": [],
}


def test_anthropic() -> None:
    listed = models.anthropic_models(LISTED)
    first = {"type": "model", "id": "m", "display_name": "m", "created_at": "1970-01-01T00:00:00Z"}
    assert listed["data"][0] == models.anthropic_model("m") == first
    assert [model["id"] for model in listed["data"]] == ["m", "org/big", "nick"]
    assert (listed["has_more"], listed["first_id"], listed["last_id"]) == (False, "m", "nick")
    assert models.anthropic_models([]) == {"data": [], "has_more": False, "first_id": None, "last_id": None}


def test_openai() -> None:
    listed = models.openai_models(LISTED)
    assert listed["object"] == "list"
    assert listed["data"][1] == models.openai_model(*LISTED[1])
    assert listed["data"][1] == {"id": "org/big", "object": "model", "created": 0, "owned_by": "b"}
    assert models.openai_models([]) == {"object": "list", "data": []}


def test_ollama_tags() -> None:
    first, other, alias = models.ollama_tags(LISTED)["models"]
    digest = first.pop("digest")
    told = {"name": "m", "model": "m", "size": 0, "modified_at": "1970-01-01T00:00:00Z", "details": DETAILS}
    assert first == told
    assert (len(digest), int(digest, 16) > 0) == (64, True)
    assert (other["name"], alias["name"]) == ("org/big", "nick")
    assert alias["digest"] == digest != other["digest"]
    assert models.ollama_tags([]) == {"models": []}


def test_ollama_ps() -> None:
    first = models.ollama_ps(LISTED)["models"][0]
    assert (first["name"], first["size_vram"]) == ("m", 0)
    assert datetime.fromisoformat(first["expires_at"]).year > 2100
    assert len(models.ollama_ps(LISTED)["models"]) == 3


@pytest.mark.parametrize("name", ["m", "org/big"])
def test_ollama_show(name: str) -> None:
    shown = models.ollama_show(name)
    assert shown["model_info"] == {"general.basename": name}
    assert shown["details"] == DETAILS
    assert shown["capabilities"] == ["completion"]
    assert {shown[key] for key in ("license", "modelfile", "parameters", "template")} == {""}


@pytest.mark.parametrize("listed", [LISTED, []])
def test_ollamas_own_client_reads_them(listed: models.Models) -> None:
    def answer(render: Callable[[], Any]) -> Any:
        transport = httpx.MockTransport(lambda request: httpx.Response(200, json=render()))
        return ollama.Client(host="http://gate/llm", transport=transport)

    names = [name for name, _ in listed]
    assert [model.model for model in answer(lambda: models.ollama_tags(listed)).list().models] == names
    assert [model.name for model in answer(lambda: models.ollama_ps(listed)).ps().models] == names
    assert answer(lambda: models.ollama_show("m")).show("m").capabilities == ["completion"]
