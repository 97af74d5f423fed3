"""Which way is taken, over every kind of server and every surface, and what an answer may still teach."""

import json
from typing import get_args

import pytest

from llmgate.errors import BadRequest, NotFound
from llmgate.protocols.speech import CHAT_PATH, MESSAGES_PATH, Kind, Speech
from llmgate.protocols.surface import ModelRequest
from llmgate.protocols.surfaces import SURFACES
from llmgate.protocols.translate.request import Options
from llmgate.protocols.translate.way import Translated
from llmgate.protocols.way import Direct, Way
from llmgate.protocols.ways import may_be_learnt, way_of

KINDS: tuple[Kind, ...] = get_args(Kind)
OPTIONS = Options(model="real")

UNSPOKEN = {
    "auto": set(),
    "llama-server": {"/api/chat", "/api/generate", "/api/embed"},
    "ollama": {"/v1/rerank"},
    "vllm": {"/api/chat", "/api/generate", "/api/embed"},
    "openai": {"/api/chat", "/api/generate", "/api/embed"},
    "anthropic": set(SURFACES) - {MESSAGES_PATH},
}
"""What is answered by a 404, by the kind of server."""


def request(**fields: object) -> ModelRequest:
    body = {"model": "nick", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], **fields}
    return ModelRequest(model="nick", stream=False, body=json.dumps(body).encode())


def find(path: str, speech: Speech, options: Options = OPTIONS, **fields: object) -> Way:
    return way_of(SURFACES[path], path, request(**fields), speech, options, "req_1")


def test_the_table_names_every_kind() -> None:
    assert set(UNSPOKEN) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", SURFACES)
def test_the_way_to_each_kind(path: str, kind: Kind) -> None:
    if path in UNSPOKEN[kind]:
        with pytest.raises(NotFound, match=rf"does not speak {path}.*NOT_FOUND"):
            find(path, Speech(kind))
        return
    way = find(path, Speech(kind))
    translated = (kind, path) == ("openai", MESSAGES_PATH)
    assert isinstance(way, Translated if translated else Direct)
    assert way.path == (CHAT_PATH if translated else path)
    assert json.loads(way.body)["model"] == "real"


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_server_answered_for_messages_goes_before_its_kind(kind: Kind) -> None:
    speech = Speech(kind)
    speech.messages = True
    assert isinstance(find(MESSAGES_PATH, speech), Direct)
    speech.messages = False
    if speech.speaks(CHAT_PATH) is False:
        with pytest.raises(NotFound):
            find(MESSAGES_PATH, speech)
    else:
        assert isinstance(find(MESSAGES_PATH, speech), Translated)


def test_the_error_is_one_that_a_client_may_read() -> None:
    with pytest.raises(NotFound) as told:
        find("/api/chat", Speech("openai"))
    assert str(told.value) == (
        "llmgate: the server of this model does not speak /api/chat, see its documentation (NOT_FOUND)"
    )


def test_a_translation_follows_the_upstreams_settings() -> None:
    speech = Speech("openai")
    search = {"type": "web_search_20250305", "name": "web_search"}
    with pytest.raises(BadRequest):
        find(MESSAGES_PATH, speech, tools=[search])
    way = find(MESSAGES_PATH, speech, Options(model="real", server_tools="drop"), tools=[search])
    assert "tools" not in json.loads(way.body)


def test_only_what_would_be_translated_may_be_learnt() -> None:
    learnt = {(kind, path) for kind in KINDS for path in SURFACES if may_be_learnt(path, Speech(kind))}
    assert learnt == {(kind, MESSAGES_PATH) for kind in KINDS if kind != "anthropic"}


@pytest.mark.parametrize("messages", [None, True, False])
def test_whatever_others_learnt_meanwhile(messages: bool | None) -> None:
    """One that spoke it once may have been replaced; one that was learnt by another request is no news."""
    speech = Speech()
    speech.messages = messages
    assert may_be_learnt(MESSAGES_PATH, speech)
