"""LiteLLM's proxy: `model_list`, one entry a deployment.

Its keys: https://docs.litellm.ai/docs/proxy/configs (api_base, api_key, rpm, tpm, max_parallel_requests, timeout).
Deployments at one api_base are one server here; several of the same models become the endpoints of one upstream.
"""

from collections.abc import Mapping
from typing import Any

from llmgate.cli.importing.draft import Draft, Server

DEFAULT_BASES = {
    "ollama": "http://127.0.0.1:11434",
    "ollama_chat": "http://127.0.0.1:11434",
    "openai": "https://api.openai.com",
    "anthropic": "https://api.anthropic.com",
}
KINDS = {"ollama": "ollama", "ollama_chat": "ollama", "hosted_vllm": "vllm", "vllm": "vllm", "anthropic": "anthropic"}
PROVIDERS = {
    *DEFAULT_BASES,
    *KINDS,
    *(
        "custom_openai",
        "litellm_proxy",
        "llamafile",
        "lm_studio",
        "openai_like",
        "text-completion-openai",
        "xinference",
    ),
}
"""Of the prefixes of a model those that go away; any other is taken as a part of its name."""

OTHER_APIS = {"azure", "azure_ai", "bedrock", "gemini", "sagemaker", "vertex_ai"}
"""Providers whose paths are none of ours, wherever their server is."""

CARRIED = {"model", "api_base", "base_url", "api_key", "max_parallel_requests", "timeout", "custom_llm_provider"}
ELSEWHERE = {"model_name", "litellm_params", "model_info"}


def read(plain: Mapping[str, Any], environ: Mapping[str, str]) -> Draft:
    """The settings as YAML gives them."""
    draft = Draft("LiteLLM")
    entries = plain.get("model_list")
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("litellm_params"), dict):
            _deployment(draft, str(entry.get("model_name") or ""), entry["litellm_params"], environ)
        else:
            draft.remarks.append("an entry of model_list that is no table with litellm_params")
    draft.remarks += [
        f"{section}: {', '.join(map(str, _table(plain[section])))}" for section in plain if section != "model_list"
    ]
    draft.gather_equals()
    return draft


def _table(value: Any) -> list[str]:
    return list(value) if isinstance(value, dict) else ["as it is"]


def _deployment(draft: Draft, asked: str, params: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    maker = str(params.get("custom_llm_provider") or params.get("model") or "").partition("/")[0]
    if maker in OTHER_APIS:
        draft.remarks.append(f"{asked}: {maker} has an API of its own, which llmgate does not speak")
        return
    provider, real = split_model(str(params.get("model") or asked), str(params.get("custom_llm_provider") or ""))
    base = params.get("api_base") or params.get("base_url") or DEFAULT_BASES.get(provider)
    base = _from_environment(base, environ) if isinstance(base, str) else None
    if not base or not real:
        draft.remarks.append(f"{asked or real}: it has no api_base, so it is not known where its server is")
        return
    server = draft.server(asked or real, base)
    if server is None:
        return
    other = server.models.setdefault(asked or real, real)
    if other != real:
        server.remarks.append(f"of {asked}: {real}; a name leads to one model here, and {other} is it")
    server.raise_limit(params.get("max_parallel_requests"))
    if provider in KINDS:
        server.more["kind"] = KINDS[provider]
    _note_rest(server, asked or real, params)


def split_model(model: str, provider: str) -> tuple[str, str]:
    """The provider and the name that the server knows: "openai/qwen" is ("openai", "qwen")."""
    prefix, slash, rest = model.partition("/")
    if slash and prefix in PROVIDERS:
        return provider or prefix, rest
    return provider or ("" if slash else "openai" if model.startswith("gpt-") else ""), model


def _note_rest(server: Server, asked: str, params: Mapping[str, Any]) -> None:
    timeout = params.get("timeout")
    if isinstance(timeout, int | float) and not isinstance(timeout, bool) and 0 < timeout < 1e8:
        server.more["total_timeout"] = max(timeout, server.more.get("total_timeout", 0))
    key = params.get("api_key")
    if isinstance(key, str) and key.startswith("os.environ/"):
        server.key_variable = key.removeprefix("os.environ/")
    elif key:
        server.remarks.append(f"the key of {asked}: put it into a file and name that with api_key_file")
    rest = sorted(map(str, params.keys() - CARRIED))
    if rest:
        server.remarks.append(f"of {asked}: {', '.join(rest)}")


def _from_environment(text: str, environ: Mapping[str, str]) -> str:
    return environ.get(text.removeprefix("os.environ/"), "") if text.startswith("os.environ/") else text
