"""The slots of llama-servers of several ages, and of a router."""

import json
from typing import Any

import pytest

from llmgate.protocols.slot_list import Slot, is_router, read_loaded, read_sleeping, read_slots, slots_path_of

NEW = {
    "id": 1,
    "n_ctx": 4096,
    "speculative": False,
    "is_processing": True,
    "id_task": 10,
    "n_prompt_tokens": 129,
    "n_prompt_tokens_processed": 65,
    "n_prompt_tokens_cache": 0,
    "params": {"seed": 1, "stop": []},
    "next_token": [{"has_next_token": True, "has_new_line": False, "n_remain": 5, "n_decoded": 3}],
}
NO_MODEL = b'{"error":{"code":400,"message":"model name is missing from the request","type":"invalid_request_error"}}'
"""Of build 10434, both."""


def only(**fields: Any) -> Slot:
    slots = read_slots(json.dumps([fields]).encode())
    assert slots is not None
    (slot,) = slots
    return slot


def models(**status: str) -> bytes:
    listed = [{"id": name, "object": "model", "status": {"value": value}} for name, value in status.items()]
    return json.dumps({"data": listed, "object": "list"}).encode()


def test_a_slot_that_works():
    slot = only(**NEW)
    assert (slot.is_processing, slot.id, slot.task) == (True, 1, ("", 10))
    assert (slot.n_prompt_tokens_processed, slot.decoded) == (65, 3)


def test_a_slot_that_never_did_anything():
    slot = only(id=0, n_ctx=4096, speculative=False, is_processing=False)
    assert (slot.is_processing, slot.task, slot.n_prompt_tokens_processed, slot.decoded) == (False, None, None, None)


def test_an_older_server_tells_the_next_token_as_an_object():
    assert only(is_processing=True, next_token={"n_decoded": 7}).decoded == 7


@pytest.mark.parametrize("told", [[], [1], "x", 3, {"n_decoded": "7"}, [{"n_remain": 1}], None])
def test_a_next_token_of_another_shape_tells_nothing(told: Any):
    assert only(is_processing=True, next_token=told).decoded is None


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b'[{"id":0}]', b'[{"is_processing":1}]', b"[" * 100_000])
def test_no_list_of_slots(body: bytes):
    assert read_slots(body) is None


def test_tasks_of_two_models_are_two():
    body = json.dumps([NEW]).encode()
    (a,), (b,) = read_slots(body, "a") or (), read_slots(body, "b") or ()
    assert a.task != b.task


@pytest.mark.parametrize(
    ("body", "sleeps"),
    [
        (b'{"is_sleeping":true,"x":1}', True),
        (b'{"is_sleeping":false}', False),
        (b"{}", False),
        (b"[]", False),
        (b"", False),
    ],
)
def test_a_server_that_sleeps(body: bytes, sleeps: bool):
    assert read_sleeping(body) is sleeps


def test_a_router_is_known_by_its_refusal():
    assert is_router(400, NO_MODEL)
    assert not is_router(404, NO_MODEL)
    assert not is_router(400, b'{"error":"bad"}')


def test_the_models_that_a_router_has_loaded():
    assert read_loaded(models(a="loaded", b="unloaded", c="sleeping", d="loaded")) == ["a", "d"]
    assert read_loaded(models()) == []


def test_while_a_router_loads_nobody_knows():
    assert read_loaded(models(a="loaded", b="loading")) is None


@pytest.mark.parametrize("body", [b"", b"[]", b'{"data":[{"id":"a"}]}'])
def test_no_list_of_a_router(body: bytes):
    assert read_loaded(body) is None


def test_a_model_is_named_so_that_it_is_not_loaded():
    assert slots_path_of("a/b c&autoload=true") == b"/slots?model=a%2Fb%20c%26autoload%3Dtrue&autoload=false"
