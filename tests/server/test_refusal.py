"""An error of ours as an answer: the shape is the surface's, and a body that was not read closes the connection."""

import json

import pytest

from llmgate.errors import BadRequest, BodyTimeout, BodyTooLarge, GateError, UnknownModel
from llmgate.protocols.surfaces import CHAT, MESSAGES, OLLAMA_CHAT
from llmgate.server.refusal import refuse


@pytest.mark.parametrize(
    ("error", "closes"),
    [
        (BadRequest("llmgate: no (BAD_REQUEST)"), False),
        (UnknownModel("llmgate: no (UNKNOWN_MODEL)"), False),
        (BodyTooLarge("llmgate: no (BODY_TOO_LARGE)"), True),
        (BodyTimeout("llmgate: no (BODY_TIMEOUT)"), True),
    ],
)
@pytest.mark.parametrize("surface", [MESSAGES, CHAT, OLLAMA_CHAT], ids=lambda surface: surface.name)
def test_an_error(surface, error: GateError, closes: bool) -> None:
    answer = refuse(surface, error)
    assert (answer.status_code, answer.headers["llmgate-code"]) == (error.status, error.code)
    assert answer.headers["content-type"] == "application/json"
    assert ("connection" in answer.headers) is closes
    request_id = answer.headers["llmgate-request-id"]
    assert request_id.startswith("req_")
    assert answer.body == surface.error_body(error, request_id)


def test_it_may_be_given_headers_and_the_requests_name() -> None:
    answer = refuse(MESSAGES, BadRequest("llmgate: no (BAD_REQUEST)"), {"allow": "POST"}, "req_1")
    assert (answer.headers["allow"], answer.headers["llmgate-request-id"]) == ("POST", "req_1")
    assert json.loads(bytes(answer.body))["request_id"] == "req_1"
