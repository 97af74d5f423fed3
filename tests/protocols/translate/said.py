"""Requests as a client writes them, and what is sent for them."""

import json
from typing import Any

import pytest

from llmgate.errors import BadRequest
from llmgate.protocols.translate.request import Options, request

TOOL = {"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
HEADER = "x-anthropic-billing-header: cc_version=2.1.37; cch="


def body(*messages: Any, **more: Any) -> bytes:
    """A request; a text is a user's message."""
    history = [{"role": "user", "content": message} if isinstance(message, str) else message for message in messages]
    return json.dumps({"model": "m", "max_tokens": 64, "messages": history or [said("user", "hi")], **more}).encode()


def said(role: str, *content: Any) -> dict[str, Any]:
    return {"role": role, "content": content[0] if len(content) == 1 and isinstance(content[0], str) else list(content)}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def image(**source: str) -> dict[str, Any]:
    return {"type": "image", "source": source or {"type": "base64", "media_type": "image/webp", "data": "AAAA"}}


def use(identity: str, name: str = "f", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": identity, "name": name, "input": given}


def result(identity: str, *content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": identity, **({"content": content[0]} if content else {}), **more}


def sent(data: bytes, **options: Any) -> dict[str, Any]:
    found = json.loads(request(data, Options(**options)))
    assert isinstance(found, dict)
    return found


def messages(*history: Any, **more: Any) -> list[dict[str, Any]]:
    options = {key: more.pop(key) for key in ("reasoning_history", "server_tools") if key in more}
    found = sent(body(*history, **more), **options)["messages"]
    assert isinstance(found, list)
    return found


def roles(*history: Any, **more: Any) -> list[str]:
    return [message["role"] for message in messages(*history, **more)]


def refusal(data: bytes, **options: Any) -> str:
    with pytest.raises(BadRequest) as error:
        request(data, Options(**options))
    assert str(error.value).startswith("llmgate: ")
    assert str(error.value).endswith(" (BAD_REQUEST)")
    return str(error.value)


def keys_of(found: Any) -> set[str]:
    """Every key at any depth."""
    if isinstance(found, dict):
        return set(found).union(*map(keys_of, found.values()))
    return set().union(*map(keys_of, found)) if isinstance(found, list) else set()
