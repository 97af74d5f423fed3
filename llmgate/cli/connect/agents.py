"""Agents in a terminal: Claude Code, Codex, opencode, aider.

Claude Code  https://code.claude.com/docs/en/env-vars and /settings: API_TIMEOUT_MS; its agents and chores ask for
             "opus", "sonnet" and "haiku", whatever ANTHROPIC_MODEL is; since 2.1.196 its watchdog ends a stream
             without events for five minutes, and comments are no events: CLAUDE_ENABLE_STREAM_WATCHDOG; an error in a
             stream makes it ask again without one: CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK; of a model that it does
             not know it takes the context for 1M tokens: CLAUDE_CODE_MAX_CONTEXT_TOKENS
Codex        https://developers.openai.com/codex/config-reference: wire_api "responses" is the only one;
             stream_idle_timeout_ms, which comments do not stop
opencode     https://opencode.ai/docs/config and /docs/providers: timeout, headerTimeout, chunkTimeout, false = none;
             releases of the first half of 2026 refuse a settings file in which chunkTimeout is no number
aider        https://aider.chat/docs/llms/openai-compat.html and /docs/config/options.html: --timeout, in seconds
"""

import shlex
from collections.abc import Mapping
from typing import Any

from llmgate.cli.connect.recipe import Block, Client, Recipe, SettingsFile
from llmgate.cli.connect.target import KEY_VARIABLE, Target


def exports(variables: Mapping[str, Any]) -> str:
    """Lines for a shell."""
    return "".join(f"export {name}={shlex.quote(str(value))}\n" for name, value in variables.items())


def claude_code(target: Target) -> Recipe:
    variables = {
        "ANTHROPIC_BASE_URL": target.root,
        "ANTHROPIC_AUTH_TOKEN": target.key,
        "ANTHROPIC_MODEL": target.model,
        **{f"ANTHROPIC_DEFAULT_{tier}_MODEL": target.model for tier in ("OPUS", "SONNET", "HAIKU")},
        "API_TIMEOUT_MS": str(target.patience_ms),
        "CLAUDE_ENABLE_STREAM_WATCHDOG": "0",
        "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    }
    if target.context_window:
        variables["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(target.context_window)
    return Recipe(
        (Block("For this shell", "sh", exports(variables)),),
        (SettingsFile(("$CLAUDE_CONFIG_DIR/settings.json", "~/.claude/settings.json"), "json", {"env": variables}),),
        ("An ANTHROPIC_API_KEY beside this token is asked about by Claude Code: leave it unset.",),
    )


def codex(target: Target) -> Recipe:
    provider: dict[str, Any] = {"name": "llmgate", "base_url": target.openai, "wire_api": "responses"}
    if target.key_needed:
        provider["env_key"] = KEY_VARIABLE
    provider |= {
        "stream_idle_timeout_ms": target.patience_ms,
        "request_max_retries": 0,
        "stream_max_retries": 0,
    }
    values = {"model": target.model, "model_provider": "llmgate", "model_providers": {"llmgate": provider}}
    return Recipe(
        _key_block(target),
        (SettingsFile(("$CODEX_HOME/config.toml", "~/.codex/config.toml"), "toml", values),),
        ("Codex speaks /v1/responses only: the server behind this model must know it.",),
    )


def _key_block(target: Target) -> tuple[Block, ...]:
    block = Block("The key, where Codex is started", "sh", exports({KEY_VARIABLE: target.key}))
    return (block,) if target.key_needed else ()


def opencode(target: Target) -> Recipe:
    timeout: int | bool = False if target.for_ever else target.patience_ms
    model: dict[str, Any] = {"name": target.model}
    if target.context_window:
        output = target.max_output_tokens or min(target.context_window, 32_000)
        model["limit"] = {"context": target.context_window, "output": output}
    options = {
        "baseURL": target.openai,
        "apiKey": target.key,
        "timeout": timeout,
        "headerTimeout": timeout,
        "chunkTimeout": target.patience_ms,
    }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "llmgate",
        "options": options,
        "models": {target.model: model},
    }
    values = {
        "$schema": "https://opencode.ai/config.json",
        "provider": {"llmgate": provider},
        "model": f"llmgate/{target.model}",
    }
    places = ("$OPENCODE_CONFIG", "$XDG_CONFIG_HOME/opencode/opencode.json", "~/.config/opencode/opencode.jsonc")
    return Recipe(files=(SettingsFile((*places, "~/.config/opencode/opencode.json"), "json", values),))


def aider(target: Target) -> Recipe:
    variables = {
        "OPENAI_API_BASE": target.openai,
        "OPENAI_API_KEY": target.key,
        "AIDER_MODEL": f"openai/{target.model}",
        "AIDER_TIMEOUT": target.patience,
    }
    values = {
        "openai-api-base": target.openai,
        "openai-api-key": target.key,
        "model": f"openai/{target.model}",
        "timeout": target.patience,
    }
    return Recipe(
        (Block("For this shell", "sh", exports(variables)),), (SettingsFile(("~/.aider.conf.yml",), "yaml", values),)
    )


CLIENTS = (
    Client("claude-code", "Claude Code", "Anthropic Messages", claude_code, "2.1.332"),
    Client("codex", "Codex", "OpenAI Responses", codex, "0.171.0"),
    Client("opencode", "opencode", "OpenAI chat completions", opencode, "1.18.33"),
    Client("aider", "aider", "OpenAI chat completions", aider, "0.86.2"),
)
