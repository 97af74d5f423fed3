"""Lists of models as servers send them. The answers are those of real servers, shortened."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.protocols.model_card import ModelCard, count, read_models, read_slot_context


def card_of(**entry: Any) -> ModelCard:
    cards = read_models(json.dumps({"object": "list", "data": [{"id": "m", **entry}]}).encode())
    assert cards is not None
    (card,) = cards
    return card


LLAMA = {"n_vocab": 262144, "n_ctx": 4096, "n_ctx_train": 32768, "n_params": 268098176, "size": 246587904}


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"object": "model", "created": 1, "owned_by": "x"}, ModelCard(name="m")),
        ({"meta": LLAMA}, ModelCard(name="m", context_window=4096, size=246587904)),
        ({"meta": {"n_ctx_train": 32768}}, ModelCard(name="m", context_window=32768)),
        ({"meta": None}, ModelCard(name="m")),
        ({"owned_by": "vllm", "max_model_len": 40960}, ModelCard(name="m", context_window=40960)),
        (
            {
                "name": "Meta: Llama",
                "context_length": 131072,
                "top_provider": {"context_length": 8192, "max_completion_tokens": 2048},
            },
            ModelCard(name="m", display_name="Meta: Llama", context_window=131072, max_output_tokens=2048),
        ),
        (
            {"type": "model", "display_name": "Claude", "max_input_tokens": 200000, "max_tokens": 64000},
            ModelCard(name="m", display_name="Claude", context_window=200000, max_output_tokens=64000),
        ),
        (
            {"display_name": "G", "context_window": 8192, "max_model_len": 8192, "max_output_tokens": 100},
            ModelCard(name="m", display_name="G", context_window=8192, max_output_tokens=100),
        ),
        (
            {"context_window": 131072, "max_completion_tokens": 32768},
            ModelCard(name="m", context_window=131072, max_output_tokens=32768),
        ),
        ({"max_context_length": 32768, "name": None}, ModelCard(name="m", context_window=32768)),
        ({"status": {"value": "loaded"}}, ModelCard(name="m", loaded=True)),
        ({"status": {"value": "unloaded", "args": []}}, ModelCard(name="m", loaded=False)),
        ({"status": "active"}, ModelCard(name="m")),
    ],
)
def test_each_servers_names_for_it(entry: dict[str, Any], expected: ModelCard) -> None:
    assert card_of(**entry) == expected


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "4096", None, [], {}, 2**60])
def test_what_is_no_number_of_tokens_is_not_known(value: Any) -> None:
    assert count(value) is None
    wrong = {"max_model_len": value, "max_tokens": value, "display_name": 3, "top_provider": value, "meta": [value]}
    assert card_of(**wrong) == ModelCard(name="m")


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b'{"data":{"id":"m"}}', b'{"data":[{"id":3}]}', b'{"data":[{}]}', b"\xff", b"[" * 9_999],
)
def test_what_is_no_list(body: bytes) -> None:
    assert read_models(body) is None


def test_the_order_is_kept() -> None:
    cards = read_models(b'{"data":[{"id":"b"},{"id":"a"}]}') or ()
    assert [card.name for card in cards] == ["b", "a"]
    assert read_models(b'{"data":[]}') == ()


@pytest.mark.parametrize(
    ("props", "expected"),
    [
        (b'{"default_generation_settings":{"n_ctx":4096,"params":{}},"total_slots":2}', 4096),
        (b'{"default_generation_settings":{"n_ctx":0},"role":"router"}', None),
        (b'{"default_generation_settings":{}}', None),
        (b'{"total_slots":2}', None),
        (b"", None),
    ],
)
def test_what_one_slot_has(props: bytes, expected: int | None) -> None:
    assert read_slot_context(props) == expected


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
KEYS = ["name", "display_name", "max_model_len", "context_length", "max_tokens", "top_provider", "meta", "status"]


@given(entry=st.dictionaries(st.sampled_from(KEYS), JSON))
def test_any_entry(entry: dict[str, Any]) -> None:
    card = card_of(**entry)
    assert card.name == "m"
    assert all(number is None or number > 0 for number in (card.context_window, card.max_output_tokens))
