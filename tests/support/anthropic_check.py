"""A strict checker of an Anthropic Messages stream, written from the protocol and without our own code.

`faults_of(bytes)` lists every rule that the stream breaks. Source: Anthropic, "Streaming Messages" (event types and
their order); names of events and fields as in the API reference. Queue frames are no part of the protocol: a stream
must be right without them, so drop them first with `without_queue`.
"""

import json
from typing import Any

DELTAS = {
    "text": {"text_delta", "citations_delta"},
    "thinking": {"thinking_delta", "signature_delta"},
    "tool_use": {"input_json_delta"},
}
STOP_REASONS = {
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
}
MESSAGE_FIELDS = {"id", "type", "role", "model", "content", "usage"}

Event = tuple[str | None, Any]


def without_queue(stream: bytes) -> bytes:
    """The stream without queue frames and without comments."""
    blocks = stream.split(b"\n\n")
    return b"\n\n".join(block for block in blocks if not block.startswith((b"event: queue\n", b":")))


def read_events(stream: bytes) -> list[Event]:
    """Name and decoded data of every event; data that is not JSON stays text."""
    text = stream.decode().replace("\r\n", "\n")
    return [_read_event(block) for block in text.split("\n\n") if block.strip("\n")]


def _read_event(block: str) -> Event:
    name, data = None, []
    for line in block.split("\n"):
        if line.startswith("event:"):
            name = line.removeprefix("event:").strip()
        elif line.startswith("data:"):
            data.append(line.removeprefix("data:").removeprefix(" "))
    text = "\n".join(data)
    try:
        return name, json.loads(text)
    except ValueError:
        return name, text


def faults_of(stream: bytes) -> list[str]:
    """What is wrong with a whole stream that ended well; [] for a good one."""
    reading = _Reading()
    if stream and not stream.endswith(b"\n\n"):
        reading.faults.append("the last event is not ended")
    for name, data in read_events(stream):
        reading.take(name, data)
    reading.finish()
    return reading.faults


def text_of(stream: bytes) -> str:
    """The text of all text deltas."""
    deltas = [data["delta"] for name, data in read_events(stream) if name == "content_block_delta"]
    return "".join(delta.get("text", "") for delta in deltas)


class _Reading:
    """Where in a message the stream stands."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self._started = False
        self._stopped = False
        self._open: dict[str, Any] | None = None
        self._blocks = 0
        self._deltas = 0
        self._stop_reason: str | None = None

    def take(self, name: str | None, data: Any) -> None:
        if not isinstance(data, dict):
            self.faults.append(f"{name}: the data is not an object")
            return
        kind = data.get("type")
        if name != kind:
            self.faults.append(f"the event is named {name}, its data says {kind}")
        if kind == "ping":
            return
        if self._stopped:
            self.faults.append(f"{kind} after message_stop")
        if not self._started and kind != "message_start":
            self.faults.append(f"{kind} before message_start")
        read = getattr(self, f"_read_{kind}", None)
        if read is None:
            self.faults.append(f"no such event: {kind}")
        else:
            read(data)

    def _read_message_start(self, data: dict[str, Any]) -> None:
        if self._started:
            self.faults.append("a second message_start")
        self._started = True
        message = data.get("message", {})
        self.faults += [f"the message lacks {key}" for key in sorted(MESSAGE_FIELDS - message.keys())]
        if message.get("content") != [] or message.get("stop_reason") is not None:
            self.faults.append("message_start has content or a stop_reason")

    def _read_content_block_start(self, data: dict[str, Any]) -> None:
        if self._open is not None:
            self.faults.append("a block begins inside a block")
        if data.get("index") != self._blocks:
            self.faults.append(f"block {data.get('index')} instead of {self._blocks}")
        self._open = {**data.get("content_block", {}), "index": data.get("index"), "pieces": 0}
        self._blocks += 1

    def _read_content_block_delta(self, data: dict[str, Any]) -> None:
        if self._open is None or data.get("index") != self._open["index"]:
            self.faults.append("a delta outside its block")
            return
        kind = data.get("delta", {}).get("type")
        if kind not in DELTAS.get(self._open.get("type", ""), set()):
            self.faults.append(f"{kind} in a block of type {self._open.get('type')}")
        self._open["pieces"] += 1

    def _read_content_block_stop(self, data: dict[str, Any]) -> None:
        if self._open is None or data.get("index") != self._open["index"]:
            self.faults.append("content_block_stop outside its block")
        elif not self._open["pieces"] and self._open.get("type") != "tool_use":
            self.faults.append("an empty block")
        self._open = None

    def _read_message_delta(self, data: dict[str, Any]) -> None:
        self._deltas += 1
        if self._open is not None:
            self.faults.append("message_delta inside a block")
        if "usage" not in data:
            self.faults.append("message_delta without usage")
        self._stop_reason = data.get("delta", {}).get("stop_reason", self._stop_reason)

    def _read_message_stop(self, _: dict[str, Any]) -> None:
        self._stopped = True

    def finish(self) -> None:
        if not self._started:
            self.faults.append("no message_start")
        if not self._stopped:
            self.faults.append("no message_stop")
        if self._open is not None:
            self.faults.append("a block is left open")
        if self._deltas != 1:
            self.faults.append(f"{self._deltas} message_delta")
        if self._stop_reason not in STOP_REASONS:
            self.faults.append(f"the stop_reason is {self._stop_reason}")
