"""Embeddings and rerank: no stream, OpenAI's errors."""

import json

import pytest

from llmgate import errors
from llmgate.protocols.openai import OpenAISurface
from llmgate.protocols.vectors import EmbeddingsSurface, RerankSurface

EMBEDDINGS_BODY = b'{"model":"m","input":["hi"],"encoding_format":"float","stream":true,"user":"u"}'
RERANK_BODY = b'{"model":"m","query":"hi","documents":["a","b"],"stream":true,"user":"u"}'


@pytest.mark.parametrize(("surface", "body"), [(EmbeddingsSurface(), EMBEDDINGS_BODY), (RerankSurface(), RERANK_BODY)])
def test_nothing_streams(surface: OpenAISurface, body: bytes) -> None:
    request = surface.read_request(body)
    assert (request.model, request.stream, request.session, request.body) == ("m", False, "u", body)


@pytest.mark.parametrize("surface", [EmbeddingsSurface(), RerankSurface()])
def test_errors_are_openais(surface: OpenAISurface) -> None:
    full = errors.QueueFull("llmgate: the queue of upstream a is full (QUEUE_FULL)")
    told = {"message": str(full), "type": "server_error", "param": None, "code": "QUEUE_FULL"}
    assert json.loads(surface.error_body(full, "req_1")) == {"error": told}
    unsupported = b'{"error":{"code":501,"message":"This server does not support it","type":"not_supported_error"}}'
    assert surface.upstream_error_body(501, unsupported, "req_1") == (501, unsupported)
