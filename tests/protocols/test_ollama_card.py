"""What an Ollama tells of its models; the answers are those of docs/api.md, shortened."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.protocols.model_card import ModelCard
from llmgate.protocols.ollama_card import read_tags, with_ps, with_show

DIGEST = "a80c4f17acd55265feec403c7aef86be0c25983ab279d83f3bcd3abbcb5b8b72"
DETAILS = {
    "parent_model": "",
    "format": "gguf",
    "family": "llama",
    "families": ["llama"],
    "parameter_size": "3.2B",
    "quantization_level": "Q4_K_M",
}
MODIFIED = "2025-05-04T17:37:44.706015396-07:00"
LISTED = {
    "name": "llama3.2:latest",
    "model": "llama3.2:latest",
    "modified_at": MODIFIED,
    "size": 2019393189,
    "digest": DIGEST,
    "details": DETAILS,
}
CARD = ModelCard(name="llama3.2:latest", size=2019393189, digest=DIGEST, modified_at=MODIFIED, details=DETAILS)
SHOWN = {
    "license": "a long text",
    "modelfile": "a long text",
    "parameters": 'stop    "<|eot_id|>"\nnum_keep    24',
    "template": "{{ .System }}",
    "details": DETAILS,
    "model_info": {
        "general.architecture": "llama",
        "general.parameter_count": 3212749888,
        "llama.context_length": 131072,
        "llama.rope.freq_base": 500000.5,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.merges": None,
        "tokenizer.ggml.tokens": ["a", "b"],
    },
    "capabilities": ["completion", "tools"],
}


def encode(value: Any) -> bytes:
    return json.dumps(value).encode()


def test_tags() -> None:
    assert read_tags(encode({"models": [LISTED]})) == {"llama3.2:latest": CARD}
    assert read_tags(b'{"models":[]}') == {}
    told = read_tags(encode({"models": [{**LISTED, "capabilities": ["completion", "vision"]}]})) or {}
    assert told["llama3.2:latest"].capabilities == ("completion", "vision")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"models":[{}]}', b'{"models":[{"name":3}]}', b"\xff"])
def test_what_is_no_list_of_tags(body: bytes) -> None:
    assert read_tags(body) is None
    assert with_ps({"m": CARD}, body) == {"m": CARD}


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": "2 GB", "digest": "sha256:12", "modified_at": "yesterday", "details": [], "capabilities": "tools"},
        {"size": -1, "digest": 5, "modified_at": 5, "details": {"family": 5, "families": "x"}, "capabilities": [5]},
    ],
)
def test_what_clients_would_stop_at_is_left_out(wrong: dict[str, Any]) -> None:
    assert read_tags(encode({"models": [{"name": "m", **wrong}]})) == {"m": ModelCard(name="m")}


def test_show() -> None:
    card = with_show(CARD, encode(SHOWN))
    assert card.context_window == 131072
    assert card.capabilities == ("completion", "tools")
    assert card.parameters == SHOWN["parameters"]
    assert (card.size, card.digest, card.details) == (CARD.size, DIGEST, DETAILS)
    info = SHOWN["model_info"]
    assert isinstance(info, dict)
    left_out = {"tokenizer.ggml.merges", "tokenizer.ggml.tokens"}
    assert card.model_info == {key: value for key, value in info.items() if key not in left_out}


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("num_ctx                        8192", 8192),
        ('stop "x"\nnum_ctx 4096\ntemperature 1', 4096),
        ("num_ctx 0", None),
        ("num_ctx many", 131072),
        ("my_num_ctx 5", 131072),
        (None, 131072),
        ("num_ctx 4096 " + "x" * 5000, 131072),
    ],
)
def test_the_models_own_num_ctx_goes_first(parameters: str | None, expected: int | None) -> None:
    assert with_show(CARD, encode({**SHOWN, "parameters": parameters})).context_window == expected


def test_show_of_little() -> None:
    assert with_show(CARD, b"no") == CARD
    card = with_show(CARD, b'{"model_info":[],"capabilities":null,"details":null}')
    assert (card, card.context_window, card.model_info) == (CARD, None, {})
    many = {f"k{number}": number for number in range(1000)} | {"x.context_length": "far"}
    assert len(with_show(CARD, encode({"model_info": many})).model_info) == 256


def test_ps() -> None:
    other = ModelCard(name="other", loaded=True, expires_at=MODIFIED, size_vram=3, loaded_context=5)
    running = {**LISTED, "expires_at": MODIFIED, "size_vram": 5137025024, "context_length": 4096}
    cards = with_ps({CARD.name: CARD, "other": other}, encode({"models": [running]}))
    assert cards["other"] == ModelCard(name="other", loaded=False)
    card = cards[CARD.name]
    assert (card.loaded, card.expires_at, card.size_vram, card.loaded_context) == (True, MODIFIED, 5137025024, 4096)
    assert (card.digest, card.size) == (DIGEST, CARD.size)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = ["size", "digest", "modified_at", "details", "capabilities", "parameters", "model_info", "expires_at"]


@given(entry=st.dictionaries(st.sampled_from(KEYS), JSON))
def test_whatever_it_sends_what_is_kept_can_be_passed_on(entry: dict[str, Any]) -> None:
    tags = read_tags(encode({"models": [{**entry, "name": "m"}]}))
    cards = with_ps({"m": with_show((tags or {}).get("m", CARD), encode(entry))}, encode({"models": [entry]}))
    (card,) = cards.values()
    json.dumps([card.details, card.model_info, card.capabilities, card.parameters], allow_nan=False)
    assert all(isinstance(value, str) or key == "families" for key, value in card.details.items())
