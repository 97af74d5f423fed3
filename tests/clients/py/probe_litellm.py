"""Asks through LiteLLM as a client, by its providers for Anthropic, OpenAI and Ollama."""

from functools import partial
from typing import Any

import litellm
from calls import PROMPT, Mode, Told, make_calls

litellm.suppress_debug_info = True

PATHS = {"anthropic": "", "openai": "/v1", "ollama": "", "ollama_chat": ""}


def wanted(provider: str, url: str, model: str) -> dict[str, Any]:
    base = url + PATHS[provider]
    return {"model": f"{provider}/{model}", "api_base": base, "api_key": "x", "max_tokens": 16, "messages": PROMPT}


def stream(provider: str, url: str, model: str) -> Told:
    return told_of_chunks(list(litellm.completion(stream=True, **wanted(provider, url, model))))


async def astream(provider: str, url: str, model: str) -> Told:
    chunks = await litellm.acompletion(stream=True, **wanted(provider, url, model))
    return told_of_chunks([chunk async for chunk in chunks])


def whole(provider: str, url: str, model: str) -> Told:
    choice = litellm.completion(**wanted(provider, url, model)).choices[0]
    return {"text": choice.message.content, "last": choice.finish_reason}


def told_of_chunks(chunks: list[Any]) -> Told:
    choices = [choice for chunk in chunks for choice in chunk.choices]
    text = "".join(choice.delta.content or "" for choice in choices)
    return {"text": text, "last": next(choice.finish_reason for choice in reversed(choices) if choice.finish_reason)}


MODES: dict[str, Mode] = {
    f"{provider}_{way.__name__}": partial(way, provider) for provider in PATHS for way in (stream, astream, whole)
}

if __name__ == "__main__":
    make_calls(MODES)
