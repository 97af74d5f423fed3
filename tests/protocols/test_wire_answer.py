"""An answer that is written before it is known who asks."""

import json

from llmgate.errors import HeadTooLarge, TooManyConnections
from llmgate.protocols.wire_answer import wire_answer


def parts(answer: bytes) -> tuple[str, dict[str, str], bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return first, dict(line.split(": ", 1) for line in lines), body


def test_it_is_whole_and_closes() -> None:
    first, headers, body = parts(wire_answer(HeadTooLarge("llmgate: too large (HEAD_TOO_LARGE)")))
    assert first == "HTTP/1.1 431 Request Header Fields Too Large"
    assert headers == {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "llmgate-code": "HEAD_TOO_LARGE",
        "connection": "close",
    }


def test_clients_of_every_kind_understand_it() -> None:
    _, headers, body = parts(wire_answer(TooManyConnections("llmgate: full (TOO_MANY_CONNECTIONS)"), 7))
    document = json.loads(body)
    assert headers["retry-after"] == "7"
    assert document["type"] == "error"
    assert document["error"]["type"] == "overloaded_error"
    assert document["error"]["message"] == "llmgate: full (TOO_MANY_CONNECTIONS)"
    assert document["error"]["code"] == "TOO_MANY_CONNECTIONS"
