"""Python clients through a gate: they wait without an error, and a queue error ends their call after one request.

They are asked at once (stage.py), each in a process of its own, in all its ways and at every place; the quick ones by
`make test`, the others by `make slow`.
"""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from stage import LISTED, WAIT_SECONDS, Call, Probe, Stage

pytestmark = pytest.mark.timeout(600)

FOLDERS = Path(os.environ.get("LLMGATE_TEST_CLIENTS", Path(sys.prefix) / "clients"))
"""Where `make` puts versions that cannot lie beside those in its own environment, each in a folder of its own."""

Said = tuple[str, str | None]
"""The text of a whole answer, and how it ends as the client tells it."""


@dataclass(frozen=True)
class Library:
    """What a program in py/ asks, by mode."""

    program: str
    streams: Mapping[str, Said]
    wholes: Mapping[str, Said]
    lists: tuple[str, ...] = ()


ANTHROPIC = Library(
    "anthropic",
    streams=dict.fromkeys(("raw", "helper", "async_raw", "async_helper"), ("Hello there", "message_stop")),
    wholes=dict.fromkeys(("whole", "async_whole"), ("Hello there", "end_turn")),
    lists=("models",),
)
OPENAI = Library(
    "openai",
    streams={
        **dict.fromkeys(("chat", "chat_helper", "async_chat", "completions"), ("Hello", "stop")),
        **dict.fromkeys(("responses", "responses_helper", "async_responses"), ("Hello", "response.completed")),
    },
    wholes={
        **dict.fromkeys(("chat_whole", "async_chat_whole", "completions_whole"), ("Hello", "stop")),
        "responses_whole": ("Hello", "completed"),
        "embeddings": ("[1.0]", None),
    },
    lists=("models",),
)
OLLAMA = Library(
    "ollama",
    streams=dict.fromkeys(("chat", "async_chat", "generate"), ("Hello", "stop")),
    wholes={**dict.fromkeys(("chat_whole", "generate_whole"), ("Hello", "stop")), "embed": ("[1.0, 2.0]", None)},
    lists=("models",),
)
LANGCHAIN = Library(
    "langchain",
    streams={
        **dict.fromkeys(("anthropic_stream", "anthropic_astream"), ("Hello there", "end_turn")),
        **dict.fromkeys(("openai_stream", "openai_astream"), ("Hello", "stop")),
        **dict.fromkeys(("openai_responses_stream", "openai_responses_astream"), ("Hello", "completed")),
        # It has Ollama stream whatever is asked of it.
        **{f"ollama_{way}": ("Hello", "stop") for way in ("stream", "astream", "invoke", "ainvoke")},
    },
    wholes={
        **dict.fromkeys(("anthropic_invoke", "anthropic_ainvoke"), ("Hello there", "end_turn")),
        **dict.fromkeys(("openai_invoke", "openai_ainvoke"), ("Hello", "stop")),
        **dict.fromkeys(("openai_responses_invoke", "openai_responses_ainvoke"), ("Hello", "completed")),
        "openai_vectors_embed": ("[1.0]", None),
        "ollama_vectors_embed": ("[1.0, 2.0]", None),
    },
)
PROVIDERS = {"anthropic": "Hello there", "openai": "Hello", "ollama": "Hello", "ollama_chat": "Hello"}
LITELLM = Library(
    "litellm",
    streams={
        f"{provider}_{way}": (text, "stop") for provider, text in PROVIDERS.items() for way in ("stream", "astream")
    },
    wholes={f"{provider}_whole": (text, "stop") for provider, text in PROVIDERS.items()},
)
PLAIN = Library(
    "plain",
    streams=dict.fromkeys(("httpx_stream", "requests_stream", "aiohttp_stream"), ("Hello there", "message_stop")),
    wholes=dict.fromkeys(("httpx_whole", "requests_whole", "aiohttp_whole", "urllib_whole"), ("Hello", "stop")),
)

QUICK = {"anthropic": ANTHROPIC, "anthropic-0.76": ANTHROPIC, "openai": OPENAI}
SLOW = {
    "anthropic-1.0": ANTHROPIC,
    "openai-1.109": OPENAI,
    "ollama": OLLAMA,
    "langchain": LANGCHAIN,
    "litellm": LITELLM,
    "plain": PLAIN,
}
LIBRARIES = QUICK | SLOW

IN_FOLDERS = {name: name for name in ("anthropic-0.76", "anthropic-1.0", "openai-1.109", "langchain", "litellm")} | {
    "plain": "litellm"
}
"""LiteLLM brings requests and aiohttp."""

OFFLINE = {"HTTPS_PROXY": "http://127.0.0.1:9", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
"""Nothing leaves this machine, whatever a library looks for by itself."""


def probe_of(name: str) -> Probe:
    library = LIBRARIES[name]
    options, environ = ["-W", "ignore"], OFFLINE
    if name in IN_FOLDERS:
        folder = FOLDERS / IN_FOLDERS[name]
        assert folder.is_dir(), f"{folder} is not there: run `make clients`"
        options, environ = [*options, "-S"], {**OFFLINE, "PYTHONPATH": str(folder)}
    program = Path(__file__).parent / "py" / f"probe_{library.program}.py"
    command = [sys.executable, *options, str(program)]
    return Probe(name, command, list(library.streams), list(library.wholes), library.lists, environ)


def asked(names: Sequence[str], folder: Path) -> list[Call]:
    async def ask() -> list[Call]:
        async with Stage(folder) as stage:
            return await stage.run([probe_of(name) for name in names])

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(ask())


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> list[Call]:
    return asked(list(QUICK), tmp_path_factory.mktemp("quick"))


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> list[Call]:
    return asked(list(SLOW), tmp_path_factory.mktemp("slow"))


@dataclass(frozen=True)
class Account:
    """What came of one client's calls."""

    name: str
    library: Library
    calls: list[Call]

    def at(self, place: str) -> dict[str, Call]:
        """By mode; all that it has there."""
        found = {call.mode: call for call in self.calls if call.place == place and call.mode not in self.library.lists}
        assert set(found) == set(self.library.streams) | (set() if place == "broken" else set(self.library.wholes))
        return found


@pytest.fixture(params=[*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def account(request: pytest.FixtureRequest) -> Account:
    calls: list[Call] = request.getfixturevalue("quick" if request.param in QUICK else "slow")
    mine = [call for call in calls if call.probe == request.param]
    return Account(request.param, LIBRARIES[request.param], mine)


def assert_whole(account: Account, calls: Mapping[str, Call]) -> None:
    got = {mode: (call.told.get("text"), call.told.get("last"), call.told.get("error")) for mode, call in calls.items()}
    said = {**account.library.streams, **account.library.wholes}
    assert got == {mode: (*said[mode], None) for mode in calls}
    assert {mode: call.outcomes for mode, call in calls.items()} == dict.fromkeys(calls, ("completed",))


def assert_failed(account: Account, call: Call, code: str) -> None:
    assert typed(account, call.mode) in call.told.get("bases", ()), call
    assert f"({code})" in call.told.get("message", ""), call
    assert call.outcomes == (code.lower(),), call


def typed(account: Account, mode: str) -> str:
    """The class of this client's errors about an answer."""
    if account.library is PLAIN:
        return "Refused"
    by_ollama = account.library is OLLAMA or (account.library is LANGCHAIN and mode.startswith("ollama"))
    return "ResponseError" if by_ollama else "APIError"


def test_with_a_free_slot_it_gets_the_whole_text(account: Account) -> None:
    assert_whole(account, account.at("free"))


def test_who_waits_for_seconds_gets_the_whole_text_by_one_request(account: Account) -> None:
    """Through heartbeats and several queue frames."""
    patient = account.at("patient")
    assert_whole(account, patient)
    assert {mode: call.waited_ms for mode, call in patient.items() if min(call.waited_ms) < WAIT_SECONDS * 1000} == {}


def test_queue_full_raises_a_typed_error_after_one_request(account: Account) -> None:
    for mode, call in account.at("full").items():
        assert_failed(account, call, "QUEUE_FULL")
        # LiteLLM makes its own status of Anthropic's overloaded_error.
        status = 500 if account.library is LITELLM and mode.startswith("anthropic") else 503
        assert call.told.get("status") == status, call


def test_queue_timeout_raises_a_typed_error_after_one_request(account: Account) -> None:
    """In an open stream, and as a status where there is no stream."""
    for mode, call in account.at("late").items():
        assert_failed(account, call, "QUEUE_TIMEOUT")
        assert mode in account.library.streams or call.told.get("status") == 504, call


def test_a_stream_that_breaks_off_raises_and_is_not_taken_for_a_whole_text(account: Account) -> None:
    for call in account.at("broken").values():
        assert_failed(account, call, "UPSTREAM_ERROR")


def test_it_can_list_the_models(account: Account) -> None:
    """And look at one."""
    told = [(call.told.get("text"), call.told.get("listed")) for call in account.calls if call.mode == "models"]
    assert told == [(LISTED, [LISTED])] * len(account.library.lists)
