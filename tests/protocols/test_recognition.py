"""Which server answers like this, and whether it speaks Messages. The answers are those of real servers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.protocols.recognition import (
    is_llama_server,
    is_ollama,
    is_sglang,
    is_vllm,
    sglang_slots,
    speaks_messages,
    tells_version,
)

RUNNING = b"effective_max_running_requests_per_dp"
LM_STUDIO = b'{"error":"Unexpected endpoint or method. (GET /props)"}'


@pytest.mark.parametrize(
    ("props", "expected"),
    [
        (b'{"default_generation_settings":{"n_ctx":4096},"total_slots":2,"model_path":"/m.gguf"}', True),
        (b'{"role":"router","default_generation_settings":{"params":{},"n_ctx":0}}', True),
        (b'{"total_slots":2,"model_path":"m","build_info":"another"}', False),
        (b'{"default_generation_settings":3}', False),
        (LM_STUDIO, False),
        (b"", False),
        (b"<html>", False),
        (b"[" * 100_000, False),
    ],
)
def test_a_llama_server_tells_its_generation_settings(props: bytes, expected: bool) -> None:
    assert is_llama_server(props) is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [(b'{"version":"0.12.6"}', True), (b'{"version":3}', False), (b'{"major":"1"}', False), (LM_STUDIO, False)],
)
def test_a_version(body: bytes, expected: bool) -> None:
    assert tells_version(body) is expected


@pytest.mark.parametrize(
    ("root", "expected"),
    [(b"Ollama is running", True), (b"Ollama is running\n", True), (b"llmgate is running", False), (b"", False)],
)
def test_an_ollama_says_that_it_runs(root: bytes, expected: bool) -> None:
    assert is_ollama(root) is expected


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        (b'{"object":"list","data":[{"id":"m","owned_by":"vllm"}]}', True),
        (b'{"data":[{"id":"lora","owned_by":"me"},{"id":"m","owned_by":"vllm"}]}', True),
        (b'{"data":[{"id":"m","owned_by":"sglang"}]}', False),
        (b'{"data":[{"id":"m"}]}', False),
        (b'{"data":[]}', False),
        (b"", False),
    ],
)
def test_the_models_of_a_vllm_are_its_own(models: bytes, expected: bool) -> None:
    assert is_vllm(models) is expected
    assert is_sglang(models.replace(b"sglang", b"-").replace(b"vllm", b"sglang")) is expected
    assert not (is_vllm(models) and is_sglang(models))


@pytest.mark.parametrize(
    ("info", "slots"),
    [
        (b'{"internal_states":[{"%s":128,"x":[]}],"max_running_requests":null}' % RUNNING, 128),
        (b'{"internal_states":[{"%s":4},{"%s":4}]}' % (RUNNING, RUNNING), 8),
        (b'{"internal_states":[{"last_gen_throughput":1.5}],"max_running_requests":32}', 32),
        (b'{"max_running_requests":32,"api_key":"x"}', 32),
        (b'{"max_running_requests":null}', None),
        (b'{"max_running_requests":-1}', None),
        (b'{"max_running_requests":"4"}', None),
        (b'{"error":"no"}', None),
        (b"", None),
    ],
)
def test_the_slots_of_an_sglang(info: bytes, slots: int | None) -> None:
    assert sglang_slots(info) == slots


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (500, b'{"error":{"code":500,"message":"\'messages\' is required","type":"server_error"}}', True),
        (400, b'{"error":{"message":"model is required"}}', True),
        (422, b'{"detail":[{"loc":["body","model"],"msg":"Field required"}]}', True),
        (200, b'{"type":"message","content":[]}', True),
        (404, b'{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}', False),
        (404, b"404 page not found", False),
        (405, b"", False),
        (200, b'{"error":"Unexpected endpoint or method. (POST /v1/messages)"}', False),
        (200, b'{"error":"something else"}', None),
        (200, b"<html>a web page for everything</html>", None),
        (200, b"[]", None),
        (404, b'{"error":{"message":"The model `` does not exist"}}', None),
        (401, b'{"error":"no key"}', None),
        (403, b"", None),
        (429, b"", None),
        (500, b"Internal Server Error", None),
        (503, b'{"error":{"message":"Loading model"}}', None),
        (302, b"", None),
    ],
)
def test_whether_it_speaks_messages(status: int, body: bytes, expected: bool | None) -> None:
    assert speaks_messages(status, body) is expected


@given(status=st.integers(100, 599), body=st.binary(max_size=50))
def test_any_answer(status: int, body: bytes) -> None:
    assert speaks_messages(status, body) in (True, False, None)
    assert {is_llama_server(body), tells_version(body), is_vllm(body)} == {False}
