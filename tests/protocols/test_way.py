"""The direct way: nothing is changed but the model's name, where another one is to be asked for."""

import pytest

from llmgate.errors import UpstreamFailed
from llmgate.protocols.surface import ModelRequest
from llmgate.protocols.surfaces import CHAT, MESSAGES, OLLAMA_CHAT
from llmgate.protocols.way import Direct, Way

BODY = b'{ "model" : "nick", "stream":true,\n "messages": [] }'
REQUEST = ModelRequest(model="nick", stream=True, body=BODY)


def direct(model: str = "nick") -> Direct:
    return Direct(MESSAGES, "/v1/messages", REQUEST, model)


def test_the_request_goes_as_it_came() -> None:
    way: Way = direct()
    headers = {b"anthropic-version": b"2023-06-01", b"x-api-key": b"k"}
    assert (way.path, way.keeps_query) == ("/v1/messages", True)
    assert way.body is BODY
    assert way.headers(headers) is headers


def test_another_model_is_all_that_changes() -> None:
    assert direct("m-real").body == BODY.replace(b'"nick"', b'"m-real"')


def test_a_stream_is_what_the_surface_calls_one() -> None:
    assert direct().is_stream(b"text/event-stream; charset=utf-8")
    assert not direct().is_stream(b"application/x-ndjson")
    assert Direct(OLLAMA_CHAT, "/api/chat", REQUEST, "nick").is_stream(b"application/x-ndjson")


def test_its_watch_is_the_surfaces() -> None:
    for surface, last in ((MESSAGES, b"event: message_stop\ndata: {}\n\n"), (CHAT, b"data: [DONE]\n\n")):
        watch = Direct(surface, "/", REQUEST, "nick").watch()
        assert watch.feed(last) == last
        assert watch.complete


@pytest.mark.parametrize("body", [b"{}", b" [1]\n", b'{"a":"\xc3\xa9"}'])
def test_a_whole_answer_passes_as_it_came(body: bytes) -> None:
    assert direct().whole(body) is body


@pytest.mark.parametrize("body", [b"", b"{", b"data: {}\n\n", b"<html>"])
def test_what_is_no_json_is_no_answer(body: bytes) -> None:
    with pytest.raises(UpstreamFailed, match="no JSON document"):
        direct().whole(body)


def test_nobody_makes_a_stream_of_it() -> None:
    assert direct().as_stream is None
