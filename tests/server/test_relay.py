"""A stream on its way from upstream to client: order, back-pressure, the last piece, and every way it may end."""

import logging
from typing import Any

import pytest
from hands import ANSWER, START, STOP, delta
from hypothesis import given
from hypothesis import strategies as st
from virtual_loop import run

from llmgate.core.caller import Caller
from llmgate.errors import GateError, UpstreamFailed
from llmgate.protocols.surfaces import SURFACES
from llmgate.server.relay import Relay
from llmgate.server.reply import Reply
from llmgate.telemetry.ledger import Record
from tests.server.test_reply import Client

FAILED = b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"no"}}\n\n'


class FakeAnswer:
    """Pushes what a test says; notes what it is asked for."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: list[tuple[bytes, bytes]] = []
        self.ended = False
        self.told: list[str] = []

    def start(self, _: Any) -> None:
        raise NotImplementedError

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> None:
        self.told.append("resume")

    def close(self) -> None:
        self.told.append("close")

    async def read(self, _: int) -> bytes:
        raise NotImplementedError


class Scene:
    def __init__(self) -> None:
        self.client = Client()
        self.reply = Reply(self.client.send, None)
        self.reply.start(200, [])
        self.answer = FakeAnswer()
        self.record = Record("reasoning", Caller(id="req_1"), 0.0)
        self.begun = self.told = 0
        self.watch = SURFACES["/v1/messages"].watch()
        self.relay = Relay(self.answer, self.reply, self.watch, self.record, self.on_first, self.on_told)

    def on_first(self) -> None:
        self.begun += 1

    def on_told(self) -> None:
        self.told += 1

    def last(self, data: bytes) -> bool:
        """The last piece and the word that the message has ended; what the relay says to it."""
        self.answer.ended = True
        if data:
            self.relay.feed(data)
        return self.relay.take_end()


@pytest.fixture
async def scene() -> Scene:
    return Scene()


async def test_whole_events_pass_at_once_and_others_when_they_are_whole(scene: Scene) -> None:
    scene.relay.feed(START + delta("a")[:10])
    assert scene.client.body == START
    scene.relay.feed(delta("a")[10:])
    assert scene.client.body == START + delta("a")
    assert scene.answer.told == []


async def test_the_first_event_is_told_once(scene: Scene) -> None:
    scene.relay.feed(b": only a comment\n\n")
    assert (scene.begun, scene.record.first_byte_at) == (0, None)
    scene.relay.feed(START)
    began = scene.record.first_byte_at
    assert (scene.begun, began is not None) == (1, True)
    scene.relay.feed(delta("a") + delta("b"))
    assert (scene.begun, scene.record.first_byte_at, scene.record.output_tokens) == (1, began, 2)


async def test_it_needs_no_record() -> None:
    scene = Scene()
    relay = Relay(scene.answer, scene.reply, SURFACES["/v1/messages"].watch(), None, scene.on_first)
    relay.feed(START)
    assert (scene.client.body, scene.begun) == (START, 1)


async def test_a_slow_client_pauses_the_upstream_until_it_has_everything(scene: Scene) -> None:
    scene.client.slow = True
    scene.relay.feed(START)
    assert scene.answer.told == ["pause"]
    scene.relay.feed(delta("read before the pause"))
    await scene.client.take()
    assert "resume" not in scene.answer.told
    scene.client.slow = False
    await scene.client.take()
    assert scene.answer.told[-1] == "resume"
    assert scene.client.body == START + delta("read before the pause")
    scene.relay.feed(delta("b"))
    assert scene.answer.told[-1] == "resume"


async def test_the_last_piece_waits_for_the_end(scene: Scene) -> None:
    scene.relay.feed(START)
    assert scene.last(STOP)
    assert scene.client.body == START
    assert not scene.reply.finished
    scene.relay.end(None)
    assert scene.client.body == START + STOP
    assert scene.client.is_ended
    assert await scene.relay.wait_over() is None


async def test_the_last_blank_line_may_be_left_out(scene: Scene) -> None:
    scene.relay.feed(START)
    assert scene.last(STOP.removesuffix(b"\n"))
    scene.relay.end(None)
    assert scene.client.body == START + STOP


async def test_a_message_that_ends_without_a_last_piece(scene: Scene) -> None:
    scene.relay.feed(ANSWER)
    assert scene.last(b"")
    scene.relay.end(None)
    assert (scene.client.body, scene.client.is_ended) == (ANSWER, True)


async def test_a_stream_without_its_end_is_not_finished(scene: Scene) -> None:
    scene.relay.feed(START)
    assert not scene.last(delta("a") + b"event: half")
    scene.relay.end(None)
    assert scene.client.body == START + delta("a")
    assert not scene.reply.finished
    assert await scene.relay.wait_over() is None


async def test_what_broke_it_off_is_told(scene: Scene) -> None:
    error = UpstreamFailed("llmgate: gone")
    scene.relay.feed(START)
    scene.relay.end(error)
    assert await scene.relay.wait_over() is error
    assert not scene.reply.finished


@pytest.mark.parametrize("last", [STOP, FAILED], ids=["complete", "failed"])
async def test_broken_off_after_its_own_end_it_is_finished(scene: Scene, last: bytes) -> None:
    scene.relay.feed(START + last)
    scene.relay.end(UpstreamFailed("llmgate: gone"))
    assert (scene.client.body, scene.client.is_ended) == (START + last, True)


async def test_inside_an_endless_event_nothing_is_finished(scene: Scene) -> None:
    scene.relay.feed(START)
    scene.relay.feed(b"data: " + b"x" * (2 << 20))
    assert scene.watch.inside_event
    assert not scene.last(b"")
    scene.relay.end(None)
    assert not scene.reply.finished


# ---- a stream that told its end in a message that goes on


@pytest.mark.parametrize("end", [STOP, FAILED, b'data: {"error":"m"}\n\n'], ids=["complete", "failed", "foreign"])
async def test_an_end_before_the_end_of_the_message_is_told_once(scene: Scene, end: bytes) -> None:
    scene.relay.feed(START)
    assert scene.told == 0
    scene.relay.feed(end)
    scene.relay.feed(delta("more"))
    assert scene.told == 1
    assert not scene.reply.finished


async def test_an_end_with_the_end_of_the_message_is_not_told(scene: Scene) -> None:
    scene.relay.feed(START)
    assert scene.last(STOP)
    assert scene.told == 0


async def test_given_up_the_message_is_cut_and_the_client_has_its_end(scene: Scene) -> None:
    scene.relay.feed(ANSWER)
    scene.relay.give_up()
    assert (scene.client.body, scene.client.is_ended) == (ANSWER, True)
    assert scene.answer.told[-1] == "close"
    assert await scene.relay.wait_over() is None


@pytest.mark.parametrize("more", [delta("late"), b"data: " + b"x" * (2 << 20)])
@pytest.mark.parametrize("at_once", [True, False])
async def test_what_comes_behind_the_end_is_not_passed_on(scene: Scene, more: bytes, at_once: bool) -> None:
    for piece in [ANSWER + more] if at_once else [ANSWER, more]:
        scene.relay.feed(piece)
    assert not scene.watch.inside_event
    scene.relay.give_up()
    assert scene.reply.finished
    assert scene.client.body == ANSWER
    assert await scene.relay.wait_over() is None


async def test_there_is_nothing_to_give_up_when_it_is_over(scene: Scene) -> None:
    scene.relay.feed(START)
    scene.last(STOP)
    scene.relay.give_up()
    assert not scene.reply.finished, "the slot goes first"
    scene.relay.end(None)
    scene.answer.ended = False
    scene.relay.give_up()
    assert "close" not in scene.answer.told


async def test_the_end_of_the_message_waits_for_no_slow_client(scene: Scene) -> None:
    scene.client.slow = True
    scene.relay.feed(START)
    scene.relay.feed(STOP)
    assert scene.answer.told == ["pause", "resume"]
    scene.relay.feed(delta("more"))
    assert scene.answer.told[-1] == "pause"


# ---- faults of ours: the transport must not see them


def break_watch(scene: Scene, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def fail(*_: object) -> bytes:
        raise ZeroDivisionError

    monkeypatch.setattr(type(scene.watch), name, fail)


async def check_internal(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    error = await scene.relay.wait_over()
    assert isinstance(error, GateError)
    assert error.code == "INTERNAL"
    assert scene.answer.told[-1] == "close"
    assert not scene.reply.finished
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_a_fault_in_a_piece(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    break_watch(scene, monkeypatch, "feed")
    scene.relay.feed(START)
    await check_internal(scene, caplog)


async def test_a_fault_in_the_last_piece(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scene.relay.feed(START)
    break_watch(scene, monkeypatch, "feed")
    assert not scene.last(STOP)
    await check_internal(scene, caplog)


async def test_a_fault_at_the_end(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    break_watch(scene, monkeypatch, "finish")
    assert not scene.last(ANSWER)
    assert not scene.relay.is_told, "its last piece never went out"
    await check_internal(scene, caplog)


async def test_an_end_that_cannot_be_sent_is_an_end_all_the_same(scene: Scene) -> None:
    scene.relay.feed(START)
    scene.last(STOP)
    scene.client.error = RuntimeError()
    with pytest.raises(RuntimeError):
        scene.relay.end(None)
    assert await scene.relay.wait_over() is None


@given(st.data())
def test_any_pieces_at_any_pace_come_out_as_they_are(data: st.DataObject) -> None:
    """Nothing is fed while the upstream is paused, but for what one read has brought already."""
    cuts = sorted(data.draw(st.sets(st.integers(1, len(ANSWER) - 1), max_size=12)))
    pieces = [ANSWER[start:end] for start, end in zip([0, *cuts], [*cuts, len(ANSWER)], strict=True)]

    async def main() -> None:
        scene = Scene()
        for number, piece in enumerate(pieces):
            scene.client.slow = data.draw(st.booleans())
            if number == len(pieces) - 1:
                assert scene.last(piece)
            else:
                scene.relay.feed(piece)
            held = len(scene.reply._backlog or ())
            assert held <= 1
            if scene.reply.blocked:
                assert scene.answer.told[-1] == "pause"
                scene.client.slow = False
                await scene.client.take()
            assert not scene.reply.blocked
            assert scene.answer.told.count("pause") == scene.answer.told.count("resume")
        scene.relay.end(None)
        if scene.reply.blocked:
            await scene.client.take()
        assert (scene.client.body, scene.client.is_ended) == (ANSWER, True)

    run(main())
