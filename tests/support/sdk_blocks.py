"""Asks a gate through the official anthropic SDK and prints one JSON line a call: the content blocks that it made.

    python sdk_blocks.py BASE_URL MODE=MODEL...

A program of its own, so that another version of the SDK can be put in front with PYTHONPATH.
"""

import json
import sys
import threading
from typing import Any

import anthropic

ASK: Any = {"max_tokens": 16, "messages": [{"role": "user", "content": "hi"}]}


def helper(client: anthropic.Anthropic, model: str) -> anthropic.types.Message:
    """The SDK puts the stream together."""
    with client.messages.stream(model=model, **ASK) as stream:
        return stream.get_final_message()


def whole(client: anthropic.Anthropic, model: str) -> anthropic.types.Message:
    message: anthropic.types.Message = client.messages.create(model=model, **ASK)
    return message


def raw(client: anthropic.Anthropic, model: str) -> None:
    """Only that every event can be read; the helper tells what is in them. A sign of life may come at any time."""
    events = client.messages.create(model=model, stream=True, **ASK)
    kinds = [event.type for event in events if event.type != "ping"]
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop"), kinds


def ask(mode: str, url: str, model: str) -> None:
    client = anthropic.Anthropic(base_url=url, api_key="x", max_retries=0)
    told: dict[str, Any] = {"mode": mode, "model": model}
    try:
        message = {"helper": helper, "whole": whole, "raw": raw}[mode](client, model)
        if message is not None:
            blocks = [block.model_dump(exclude_none=True) for block in message.content]
            told |= {"content": blocks, "stop_reason": message.stop_reason}
    except Exception as error:
        bases = [base.__name__ for base in type(error).__mro__]
        told |= {"error": str(error), "bases": bases, "status": getattr(error, "status_code", None)}
    print(json.dumps(told) + "\n", end="", flush=True)


if __name__ == "__main__":
    calls = [call.split("=") for call in sys.argv[2:]]
    threads = [threading.Thread(target=ask, args=(mode, sys.argv[1], model)) for mode, model in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
