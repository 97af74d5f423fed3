"""A kind says what is spoken, an answer says it better; only some say that a path is unknown, or a model not there."""

import pytest

from llmgate.protocols.speech import (
    _SPOKEN,
    CHAT_PATH,
    LOADING,
    MESSAGES_PATH,
    NO_SUCH_PATH,
    Speech,
    is_loading,
    is_no_such_path,
)
from llmgate.protocols.surfaces import SURFACES


def test_every_path_that_a_kind_speaks_is_a_surface() -> None:
    assert {path for spoken in _SPOKEN.values() for path in spoken} <= SURFACES.keys()


@pytest.mark.parametrize("path", SURFACES)
def test_an_unknown_kind_must_be_asked(path: str) -> None:
    assert Speech().speaks(path) is None


def test_a_kind_says_what_it_speaks() -> None:
    assert Speech("openai").speaks(CHAT_PATH) is True
    assert Speech("openai").speaks(MESSAGES_PATH) is False
    assert Speech("anthropic").speaks(MESSAGES_PATH) is True
    assert Speech("anthropic").speaks(CHAT_PATH) is False
    assert Speech("ollama").speaks("/api/chat") is True
    assert Speech("llama-server").speaks("/api/chat") is False
    assert Speech("llama-server").speaks(MESSAGES_PATH) is None


@pytest.mark.parametrize("answer", [True, False])
def test_what_the_server_answers_goes_before_its_kind_until_it_is_forgotten(answer: bool) -> None:
    speech = Speech("openai")
    speech.messages, speech.counts, speech.templates, speech.tokenizes = answer, False, False, False
    assert speech.speaks(MESSAGES_PATH) is answer
    assert speech.speaks(CHAT_PATH) is True
    speech.forget()
    assert speech.speaks(MESSAGES_PATH) is False
    assert (speech.counts, speech.templates, speech.tokenizes) == (True, True, True)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b'{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}'),
        (404, b'{"detail":"Not Found"}'),
        (404, b"404 page not found"),
        (404, b""),
        (405, b'{"detail":"Method Not Allowed"}'),
        (501, b"no model here"),
    ],
)
def test_no_such_path(status: int, body: bytes) -> None:
    assert is_no_such_path(status, body)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b'{"error":{"message":"The model `x` does not exist.","code":404}}'),
        (404, b'{"type":"error","error":{"type":"not_found_error","message":"Model not found"}}'),
        (400, b""),
        (200, b""),
        (500, b"File Not Found"),
    ],
)
def test_any_other_answer_is_about_something_else(status: int, body: bytes) -> None:
    assert not is_no_such_path(status, body)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (503, b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'),
        (503, b"the model is LOADING, try again"),
        (502, b"model is loading"),
    ],
)
def test_loading(status: int, body: bytes) -> None:
    assert is_loading(status, body)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (503, b""),
        (503, b'{"error":{"message":"Service Unavailable"}}'),
        (502, b"Bad Gateway"),
        (200, b"Loading model"),
        (429, b"Loading model"),
        (500, b"error while loading the model"),
        (504, b"loading model"),
        (502, b"<html><img loading=lazy>no model</html>"),
        (503, b"an error while loading the page"),
    ],
)
def test_any_other_answer_may_come_from_a_server_that_began(status: int, body: bytes) -> None:
    """Asked again it would generate twice."""
    assert not is_loading(status, body)


def test_only_these_statuses_are_worth_a_look() -> None:
    """Whoever looks for them first misses nothing."""
    statuses = range(100, 600)
    assert {status for status in statuses if is_loading(status, b"loading model")} == set(LOADING)
    assert {status for status in statuses if is_no_such_path(status, b"")} == set(NO_SUCH_PATH)
