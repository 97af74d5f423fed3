"""Faults: what is one, its status, and that the surface can tell it."""

import json
from typing import Any

import pytest

from llmgate.protocols.anthropic import MessagesSurface
from llmgate.protocols.fault import fault_status, is_fault


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ({"error": {"message": "x"}}, True),
        ({"error": "x"}, True),
        ({"error": {}}, True),
        ({"error": {}, "choices": []}, False),
        ({"error": None}, False),
        ({"error": None, "choices": []}, False),
        ({"error": {"message": "x"}, "choices": []}, True),
        ({"object": "error", "message": "x"}, True),
        ({"type": "error"}, True),
        ({"object": "chat.completion.chunk"}, False),
        ({}, False),
    ],
)
def test_what_is_a_fault(document: dict[str, Any], fault: bool) -> None:
    assert is_fault(document) is fault


@pytest.mark.parametrize(
    ("document", "status"),
    [
        ({"error": {"code": 503}}, 503),
        ({"error": {"code": "429"}}, 429),
        ({"error": {"code": "rate_limit_exceeded"}}, 429),
        ({"error": {"code": None, "type": "invalid_request_error"}}, 400),
        ({"error": {"status_code": 404}}, 404),
        ({"error": {"status": 401}}, 401),
        ({"error": {"code": 200, "type": "overloaded_error"}}, 503),
        ({"error": {"code": "999", "type": "x"}}, 500),
        ({"error": {"code": "٤٠٤"}}, 404),
        ({"error": "x", "code": 413}, 413),
        ({"object": "error", "code": 400, "type": "BadRequestError"}, 400),
        ({"object": "error", "type": "BadRequestError"}, 400),
        ({}, 500),
        ({"error": [1]}, 500),
    ],
)
def test_its_status(document: dict[str, Any], status: int) -> None:
    assert fault_status(document) == status


def test_an_error_answer_of_llama_server_on_this_surface() -> None:
    told = {
        "code": 400,
        "message": "request (5024 tokens) exceeds the available context size (2048 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 5024,
        "n_ctx": 2048,
    }
    status, body = MessagesSurface().upstream_error_body(400, json.dumps({"error": told}).encode(), "req_1")
    message = "prompt is too long: 5024 tokens > 2048 maximum"
    assert (status, json.loads(body)) == (
        400,
        {"type": "error", "error": {"type": "invalid_request_error", "message": message}, "request_id": "req_1"},
    )
