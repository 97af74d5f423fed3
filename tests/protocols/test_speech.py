"""A kind says what is spoken, an answer says it better, and only some answers say that a path is unknown."""

import pytest

from llmgate.protocols.speech import _SPOKEN, CHAT_PATH, MESSAGES_PATH, Speech, is_no_such_path
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
    speech.messages, speech.counts = answer, False
    assert speech.speaks(MESSAGES_PATH) is answer
    assert speech.speaks(CHAT_PATH) is True
    speech.forget()
    assert (speech.speaks(MESSAGES_PATH), speech.counts) == (False, True)


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
