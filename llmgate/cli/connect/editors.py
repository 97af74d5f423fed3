"""Editors and what lives in them: Cline, Continue, Zed.

Cline     https://docs.cline.bot (OpenAI Compatible): set in its own screens, kept by the editor; its program for a
          terminal is told by `cline auth`
Continue  https://docs.continue.dev/reference: apiBase, requestOptions.timeout in seconds, 7200 unless given; where its
          OpenAI adapter is used it takes them for milliseconds (continuedev/continue, issue 12450), so that only the
          longest one there is leaves time for a queue in either case; its name is not in what it sends, so it is told
Zed       https://zed.dev/docs/ai/use-api-access: language_models.openai_compatible; the key is in a variable that has
          the provider's name, in capitals, with _API_KEY behind it
"""

import shlex
from typing import Any

from llmgate.cli.connect.agents import exports
from llmgate.cli.connect.recipe import Block, Client, Recipe, SettingsFile
from llmgate.cli.connect.target import KEY_VARIABLE, LONGEST_MS, Target

UNKNOWN_CONTEXT = 32_768


def cline(target: Target) -> Recipe:
    fields = {
        "API Provider": "OpenAI Compatible",
        "Base URL": target.openai,
        "API Key": target.key,
        "Model ID": target.model,
    }
    width = max(map(len, fields))
    text = "".join(f"{name:<{width}}  {value}\n" for name, value in fields.items())
    words = ["cline", "auth", "--provider", "openai-compatible", "--baseurl", target.openai]
    words += ["--apikey", target.key, "--modelid", target.model]
    return Recipe(
        (
            Block("In Cline's settings, under API Configuration", "text", text),
            Block("For Cline in a terminal", "sh", f"{shlex.join(words)}\n"),
        ),
        notes=("Cline streams, and has no time limit of its own on a stream that has begun, as ours has at once.",),
    )


def continue_(target: Target) -> Recipe:
    model = {
        "name": f"{target.model} (llmgate)",
        "provider": "openai",
        "model": target.model,
        "apiBase": target.openai,
        "apiKey": target.key,
        "roles": ["chat", "edit", "apply"],
        "requestOptions": {"timeout": LONGEST_MS // 1000, "headers": {"llmgate-client": "continue"}},
    }
    values = {"name": "llmgate", "version": "1.0.0", "schema": "v1", "models": [model]}
    return Recipe(files=(SettingsFile(("~/.continue/config.yaml",), "yaml", values),))


def zed(target: Target) -> Recipe:
    model: dict[str, Any] = {
        "name": target.model,
        "display_name": target.model,
        "max_tokens": target.context_window or UNKNOWN_CONTEXT,
    }
    if target.max_output_tokens:
        model["max_output_tokens"] = target.max_output_tokens
    provider = {"api_url": target.openai, "available_models": [model]}
    unknown = "max_tokens is a guess: put the context window of the model there." if not target.context_window else ""
    return Recipe(
        (Block("The key, where Zed is started, or in its agent settings", "sh", exports({KEY_VARIABLE: target.key})),),
        (
            SettingsFile(
                ("$XDG_CONFIG_HOME/zed/settings.json", "~/.config/zed/settings.json"),
                "json",
                {"language_models": {"openai_compatible": {"llmgate": provider}}},
            ),
        ),
        tuple(filter(None, (unknown, "Zed waits as long as the stream lives; it has no time limit to set."))),
    )


CLIENTS = (
    Client("cline", "Cline", "OpenAI chat completions", cline, "3.0.65, in a terminal"),
    Client("continue", "Continue", "OpenAI chat completions", continue_, "1.5.47, in a terminal"),
    Client("zed", "Zed", "OpenAI chat completions", zed),
)
