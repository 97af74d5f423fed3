"""What a llama-server, or a router of several, is asked for its slots, and when it is not asked."""

import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from llmgate.core.work import Look, Work
from llmgate.errors import UpstreamDown, UpstreamFailed
from llmgate.protocols.speech import Speech
from llmgate.upstreams.slot_source import REFUSED_SECONDS, NotToldError, SlotSource

if TYPE_CHECKING:
    from llmgate.upstreams.upstream import Upstream

NO_MODEL = 400, b'{"error":{"code":400,"message":"model name is missing from the request"}}'


class Told:
    """Stands for an Upstream: answers each path as the test says."""

    def __init__(self, **answers: tuple[int, bytes]) -> None:
        self.speech = Speech("llama-server")
        self.answers = {f"/{path}".encode(): answer for path, answer in answers.items()}
        self.asked: list[bytes] = []

    async def ask(self, path: bytes, **_: Any) -> tuple[int, bytes]:
        self.asked.append(path)
        return self.answers[path]


def slots(*slots: dict[str, Any]) -> tuple[int, bytes]:
    return 200, json.dumps(slots).encode()


def models(**status: str) -> tuple[int, bytes]:
    listed = [{"id": name, "status": {"value": value}} for name, value in status.items()]
    return 200, json.dumps({"data": listed}).encode()


def source_of(told: Told, now: float = 5.0) -> SlotSource:
    return SlotSource(cast("Upstream", told), lambda: now)


def router(**status: str) -> Told:
    told = Told(slots=NO_MODEL)
    told.answers[b"/v1/models"] = models(**status)
    return told


BUSY = {"id": 0, "is_processing": True, "id_task": 4, "n_prompt_tokens_processed": 9, "next_token": [{"n_decoded": 2}]}
IDLE = {"id": 1, "is_processing": False, "id_task": 3}


async def test_a_look_at_the_busy_ones():
    assert await source_of(Told(slots=slots(BUSY, IDLE))).look() == Look(5.0, {("", 0): Work(4, 9, 2)})


async def test_slots_without_a_number_are_told_apart():
    look = await source_of(Told(slots=slots({"is_processing": True}, {"is_processing": True}))).look()
    assert len(look.busy) == 2


@pytest.mark.parametrize(
    "answer", [(404, b"{}"), (501, b""), (503, b"<html>"), (200, b"{}"), (401, b"{}"), (400, b'{"error":"bad"}')]
)
async def test_one_that_does_not_tell_is_left_alone_for_a_while(answer: tuple[int, bytes]):
    told = Told(slots=answer)
    now = 5.0
    source = SlotSource(cast("Upstream", told), lambda: now)
    with pytest.raises(NotToldError):
        await source.ask()
    assert not source.tells
    now += REFUSED_SECONDS
    assert source.tells
    with pytest.raises(NotToldError):
        await source.ask()
    source.forget()
    assert source.tells


AWAY = [(502, b"<html>Bad Gateway</html>"), (503, b'{"error":{"message":"Loading model"}}')]


@pytest.mark.parametrize("answer", AWAY)
async def test_one_that_is_not_there_has_no_busy_slots(answer: tuple[int, bytes]):
    source = source_of(Told(slots=answer))
    with pytest.raises(UpstreamDown):
        await source.ask()
    assert source.tells


def test_other_kinds_are_not_asked():
    told = Told()
    told.speech.kind = "vllm"
    assert not source_of(told).tells


async def test_a_router_has_the_slots_of_the_models_that_it_has_loaded():
    told = router(a="loaded", b="unloaded", c="loaded")
    told.answers[b"/slots?model=a&autoload=false"] = slots(BUSY, IDLE)
    told.answers[b"/slots?model=c&autoload=false"] = slots(BUSY)
    source = source_of(told)
    asked = await source.ask()
    assert [(slot.model, slot.is_processing) for slot in asked] == [("a", True), ("a", False), ("c", True)]
    assert len({slot.task for slot in asked if slot.is_processing}) == 2
    assert set((await source.look()).busy) == {("a", 0), ("c", 0)}
    assert all(b"autoload=false" in path for path in told.asked if b"model=" in path)


async def test_a_router_that_has_loaded_nothing_is_idle():
    assert await source_of(router(a="unloaded")).ask() == []


async def test_while_a_router_loads_it_is_asked_again_later():
    source = source_of(router(a="loaded", b="loading"))
    with pytest.raises(UpstreamFailed):
        await source.ask()
    assert source.tells


async def test_a_router_whose_model_went_meanwhile_does_not_tell():
    told = router(a="loaded")
    told.answers[b"/slots?model=a&autoload=false"] = (400, b'{"error":{"message":"model is not loaded"}}')
    with pytest.raises(NotToldError):
        await source_of(told).ask()


@pytest.mark.parametrize("answer", [(200, b'{"is_sleeping":true}'), (200, b"{}"), (404, b'{"is_sleeping":true}')])
async def test_whether_it_sleeps(answer: tuple[int, bytes]):
    told = Told(props=answer)
    assert await source_of(told).is_asleep() is (answer == (200, b'{"is_sleeping":true}'))
    assert told.asked == [b"/props"]
