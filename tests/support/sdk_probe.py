"""Asks a gate through an official SDK, each call in a thread of its own, all at once; prints one JSON line a call.

    python sdk_probe.py BASE_URL MODE=MODEL...

A program of its own, so that an old version of an SDK can be put in front with PYTHONPATH.
"""

import asyncio
import json
import sys
import threading
from typing import Any

PROMPT: Any = [{"role": "user", "content": "hi"}]


def anthropic_raw(url: str, model: str) -> dict[str, Any]:
    import anthropic

    client = anthropic.Anthropic(base_url=url, api_key="x")
    events = client.messages.create(model=model, max_tokens=16, messages=PROMPT, stream=True)
    return anthropic_text(list(events))


def anthropic_helper(url: str, model: str) -> dict[str, Any]:
    import anthropic

    client = anthropic.Anthropic(base_url=url, api_key="x")
    with client.messages.stream(model=model, max_tokens=16, messages=PROMPT) as stream:
        kinds = [event.type for event in stream]
        message = stream.get_final_message()
    return {"text": message.content[0].text, "last": kinds[-1]}  # type: ignore[union-attr]


def anthropic_async_raw(url: str, model: str) -> dict[str, Any]:
    import anthropic

    async def ask() -> list[Any]:
        async with anthropic.AsyncAnthropic(base_url=url, api_key="x") as client:
            events = await client.messages.create(model=model, max_tokens=16, messages=PROMPT, stream=True)
            return [event async for event in events]

    return anthropic_text(asyncio.run(ask()))


def anthropic_async_helper(url: str, model: str) -> dict[str, Any]:
    import anthropic

    async def ask() -> dict[str, Any]:
        async with (
            anthropic.AsyncAnthropic(base_url=url, api_key="x") as client,
            client.messages.stream(model=model, max_tokens=16, messages=PROMPT) as stream,
        ):
            kinds = [event.type async for event in stream]
            message = await stream.get_final_message()
        return {"text": message.content[0].text, "last": kinds[-1]}  # type: ignore[union-attr]

    return asyncio.run(ask())


def anthropic_whole(url: str, model: str) -> dict[str, Any]:
    import anthropic

    client = anthropic.Anthropic(base_url=url, api_key="x")
    message = client.messages.create(model=model, max_tokens=16, messages=PROMPT)
    return {"text": message.content[0].text, "last": message.stop_reason}  # type: ignore[union-attr]


def anthropic_text(events: list[Any]) -> dict[str, Any]:
    deltas = [event.delta.text for event in events if event.type == "content_block_delta"]
    return {"text": "".join(deltas), "last": events[-1].type}


def openai_chat(url: str, model: str) -> dict[str, Any]:
    import openai

    client = openai.OpenAI(base_url=url + "/v1", api_key="x")
    chunks = list(client.chat.completions.create(model=model, max_tokens=16, messages=PROMPT, stream=True))
    return openai_text(chunks)


def openai_async_chat(url: str, model: str) -> dict[str, Any]:
    import openai

    async def ask() -> list[Any]:
        async with openai.AsyncOpenAI(base_url=url + "/v1", api_key="x") as client:
            chunks = await client.chat.completions.create(model=model, max_tokens=16, messages=PROMPT, stream=True)
            return [chunk async for chunk in chunks]

    return openai_text(asyncio.run(ask()))


def openai_whole(url: str, model: str) -> dict[str, Any]:
    import openai

    client = openai.OpenAI(base_url=url + "/v1", api_key="x")
    completion = client.chat.completions.create(model=model, max_tokens=16, messages=PROMPT)
    return {"text": completion.choices[0].message.content, "last": completion.choices[0].finish_reason}


def openai_text(chunks: list[Any]) -> dict[str, Any]:
    """The usual loop, which breaks on a chunk without choices."""
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    return {"text": text, "last": chunks[-1].choices[0].finish_reason}


def openai_completions(url: str, model: str) -> dict[str, Any]:
    import openai

    client = openai.OpenAI(base_url=url + "/v1", api_key="x")
    chunks = list(client.completions.create(model=model, max_tokens=16, prompt="hi", stream=True))
    return {"text": "".join(chunk.choices[0].text for chunk in chunks), "last": chunks[-1].choices[0].finish_reason}


def openai_responses(url: str, model: str) -> dict[str, Any]:
    import openai

    client = openai.OpenAI(base_url=url + "/v1", api_key="x")
    events = list(client.responses.create(model=model, input="hi", stream=True))
    assert events[0].type == "response.created"
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    return {"text": text, "last": events[-1].type}


def openai_responses_helper(url: str, model: str) -> dict[str, Any]:
    import openai

    client = openai.OpenAI(base_url=url + "/v1", api_key="x")
    with client.responses.stream(model=model, input="hi") as stream:
        kinds = [event.type for event in stream]
        response = stream.get_final_response()
    return {"text": response.output_text, "last": kinds[-1]}


def openai_responses_whole(url: str, model: str) -> dict[str, Any]:
    import openai

    client = openai.OpenAI(base_url=url + "/v1", api_key="x")
    response = client.responses.create(model=model, input="hi")
    return {"text": response.output_text, "last": response.status}


def run(mode: str, url: str, model: str) -> None:
    try:
        told: dict[str, Any] = globals()[mode](url, model)
    except Exception as error:
        told = {
            "error": type(error).__name__,
            "bases": [base.__name__ for base in type(error).__mro__],
            "status": getattr(error, "status_code", None),
            "message": str(error),
        }
    print(json.dumps({"mode": mode, "model": model, **told}) + "\n", end="", flush=True)


if __name__ == "__main__":
    calls = [call.split("=") for call in sys.argv[2:]]
    threads = [threading.Thread(target=run, args=(mode, sys.argv[1], model)) for mode, model in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
