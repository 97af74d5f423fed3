"""Lists of models in the shapes of three protocols, with what the servers told of the models and without."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import anthropic
import httpx
import httpx2
import ollama
import openai
import pytest

from llmgate.admission.local import LocalAdmission
from llmgate.config.load import load
from llmgate.core.routing import Route, Routes, Serves
from llmgate.errors import UnknownModel
from llmgate.fleet import make_gate, make_upstreams
from llmgate.protocols.model_card import ModelCard
from llmgate.server import models
from llmgate.server.models import Model
from llmgate.server.services import Services
from llmgate.telemetry.ledger import Ledger
from tests.server.house import UPSTREAM, House, OpenHouse


def unknown(name: str, upstream: str, model: str | None = None) -> Model:
    return Model(name, Route(upstream, model or name), ModelCard(name=model or name))


LISTED = [unknown("m", "a"), unknown("org/big", "b"), unknown("nick", "a", "m")]
DIGEST = "a80c4f17acd55265feec403c7aef86be0c25983ab279d83f3bcd3abbcb5b8b72"
TIME = "2025-05-04T17:37:44.706015396-07:00"
CARD = ModelCard(
    name="llama3:latest",
    display_name="Llama 3",
    context_window=8192,
    max_output_tokens=2048,
    loaded=True,
    size=2019393189,
    digest=DIGEST,
    modified_at=TIME,
    details={"family": "llama", "families": ["llama"], "parameter_size": "8B"},
    capabilities=("completion", "tools"),
    model_info={"general.architecture": "llama", "llama.context_length": 8192},
    parameters="num_ctx 8192",
    expires_at=TIME,
    size_vram=5137025024,
    loaded_context=4096,
)
KNOWN = Model("llama3", Route("a", "llama3:latest"), CARD)
DETAILS = {
    "parent_model": "",
    "format": "",
    "family": "",
    "parameter_size": "",
    "quantization_level": "",
    "families": [],
}
KNOWN_NUMBERS = {"display_name": "Llama 3", "context_window": 8192, "max_output_tokens": 2048}


# ---- Anthropic, OpenAI


def test_anthropic() -> None:
    listed = models.anthropic_models(LISTED)
    first = {
        "type": "model",
        "id": "m",
        "display_name": "m",
        "created_at": "1970-01-01T00:00:00Z",
        "lifecycle": "active",
        "max_input_tokens": None,
        "max_tokens": None,
    }
    assert listed["data"][0] == models.anthropic_model(LISTED[0]) == first
    assert [model["id"] for model in listed["data"]] == ["m", "org/big", "nick"]
    assert (listed["has_more"], listed["first_id"], listed["last_id"]) == (False, "m", "nick")
    assert models.anthropic_models([]) == {"data": [], "has_more": False, "first_id": None, "last_id": None}


def test_anthropic_of_a_model_that_is_known() -> None:
    told = models.anthropic_model(KNOWN)
    assert told["id"] == "llama3"
    assert (told["max_input_tokens"], told["max_tokens"]) == (8192, 2048)
    assert {key: told[key] for key in KNOWN_NUMBERS} == KNOWN_NUMBERS


def test_openai() -> None:
    listed = models.openai_models(LISTED)
    assert listed["object"] == "list"
    assert listed["data"][1] == models.openai_model(LISTED[1])
    assert listed["data"][1] == {"id": "org/big", "object": "model", "created": 0, "owned_by": "b"}
    assert models.openai_models([]) == {"object": "list", "data": []}


def test_openai_of_a_model_that_is_known() -> None:
    own = {"id": "llama3", "object": "model", "created": 0, "owned_by": "a"}
    assert models.openai_model(KNOWN) == {**own, **KNOWN_NUMBERS, "max_model_len": 8192, "context_length": 8192}


# ---- Ollama


def test_ollama_tags() -> None:
    first, other, alias = models.ollama_tags(LISTED)["models"]
    digest = first.pop("digest")
    told = {"name": "m", "model": "m", "size": 0, "modified_at": "1970-01-01T00:00:00Z", "details": DETAILS}
    assert first == told
    assert (len(digest), int(digest, 16) > 0) == (64, True)
    assert (other["name"], alias["name"]) == ("org/big", "nick")
    assert alias["digest"] == digest != other["digest"]
    assert models.ollama_tags([]) == {"models": []}


DETAILS_KNOWN = {**DETAILS, "family": "llama", "families": ["llama"], "parameter_size": "8B"}
TAG_KNOWN = {
    "name": "llama3",
    "model": "llama3",
    "size": 2019393189,
    "digest": DIGEST,
    "details": DETAILS_KNOWN,
    "capabilities": ["completion", "tools"],
    **KNOWN_NUMBERS,
}


def test_ollama_tags_of_a_model_that_is_known() -> None:
    assert models.ollama_tags([KNOWN]) == {"models": [{**TAG_KNOWN, "modified_at": TIME}]}


def test_ollama_ps() -> None:
    first = models.ollama_ps(LISTED)["models"][0]
    assert (first["name"], first["size_vram"], "context_length" in first) == ("m", 0, False)
    assert datetime.fromisoformat(first["expires_at"]).year > 2100
    assert len(models.ollama_ps(LISTED)["models"]) == 3


def test_ollama_ps_of_models_of_which_it_is_known_whether_they_are_in_memory() -> None:
    away = Model("away", Route("a", "away"), ModelCard(name="away", loaded=False))
    llama = Model("gemma", Route("b", "gemma"), ModelCard(name="gemma", loaded=True, context_window=4096))
    first, second = models.ollama_ps([KNOWN, away, llama])["models"]
    running = {"expires_at": TIME, "size_vram": 5137025024, "context_length": 4096}
    assert first == {**TAG_KNOWN, **running}
    assert (second["name"], second["context_length"]) == ("gemma", 4096)


@pytest.mark.parametrize("name", ["m", "org/big"])
def test_ollama_show(name: str) -> None:
    shown = models.ollama_show(unknown(name, "a"))
    assert shown["model_info"] == {"general.basename": name}
    assert shown["details"] == DETAILS
    assert shown["capabilities"] == ["completion"]
    assert {shown[key] for key in ("license", "modelfile", "parameters", "template")} == {""}


def test_ollama_show_of_a_model_that_is_known() -> None:
    shown = models.ollama_show(KNOWN)
    assert shown["model_info"] == CARD.model_info
    assert shown["details"] == DETAILS_KNOWN
    assert shown["capabilities"] == ["completion", "tools"]
    assert (shown["parameters"], shown["modified_at"]) == ("num_ctx 8192", TIME)


def test_ollamas_clients_find_the_context_length_of_any_model() -> None:
    """Under the name of the architecture, as `ollama show` looks it up."""
    info = models.ollama_show(Model("r", Route("b", "r"), ModelCard(name="r", context_window=40960)))["model_info"]
    assert info[f"{info['general.architecture']}.context_length"] == 40960


# ---- what is behind a name


@pytest.fixture
async def known(open_house: OpenHouse) -> House:
    house = await open_house(
        upstream={"aliases": {"nick": "llama3", "fast": "other"}, "models": ["m", "llama3:latest"]}
    )
    house.services.upstreams[UPSTREAM].cards = {"llama3:latest": CARD, "other": ModelCard(name="other")}
    return house


async def test_what_a_server_told_is_found_by_name_alias_and_the_other_tag(known: House) -> None:
    listed = {model.name: model.card for model in models.list_models(known.services)}
    assert listed == {
        "m": ModelCard(name="m"),
        "llama3:latest": CARD,
        "nick": CARD,
        "fast": ModelCard(name="other"),
    }
    found = models.find_model("llama3", known.services)
    assert (found.name, found.route, found.card) == ("llama3", Route(UPSTREAM, "llama3:latest"), CARD)


async def test_a_llama_server_serves_its_only_model_under_every_name(known: House) -> None:
    server = known.services.upstreams[UPSTREAM]
    server.cards = {"gemma": CARD}
    assert models.find_model("m", known.services).card == ModelCard(name="m")
    server.speech.kind = "llama-server"
    assert models.find_model("m", known.services).card == CARD
    server.cards = {"gemma": CARD, "other": CARD}
    assert models.find_model("m", known.services).card == ModelCard(name="m")


async def test_what_is_routed_is_found_and_nothing_else(known: House) -> None:
    with pytest.raises(UnknownModel):
        models.find_model("nobody", known.services)
    known.services.routes = Routes({UPSTREAM: Serves(("g-*",))})
    assert models.find_model("g-1", known.services) == unknown("g-1", UPSTREAM)
    known.services.routes = Routes({UPSTREAM: Serves()}, default_upstream=UPSTREAM)
    assert models.find_model("whatever", known.services) == unknown("whatever", UPSTREAM)
    assert models.list_models(known.services) == []


async def test_the_first_endpoint_that_knows_a_model_tells_of_it() -> None:
    endpoints = [{"url": f"http://127.0.0.1:{port}", "max_concurrent": 1} for port in (1, 2)]
    overrides = {"upstreams": {"a": {"endpoints": endpoints, "models": ["m"]}}}
    settings = load(None, environ={}, overrides=overrides).settings
    admission = LocalAdmission([make_gate("a", settings.upstreams["a"])], lambda _: None)
    routes = Routes({"a": Serves(("m",))})
    services = Services(settings, admission, make_upstreams(settings, {}), Ledger(1), routes)
    assert models.find_model("m", services) == unknown("m", "a")
    services.upstreams["a#2"].cards = {"m": CARD}
    assert models.find_model("m", services).card == CARD
    services.upstreams["a"].cards = {"m": ModelCard(name="m", size=1)}
    assert models.find_model("m", services).card.size == 1


# ---- official clients


def answering(render: Callable[[], Any]) -> httpx.MockTransport:
    return httpx.MockTransport(lambda _: httpx.Response(200, json=render()))


@pytest.mark.parametrize("listed", [LISTED, [KNOWN], []])
def test_ollamas_own_client_reads_them(listed: models.Models) -> None:
    def client(render: Callable[[], Any]) -> Any:
        return ollama.Client(host="http://gate/llm", transport=answering(render))

    names = [model.name for model in listed]
    assert [model.model for model in client(lambda: models.ollama_tags(listed)).list().models] == names
    assert [model.name for model in client(lambda: models.ollama_ps(listed)).ps().models] == names
    for model in listed:
        assert client(lambda model=model: models.ollama_show(model)).show("m").capabilities[0] == "completion"


@pytest.mark.parametrize("listed", [LISTED, [KNOWN], []])
def test_anthropics_own_client_reads_them(listed: models.Models) -> None:
    http = httpx2.Client(
        transport=httpx2.MockTransport(lambda _: httpx2.Response(200, json=models.anthropic_models(listed)))
    )
    with anthropic.Anthropic(api_key="x", base_url="http://gate", http_client=http) as client:
        told = list(client.models.list())
    assert [(model.id, model.max_input_tokens) for model in told] == [
        (model.name, model.card.context_window) for model in listed
    ]


@pytest.mark.parametrize("listed", [LISTED, [KNOWN], []])
def test_openais_own_client_reads_them(listed: models.Models) -> None:
    http = httpx.Client(transport=answering(lambda: models.openai_models(listed)))
    with openai.OpenAI(api_key="x", base_url="http://gate", http_client=http) as client:
        told = list(client.models.list())
    assert [(model.id, (model.model_extra or {}).get("max_model_len")) for model in told] == [
        (model.name, model.card.context_window) for model in listed
    ]
