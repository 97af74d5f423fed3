"""JavaScript clients through a gate: they wait without an error, and a queue error ends their call after one request.

All of them are asked at once (stage.py): each package in a process of its own, in all its ways and at every place.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from javascript import command
from stage import LISTED, WAIT_SECONDS, Call, Probe, Stage

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Family:
    """What a program asks: its modes, by whether they stream, with the `last` of an answer that is whole."""

    program: str
    packages: Mapping[str, str]
    """By the name of the probe."""
    streams: Mapping[str, Any]
    wholes: Mapping[str, Any] = field(default_factory=dict)
    lists: tuple[str, ...] = ()
    refusal: str = "Reported"
    """The class of an error that came as a status, or one of its bases."""
    failure: str = "Reported"
    """The same of one that came in an open stream."""


ANTHROPIC = Family(
    "anthropic",
    {"anthropic": "@anthropic-ai/sdk", "anthropic-0.91": "anthropic-0.91"},
    streams={"stream": "message_stop", "helper": "message_stop"},
    wholes={"whole": "end_turn"},
    lists=("models", "count"),
    refusal="InternalServerError",
    failure="APIError",
)
OPENAI = Family(
    "openai",
    {"openai": "openai", "openai-4": "openai-4"},
    streams={
        "chat_stream": "stop",
        "chat_helper": "stop",
        "completions_stream": "stop",
        "responses_stream": "response.completed",
        "responses_helper": "response.completed",
    },
    wholes={"chat_whole": "stop", "responses_whole": "completed", "embeddings": 1},
    lists=("models",),
    refusal="InternalServerError",
    failure="APIError",
)
OLLAMA = Family(
    "ollama",
    {"ollama": "ollama"},
    streams={"chat_stream": "stop", "generate_stream": "stop"},
    wholes={"chat_whole": "stop", "generate_whole": "stop"},
    lists=("models",),
    refusal="ResponseError",
    failure="Error",
)
PI_AI = Family(
    "pi-ai",
    {"pi-ai": "@earendil-works/pi-ai", "pi-ai-0.73": "@mariozechner/pi-ai"},
    streams=dict.fromkeys(("anthropic-messages", "openai-completions", "openai-responses"), "done stop"),
)
KINDS = ("anthropic", "chat", "responses", "compatible")
AI_SDK = Family(
    "ai-sdk",
    {"ai": "ai", "ai-6": "ai-6"},
    streams={f"{kind}_stream": "finish stop" for kind in KINDS},
    wholes={f"{kind}_whole": "stop" for kind in KINDS},
    refusal="RetryError",
)
LIBRARIES = ("fetch", "undici", "axios", "http")
PLAIN = Family(
    "plain",
    {"plain": ""},
    streams={f"{library}_stream": "stop" for library in LIBRARIES},
    wholes={f"{library}_whole": "stop" for library in LIBRARIES},
)
FAMILIES = {name: family for family in (ANTHROPIC, OPENAI, OLLAMA, PI_AI, AI_SDK, PLAIN) for name in family.packages}

MESSAGES = ("stream", "helper", "whole", "anthropic-messages", "anthropic_stream", "anthropic_whole")
TEXTS = {"embeddings": "1", **dict.fromkeys(MESSAGES, "Hello there")}
"""What the stage's server says; everywhere else "Hello"."""

AI_SDK_TRIES = 3
"""The AI SDK does not read `x-should-retry`: after a status from 500 on it tries again, twice. @ai-sdk/openai invents
such a status for an error that comes first in a stream: 504 where its code has the word timeout."""

AI_SDK_ONCE = ("anthropic_stream", "compatible_stream")
"""Its streams in which an error after the wait ends the call."""


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Call]]:
    probes = [
        Probe(name, command(family.program, package), list(family.streams), list(family.wholes), family.lists)
        for name, family in FAMILIES.items()
        for package in [family.packages[name]]
    ]
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        yield runner.run(ask(probes, tmp_path_factory))


async def ask(probes: list[Probe], tmp_path_factory: pytest.TempPathFactory) -> list[Call]:
    async with Stage(tmp_path_factory.mktemp("js")) as stage:
        return await stage.run(probes)


@pytest.fixture(params=FAMILIES)
def probe(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def at(calls: list[Call], place: str, probe: str) -> dict[str, Call]:
    """By mode; all that its family has there."""
    family = FAMILIES[probe]
    found = {call.mode: call for call in calls if (call.place, call.probe) == (place, probe)}
    gated = {mode: call for mode, call in found.items() if mode not in family.lists}
    assert set(gated) == set(family.streams) | (set() if place == "broken" else set(family.wholes))
    return gated


def assert_whole(calls: dict[str, Call], probe: str) -> None:
    family = FAMILIES[probe]
    lasts = {**family.streams, **family.wholes}
    got = {mode: (call.told.get("text"), call.told.get("last"), call.told.get("error")) for mode, call in calls.items()}
    assert got == {mode: (TEXTS.get(mode, "Hello"), lasts[mode], None) for mode in calls}
    assert {mode: call.outcomes for mode, call in calls.items()} == dict.fromkeys(calls, ("completed",))


def assert_failed(call: Call, class_name: str, code: str, status: int | None) -> None:
    error = call.told.get("error")
    assert error, call
    assert class_name in error["chain"], call
    assert f"({code})" in error["message"], call
    assert status is None or error["status"] == status, call


def status_of(probe: str, status: int) -> int | None:
    """pi-ai tells it in its text only."""
    return None if FAMILIES[probe] is PI_AI else status


def test_with_a_free_slot_it_gets_the_whole_text(calls: list[Call], probe: str) -> None:
    assert_whole(at(calls, "free", probe), probe)


def test_who_waits_for_seconds_gets_the_whole_text_by_one_request(calls: list[Call], probe: str) -> None:
    patient = at(calls, "patient", probe)
    assert_whole(patient, probe)
    assert {mode: call.waited_ms for mode, call in patient.items() if min(call.waited_ms) < WAIT_SECONDS * 1000} == {}


def test_queue_full_raises_a_typed_error(calls: list[Call], probe: str) -> None:
    for call in at(calls, "full", probe).values():
        assert_failed(call, FAMILIES[probe].refusal, "QUEUE_FULL", status_of(probe, 503))
        assert call.outcomes == ("queue_full",) * (AI_SDK_TRIES if FAMILIES[probe] is AI_SDK else 1), call


def test_queue_timeout_raises_a_typed_error(calls: list[Call], probe: str) -> None:
    """As a status where there is no stream, and in the open stream."""
    family = FAMILIES[probe]
    for mode, call in at(calls, "late", probe).items():
        if mode in family.wholes:
            assert_failed(call, family.refusal, "QUEUE_TIMEOUT", status_of(probe, 504))
        else:
            assert_failed(call, failure_of(probe, mode), "QUEUE_TIMEOUT", None)
        tries = AI_SDK_TRIES if family is AI_SDK and mode not in AI_SDK_ONCE else 1
        assert call.outcomes == ("queue_timeout",) * tries, call


def failure_of(probe: str, mode: str) -> str:
    """The class of an error in a stream that has said nothing yet."""
    if FAMILIES[probe] is not AI_SDK:
        return FAMILIES[probe].failure
    if mode == "compatible_stream":
        return later_failure_of(probe)
    return "APICallError" if mode in AI_SDK_ONCE else "RetryError"


def later_failure_of(probe: str) -> str:
    """The class of an error in the midst of an answer: 6 of the AI SDK hands on the bare object that was sent."""
    return {"ai": "StreamProviderError", "ai-6": "Object"}.get(probe, FAMILIES[probe].failure)


def test_a_stream_that_breaks_off_raises_and_is_not_taken_for_a_whole_text(calls: list[Call], probe: str) -> None:
    for call in at(calls, "broken", probe).values():
        assert_failed(call, later_failure_of(probe), "UPSTREAM_ERROR", None)
        assert call.outcomes == ("upstream_error",), call


@pytest.mark.parametrize("probe", [name for name, family in FAMILIES.items() if family.lists])
def test_it_can_list_the_models(calls: list[Call], probe: str) -> None:
    listed = [call.told.get("last") for call in calls if (call.probe, call.mode) == (probe, "models")]
    assert listed == [[LISTED]]


@pytest.mark.parametrize("probe", ANTHROPIC.packages)
def test_it_can_count_tokens(calls: list[Call], probe: str) -> None:
    (counted,) = [call for call in calls if (call.probe, call.mode) == (probe, "count")]
    assert counted.told.get("last", 0) > 0, counted


@pytest.mark.parametrize(("place", "again"), [("full", True), ("late", True), ("broken", False)])
def test_the_agent_on_top_of_pi_ai_would_ask_again_later(calls: list[Call], place: str, again: bool) -> None:
    """By itself, after seconds: an end in the queue passes, by pi's own judgement."""
    judged = {mode: call.told["error"]["retryable"] for mode, call in at(calls, place, "pi-ai").items()}
    assert judged == dict.fromkeys(PI_AI.streams, again)
