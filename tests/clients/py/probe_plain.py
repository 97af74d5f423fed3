"""Asks through HTTP libraries that know nothing of the answer, as they are but for what a mode says."""

import json
import urllib.error
import urllib.request
from typing import Any

import aiohttp
import httpx
import requests
from calls import PROMPT, Told, make_calls

JSON = {"content-type": "application/json"}


class Refused(Exception):
    """Neither an answer nor a broken connection. `str` is the body."""

    def __init__(self, status_code: int, body: str) -> None:
        super().__init__(body)
        self.status_code = status_code


def wanted(model: str, *, stream: bool = False) -> dict[str, Any]:
    return {"model": model, "max_tokens": 16, "messages": PROMPT, "stream": stream}


def httpx_stream(url: str, model: str) -> Told:
    """By itself it gives up when nothing came for five seconds."""
    with httpx.stream("POST", url + "/v1/messages", json=wanted(model, stream=True)) as answer:
        return told_of_stream(answer.status_code, "".join(answer.iter_text()))


def httpx_whole(url: str, model: str) -> Told:
    """Without its own limit, since nothing comes before a whole answer."""
    answer = httpx.post(url + "/v1/chat/completions", json=wanted(model), timeout=None)  # noqa: S113
    return told_of_whole(answer.status_code, answer.text)


def requests_stream(url: str, model: str) -> Told:
    answer = requests.post(url + "/v1/messages", json=wanted(model, stream=True), stream=True)  # noqa: S113
    return told_of_stream(answer.status_code, "".join(answer.iter_content(None, decode_unicode=True)))


def requests_whole(url: str, model: str) -> Told:
    answer = requests.post(url + "/v1/chat/completions", json=wanted(model))  # noqa: S113
    return told_of_whole(answer.status_code, answer.text)


async def aiohttp_stream(url: str, model: str) -> Told:
    asked = wanted(model, stream=True)
    async with aiohttp.ClientSession() as session, session.post(url + "/v1/messages", json=asked) as answer:
        return told_of_stream(answer.status, await answer.text())


async def aiohttp_whole(url: str, model: str) -> Told:
    asked = wanted(model)
    async with aiohttp.ClientSession() as session, session.post(url + "/v1/chat/completions", json=asked) as answer:
        return told_of_whole(answer.status, await answer.text())


def urllib_whole(url: str, model: str) -> Told:
    body = json.dumps(wanted(model)).encode()
    request = urllib.request.Request(url + "/v1/chat/completions", body, JSON)  # noqa: S310
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            return told_of_whole(answer.status, answer.read().decode())
    except urllib.error.HTTPError as error:
        raise Refused(error.code, error.read().decode()) from error


def told_of_whole(status: int, body: str) -> Told:
    if status != 200:
        raise Refused(status, body)
    choice = json.loads(body)["choices"][0]
    return {"text": choice["message"]["content"], "last": choice["finish_reason"]}


def told_of_stream(status: int, body: str) -> Told:
    frames = body.removesuffix("\n\n").split("\n\n")
    if status != 200 or frames[-1].startswith("event: error"):
        raise Refused(status, body)
    events = [json.loads(frame.partition("data: ")[2]) for frame in frames if not frame.startswith(":")]
    text = "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta")
    return {"text": text, "last": events[-1]["type"]}


if __name__ == "__main__":
    make_calls(
        {
            "httpx_stream": httpx_stream,
            "httpx_whole": httpx_whole,
            "requests_stream": requests_stream,
            "requests_whole": requests_whole,
            "aiohttp_stream": aiohttp_stream,
            "aiohttp_whole": aiohttp_whole,
            "urllib_whole": urllib_whole,
        }
    )
