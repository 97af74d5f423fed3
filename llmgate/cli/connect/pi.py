"""pi and DeepSeek Harness, which both stand on the library pi-ai: base URL without /v1 for anthropic-messages.

pi               packages/coding-agent/docs/models.md and settings.md of https://github.com/earendil-works/pi:
                 httpIdleTimeoutMs (0 = none), retry.provider.timeoutMs; compat.sendSessionAffinityHeaders, without
                 which no session is told
DeepSeek Harness packages/llm/llm-pi-ai/README.md of its repository: streamIdleTimeoutMs, five minutes unless given,
                 which neither a queue frame nor a ping nor a comment stops on this route; a positive delay of a timer
"""

from typing import Any

from llmgate.cli.connect.agents import exports
from llmgate.cli.connect.recipe import Block, Client, Recipe, SettingsFile
from llmgate.cli.connect.target import KEY_VARIABLE, Target

DSH_NOTE = (
    "streamIdleTimeoutMs must be longer than queue_timeout: on this route dsh does not see the queue frames, and gives "
    "up in silence after five minutes unless told otherwise."
)


def pi(target: Target) -> Recipe:
    model: dict[str, Any] = {"id": target.model}
    if target.context_window:
        model["contextWindow"] = target.context_window
    if target.max_output_tokens:
        model["maxTokens"] = target.max_output_tokens
    provider = {
        "baseUrl": target.root,
        "api": "anthropic-messages",
        "apiKey": target.key,
        "compat": {"sendSessionAffinityHeaders": True},
        "models": [model],
    }
    settings = {
        "defaultProvider": "llmgate",
        "defaultModel": target.model,
        "httpIdleTimeoutMs": 0 if target.for_ever else target.patience_ms,
        "retry": {"provider": {"timeoutMs": target.patience_ms}},
    }
    folders = ("$PI_CODING_AGENT_DIR", "~/.pi/agent")
    return Recipe(
        files=(
            SettingsFile(
                tuple(f"{each}/models.json" for each in folders), "json", {"providers": {"llmgate": provider}}
            ),
            SettingsFile(tuple(f"{each}/settings.json" for each in folders), "json", settings),
        )
    )


def dsh(target: Target) -> Recipe:
    provider = {
        "displayName": "llmgate",
        "api": "anthropic-messages",
        "baseURL": target.root,
        "apiKeyEnv": KEY_VARIABLE,
        "streamIdleTimeoutMs": target.patience_ms,
        "timeoutMs": target.patience_ms,
        "models": [{"id": target.model, "name": target.model}],
    }
    values = {
        "llm-pi-ai": {"providers": {"llmgate": provider}},
        "agent-default-model": {"provider": "llmgate", "model": target.model},
    }
    return Recipe(
        (Block("The key, where dsh is started", "sh", exports({KEY_VARIABLE: target.key})),),
        (SettingsFile(("~/.dsh/settings.yaml",), "yaml", values),),
        (DSH_NOTE,),
    )


CLIENTS = (
    Client("pi", "pi", "Anthropic Messages", pi, "1.6.0"),
    Client("dsh", "DeepSeek Harness", "Anthropic Messages", dsh),
)
