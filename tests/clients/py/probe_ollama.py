"""Asks through the ollama library: chat and generate as streams and whole, embeddings, the lists of models."""

from collections.abc import Iterable
from typing import Any

import ollama
from calls import PROMPT, Told, make_calls


def chat(url: str, model: str) -> Told:
    return told_of_chat(ollama.Client(url).chat(model, PROMPT, stream=True))


async def async_chat(url: str, model: str) -> Told:
    return told_of_chat([part async for part in await ollama.AsyncClient(url).chat(model, PROMPT, stream=True)])


def chat_whole(url: str, model: str) -> Told:
    return told_of_chat([ollama.Client(url).chat(model, PROMPT)])


def generate(url: str, model: str) -> Told:
    return told_of_generate(ollama.Client(url).generate(model, "hi", stream=True))


def generate_whole(url: str, model: str) -> Told:
    return told_of_generate([ollama.Client(url).generate(model, "hi")])


def embed(url: str, model: str) -> Told:
    return {"text": str(ollama.Client(url).embed(model, "hi").embeddings[0])}


def models(url: str, model: str) -> Told:
    client = ollama.Client(url)
    shown = client.show(model).modelinfo or {}
    listed = [one.model for one in client.list().models]
    assert [one.model for one in client.ps().models] == listed
    return {"text": shown["general.basename"], "listed": listed}


def told_of_chat(answer: Iterable[Any]) -> Told:
    parts = list(answer)
    return {"text": "".join(part.message.content for part in parts), "last": parts[-1].done_reason}


def told_of_generate(answer: Iterable[Any]) -> Told:
    parts = list(answer)
    return {"text": "".join(part.response for part in parts), "last": parts[-1].done_reason}


if __name__ == "__main__":
    make_calls(
        {
            "chat": chat,
            "async_chat": async_chat,
            "chat_whole": chat_whole,
            "generate": generate,
            "generate_whole": generate_whole,
            "embed": embed,
            "models": models,
        }
    )
