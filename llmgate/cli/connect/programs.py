"""Everything that is no agent: Open WebUI, Python with the official SDKs, curl.

Open WebUI  https://docs.openwebui.com/reference/env-configuration: AIOHTTP_CLIENT_TIMEOUT, 300 s in all unless given,
            empty = none; the first start keeps OPENAI_API_BASE_URL in its database
SDKs        anthropic and openai for Python: `timeout` in seconds, 600 unless given
"""

import json
import shlex

from llmgate.cli.connect.agents import exports
from llmgate.cli.connect.recipe import Block, Client, Recipe
from llmgate.cli.connect.target import Target

ANTHROPIC = """\
import anthropic

client = anthropic.Anthropic(base_url={root}, api_key={key}, timeout={patience})
question = [{{"role": "user", "content": "Say hello."}}]
with client.messages.stream(model={model}, max_tokens=64, messages=question) as stream:
    for text in stream.text_stream:
        print(text, end="", flush=True)
print()
"""

OPENAI = """\
import openai

client = openai.OpenAI(base_url={openai}, api_key={key}, timeout={patience})
question = [{{"role": "user", "content": "Say hello."}}]
for chunk in client.chat.completions.create(model={model}, max_tokens=64, messages=question, stream=True):
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
"""


def open_webui(target: Target) -> Recipe:
    variables = {
        "OPENAI_API_BASE_URL": target.openai,
        "OPENAI_API_KEY": target.key,
        "AIOHTTP_CLIENT_TIMEOUT": "" if target.for_ever else target.patience,
    }
    return Recipe(
        (Block("Where Open WebUI is started (docker run: -e NAME=VALUE)", "sh", exports(variables)),),
        notes=(
            "After its first start Open WebUI keeps the URL: change it under Admin Panel, Settings, Connections.",
            "In a container 127.0.0.1 is the container: use --network host, or --base-url with the host's address.",
        ),
    )


def python(target: Target) -> Recipe:
    named = {
        "root": _literal(target.root),
        "openai": _literal(target.openai),
        "key": _literal(target.key),
        "model": _literal(target.model),
        "patience": target.patience,
    }
    return Recipe(
        (
            Block("With the SDK of Anthropic (pip install anthropic)", "python", ANTHROPIC.format(**named)),
            Block("With the SDK of OpenAI (pip install openai)", "python", OPENAI.format(**named)),
        )
    )


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def curl(target: Target) -> Recipe:
    body = {
        "model": target.model,
        "max_tokens": 64,
        "stream": True,
        "messages": [{"role": "user", "content": "Say hello."}],
    }
    words = ["curl", "-N", f"{target.root}/v1/messages", "-H", "content-type: application/json"]
    if target.key_needed:
        words += ["-H", f"authorization: Bearer {target.key}"]
    words += ["-d", json.dumps(body, ensure_ascii=False)]
    return Recipe((Block("Shows the queue frames as they come", "sh", f"{shlex.join(words)}\n"),))


CLIENTS = (
    Client("open-webui", "Open WebUI", "OpenAI chat completions", open_webui),
    Client("python", "Python", "Anthropic Messages, OpenAI chat completions", python),
    Client("curl", "curl", "Anthropic Messages", curl),
)
