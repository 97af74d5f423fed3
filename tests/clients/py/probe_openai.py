"""Asks through the openai SDK: chat, completions and Responses as streams and whole, embeddings, the list of models."""

from typing import Any

import openai
from calls import PROMPT, Told, make_calls


def client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=url + "/v1", api_key="x")


def async_client(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=url + "/v1", api_key="x")


def wanted(model: str) -> Any:
    return {"model": model, "max_tokens": 16, "messages": PROMPT}


def chat(url: str, model: str) -> Told:
    return told_of_chunks(list(client(url).chat.completions.create(stream=True, **wanted(model))))


def chat_helper(url: str, model: str) -> Told:
    with client(url).chat.completions.stream(**wanted(model)) as stream:
        for _ in stream:
            pass
        return told_of_choice(stream.get_final_completion().choices[0])


async def async_chat(url: str, model: str) -> Told:
    async with async_client(url) as asking:
        chunks = await asking.chat.completions.create(stream=True, **wanted(model))
        return told_of_chunks([chunk async for chunk in chunks])


def chat_whole(url: str, model: str) -> Told:
    return told_of_choice(client(url).chat.completions.create(**wanted(model)).choices[0])


async def async_chat_whole(url: str, model: str) -> Told:
    async with async_client(url) as asking:
        return told_of_choice((await asking.chat.completions.create(**wanted(model))).choices[0])


def completions(url: str, model: str) -> Told:
    chunks = list(client(url).completions.create(model=model, max_tokens=16, prompt="hi", stream=True))
    return {"text": "".join(chunk.choices[0].text for chunk in chunks), "last": chunks[-1].choices[0].finish_reason}


def completions_whole(url: str, model: str) -> Told:
    choice = client(url).completions.create(model=model, max_tokens=16, prompt="hi").choices[0]
    return {"text": choice.text, "last": choice.finish_reason}


def responses(url: str, model: str) -> Told:
    return told_of_events(list(client(url).responses.create(model=model, input="hi", stream=True)))


def responses_helper(url: str, model: str) -> Told:
    with client(url).responses.stream(model=model, input="hi") as stream:
        kinds = [event.type for event in stream]
        return {"text": stream.get_final_response().output_text, "last": kinds[-1]}


async def async_responses(url: str, model: str) -> Told:
    async with async_client(url) as asking:
        events = await asking.responses.create(model=model, input="hi", stream=True)
        return told_of_events([event async for event in events])


def responses_whole(url: str, model: str) -> Told:
    response = client(url).responses.create(model=model, input="hi")
    return {"text": response.output_text, "last": response.status}


def embeddings(url: str, model: str) -> Told:
    return {"text": str(client(url).embeddings.create(model=model, input="hi").data[0].embedding)}


def models(url: str, model: str) -> Told:
    listed = [one.id for one in client(url).models.list()]
    return {"text": client(url).models.retrieve(model).id, "listed": listed}


def told_of_chunks(chunks: list[Any]) -> Told:
    """The usual loop, which breaks on a chunk without choices."""
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    return {"text": text, "last": chunks[-1].choices[0].finish_reason}


def told_of_choice(choice: Any) -> Told:
    return {"text": choice.message.content, "last": choice.finish_reason}


def told_of_events(events: list[Any]) -> Told:
    assert events[0].type == "response.created"
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    return {"text": text, "last": events[-1].type}


if __name__ == "__main__":
    make_calls(
        {
            "chat": chat,
            "chat_helper": chat_helper,
            "async_chat": async_chat,
            "chat_whole": chat_whole,
            "async_chat_whole": async_chat_whole,
            "completions": completions,
            "completions_whole": completions_whole,
            "responses": responses,
            "responses_helper": responses_helper,
            "async_responses": async_responses,
            "responses_whole": responses_whole,
            "embeddings": embeddings,
            "models": models,
        }
    )
