"""Asks through the anthropic SDK: raw and helper streams, whole answers, the list of models."""

from typing import Any

import anthropic
from calls import PROMPT, Told, make_calls


def client(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="x")


def async_client(url: str) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=url, api_key="x")


def wanted(model: str) -> Any:
    return {"model": model, "max_tokens": 16, "messages": PROMPT}


def raw(url: str, model: str) -> Told:
    return told_of_events(list(client(url).messages.create(stream=True, **wanted(model))))


def helper(url: str, model: str) -> Told:
    with client(url).messages.stream(**wanted(model)) as stream:
        kinds = [event.type for event in stream]
        return told_of_message(stream.get_final_message(), kinds[-1])


async def async_raw(url: str, model: str) -> Told:
    async with async_client(url) as asking:
        events = await asking.messages.create(stream=True, **wanted(model))
        return told_of_events([event async for event in events])


async def async_helper(url: str, model: str) -> Told:
    async with async_client(url) as asking, asking.messages.stream(**wanted(model)) as stream:
        kinds = [event.type async for event in stream]
        return told_of_message(await stream.get_final_message(), kinds[-1])


def whole(url: str, model: str) -> Told:
    message = client(url).messages.create(**wanted(model))
    return told_of_message(message, message.stop_reason)


async def async_whole(url: str, model: str) -> Told:
    async with async_client(url) as asking:
        message = await asking.messages.create(**wanted(model))
        return told_of_message(message, message.stop_reason)


def models(url: str, model: str) -> Told:
    return {
        "text": client(url).models.retrieve(model).id,
        "listed": [listed.id for listed in client(url).models.list()],
    }


def told_of_events(events: list[Any]) -> Told:
    deltas = [event.delta.text for event in events if event.type == "content_block_delta"]
    return {"text": "".join(deltas), "last": events[-1].type}


def told_of_message(message: Any, last: str | None) -> Told:
    return {"text": message.content[0].text, "last": last}


if __name__ == "__main__":
    make_calls(
        {
            "raw": raw,
            "helper": helper,
            "async_raw": async_raw,
            "async_helper": async_helper,
            "whole": whole,
            "async_whole": async_whole,
            "models": models,
        }
    )
