"""LiteLLM's model_list as settings of ours."""

from typing import Any

import pytest
import yaml

from llmgate.cli.importing.litellm import read, split_model
from tests.cli.importing.test_draft import loaded

TEXT = """
model_list:
  - model_name: qwen
    litellm_params:
      {model: openai/qwen2.5, api_base: http://gpu1:8000/v1, api_key: hunter2, rpm: 10, max_parallel_requests: 4}
  - model_name: qwen
    litellm_params: {model: openai/qwen2.5, api_base: http://gpu2:8000/v1}
  - model_name: gpt
    litellm_params: {model: gpt-4o, api_key: os.environ/OPENAI_API_KEY, timeout: 60}
  - model_name: llama
    litellm_params: {model: ollama/llama3.1, api_base: os.environ/OLLAMA}
  - model_name: far
    litellm_params: {model: meta/far, api_base: http://gpu3:8000, custom_llm_provider: hosted_vllm}
  - model_name: odd
    litellm_params: {model: bedrock/x}
  - just a text
general_settings: {master_key: hunter2}
router_settings: odd
"""


def test_deployments_become_upstreams() -> None:
    text = read(yaml.safe_load(TEXT), {"OLLAMA": "http://h:11434"}).text()
    upstreams = loaded(text).settings.upstreams
    assert [*upstreams] == ["qwen", "gpt", "llama", "far"]
    pool = upstreams["qwen"]
    assert [(each.url, each.max_concurrent) for each in pool.all_endpoints] == [
        ("http://gpu1:8000", 4),
        ("http://gpu2:8000", "auto"),
    ]
    assert (pool.models, dict(pool.aliases)) == (("qwen2.5",), {"qwen": "qwen2.5"})
    assert (upstreams["gpt"].url, upstreams["gpt"].total_timeout) == ("https://api.openai.com", 60)
    assert (upstreams["llama"].url, upstreams["llama"].kind) == ("http://h:11434", "ollama")
    assert (upstreams["far"].models, upstreams["far"].kind) == (("meta/far",), "vllm")


def test_what_is_left_out_is_told_and_no_secret_is() -> None:
    text = read(yaml.safe_load(TEXT), {}).text()
    for remark in (
        "odd: bedrock has an API of its own, which llmgate does not speak",
        "llama: it has no api_base, so it is not known where its server is",
        "an entry of model_list that is no table with litellm_params",
        "general_settings: master_key",
        "router_settings: as it is",
        "the key of qwen: put it into a file and name that with api_key_file",
        "of qwen: rpm",
    ):
        assert f"# NOT CARRIED OVER: {remark}\n" in text
    assert "hunter2" not in text
    assert '#api_key_env = "OPENAI_API_KEY"' in text


SAMPLE = """
model_list:
  - model_name: gpt-4
    litellm_params: {model: azure/gpt-4, api_base: "https://x.openai.azure.com/", api_version: "2023-05-15"}
  - model_name: fast
    litellm_params: {model: openai/one, api_base: "https://h.example/", rpm: 1000}
  - model_name: fast
    litellm_params: {model: openai/two, api_base: "https://h.example/"}
  - model_name: "*"
    litellm_params: {model: openai/*, api_key: os.environ/OPENAI_API_KEY}
  - model_name: "anthropic/*"
    litellm_params: {model: "anthropic/*", api_key: os.environ/ANTHROPIC_API_KEY}
  - model_name: "groq/*"
    litellm_params: {model: "groq/*", api_key: os.environ/GROQ_API_KEY}
"""
"""The shapes of the proxy's own sample, proxy_server_config.yaml."""


def test_what_a_gate_cannot_have_is_said() -> None:
    text = read(yaml.safe_load(SAMPLE), {}).text()
    upstreams = loaded(text).settings.upstreams
    assert {name: (found.url, found.models) for name, found in upstreams.items()} == {
        "fast": ("https://h.example", ("one",)),
        "server": ("https://api.openai.com", ("*",)),
        "anthropic": ("https://api.anthropic.com", ()),
    }
    for remark in (
        "gpt-4: azure has an API of its own, which llmgate does not speak",
        "of fast: two; a name leads to one model here, and one is it",
        "the model 'anthropic/*': server has it too, with other models beside it",
        "all of its models, so that it serves what the server itself lists",
        "groq/*: it has no api_base, so it is not known where its server is",
    ):
        assert f"# NOT CARRIED OVER: {remark}\n" in text


@pytest.mark.parametrize(
    ("model", "provider", "expected"),
    [
        ("openai/qwen", "", ("openai", "qwen")),
        ("ollama_chat/a/b", "", ("ollama_chat", "a/b")),
        ("meta-llama/x", "", ("", "meta-llama/x")),
        ("meta-llama/x", "openai", ("openai", "meta-llama/x")),
        ("gpt-4o", "", ("openai", "gpt-4o")),
        ("mine", "", ("", "mine")),
    ],
)
def test_the_provider_is_parted_from_the_model(model: str, provider: str, expected: tuple[str, str]) -> None:
    assert split_model(model, provider) == expected


@pytest.mark.parametrize("plain", [{}, {"model_list": None}, {"model_list": {"a": 1}}, {"model_list": [None, 3]}])
def test_nothing_to_read_is_told(plain: Any) -> None:
    assert "No server was found" in read(plain, {}).text()
