"""Servers that are not there, break off or are slow: a status while nothing is out, a closed connection afterwards."""

import pytest

from llmgate.core.events import Requeued
from llmgate.server.sending import MOST_LOADINGS
from tests.server.holding import LOADING
from tests.server.house import UPSTREAM
from tests.server.passing import (
    BOTH,
    GATED,
    LAST,
    STOPPING,
    UNGATED,
    PassStage,
    after_the_head,
    before_the_head,
    blocked,
    connecting,
    streaming,
)
from tests.server.stage import pass_time, play, settle


class TestServerFaults:
    @BOTH
    def test_broken_off_after_its_head_the_connection_is_closed(self, method: str) -> None:
        async def main() -> None:
            for state in (after_the_head, streaming, blocked):
                stage = PassStage()
                wire = await state(stage, method)
                stage.calls[0].lose()
                await settle()
                assert wire.aborted
                assert not wire.answer.ended
                assert b"llmgate: " not in wire.received
                assert stage.outcomes == (["upstream_error"] if method == GATED else [])
                stage.check_over()

        play(main())

    @BOTH
    def test_no_connection_is_a_503(self, method: str) -> None:
        async def main() -> None:
            stage = PassStage()
            wire = await connecting(stage, method)
            stage.calls[0].refuse()
            await settle()
            assert (wire.answer.status, wire.answer.headers["llmgate-code"]) == (503, "UPSTREAM_DOWN")
            assert stage.outcomes == (["upstream_down"] if method == GATED else [])
            stage.check_over()

        play(main())

    @BOTH
    def test_closed_before_its_head_is_a_502(self, method: str) -> None:
        async def main() -> None:
            stage = PassStage()
            wire = await before_the_head(stage, method)
            stage.calls[0].lose()
            await settle()
            assert (wire.answer.status, wire.answer.headers["llmgate-code"]) == (502, "UPSTREAM_ERROR")
            stage.check_over()

        play(main())

    @BOTH
    def test_too_slow_it_is_a_504_or_cut_off(self, method: str) -> None:
        async def main() -> None:
            for state in (before_the_head, streaming):
                stage = PassStage(upstream={"first_byte_timeout": 3, "idle_timeout": 2})
                wire = await state(stage, method)
                await pass_time(1.9)
                assert not wire.gone
                await pass_time(1.2)
                if state is streaming:
                    assert wire.aborted
                else:
                    assert (wire.answer.status, wire.answer.headers["llmgate-code"]) == (504, "UPSTREAM_TIMEOUT")
                assert stage.outcomes == (["upstream_timeout"] if method == GATED else [])
                await pass_time(1)
                stage.check_over()

        play(main())

    @pytest.mark.parametrize("is_told_first", [False, True])
    def test_where_it_is_held_it_waits_until_its_server_is_back(self, is_told_first: bool) -> None:
        """In silence, in its old place, and nothing of it was sent before."""

        async def main() -> None:
            stage = PassStage(upstream={"on_down": "hold"})
            wire = await connecting(stage, GATED)
            other = stage.pass_on()
            stage.calls[0].refuse(is_told_first=is_told_first)
            await pass_time(100)
            assert (stage.taken, wire.received, stage.outcomes) == ((2, 0, 0), b"", [])
            assert not stage.gate.is_up(UPSTREAM)
            stage.services.admission.set_endpoint(UPSTREAM, UPSTREAM, up=True)
            await settle()
            assert (stage.taken, len(stage.calls)) == ((1, 1, 0), 2)
            for call, one in ((1, wire), (2, other)):
                await stage.begin(stage.calls[call])
                stage.calls[call].end(LAST)
                await settle()
                assert one.answer.is_whole
            assert stage.outcomes == ["completed", "completed"]
            stage.check_over()

        play(main())

    def test_who_is_stopped_does_not_go_back_into_the_line(self) -> None:
        async def main() -> None:
            stage = PassStage(upstream={"on_down": "hold"})
            wire = await connecting(stage, GATED)
            stage.passage_of(wire).stop(STOPPING)
            stage.calls[0].refuse(is_told_first=True)
            await settle()
            assert (stage.taken, stage.outcomes) == ((0, 0, 0), ["refused"])
            assert not any(isinstance(event, Requeued) for event in stage.events)
            assert wire.answer.headers["llmgate-code"] == "REFUSED"
            stage.check_over()

        play(main())

    @pytest.mark.parametrize("is_there_again", [False, True])
    def test_held_once_it_may_fail_all_the_same(self, is_there_again: bool) -> None:
        async def main() -> None:
            stage = PassStage(upstream={"on_down": "hold"})
            wire = await connecting(stage, GATED)
            stage.calls[0].refuse()
            await settle()
            stage.services.admission.set_endpoint(UPSTREAM, UPSTREAM, up=True)
            await settle()
            if is_there_again:
                stage.calls[1].connect()
                await settle()
                stage.calls[1].lose()
                await settle()
                assert (wire.answer.status, wire.answer.headers["llmgate-code"]) == (502, "UPSTREAM_ERROR")
            else:
                stage.calls[1].refuse()
                await settle()
                assert (stage.taken, wire.received) == ((1, 0, 0), b"")
                wire.leave()
                await settle()
            assert stage.outcomes == ["upstream_error" if is_there_again else "abandoned"]
            await pass_time(0.03)
            stage.check_over()

        play(main())

    def test_a_length_beside_chunks_is_not_passed_on(self) -> None:
        """RFC 9112 6.3: the chunks count."""

        async def main() -> None:
            stage = PassStage()
            wire = stage.pass_on()
            await settle()
            await stage.begin(stage.calls[0], [(b"content-length", b"99"), (b"transfer-encoding", b"chunked")])
            stage.calls[0].end(LAST)
            await settle()
            assert (wire.answer.body, wire.answer.is_whole) == (LAST, True)
            assert "content-length" not in wire.answer.headers
            stage.check_over()

        play(main())

    def test_held_for_too_long_it_is_told_so(self) -> None:
        async def main() -> None:
            stage = PassStage(upstream={"on_down": "hold", "queue_timeout_nonstream": 30})
            wire = await connecting(stage, GATED)
            stage.calls[0].refuse()
            await pass_time(29)
            assert wire.received == b""
            await pass_time(2)
            assert (wire.answer.status, wire.answer.headers["llmgate-code"]) == (504, "QUEUE_TIMEOUT")
            stage.check_over()

        play(main())

    def test_what_goes_straight_through_is_not_held(self) -> None:
        async def main() -> None:
            stage = PassStage(upstream={"on_down": "hold"})
            wire = await connecting(stage, UNGATED)
            stage.calls[0].refuse()
            await settle()
            assert (wire.answer.status, wire.answer.headers["llmgate-code"]) == (503, "UPSTREAM_DOWN")
            stage.check_over()

        play(main())

    @pytest.mark.parametrize(("status", "up"), [(200, True), (500, True), (503, False)])
    def test_an_answer_says_that_its_server_is_there(self, status: int, up: bool) -> None:
        """A 503 may as well say that it loads its model; it passes as it is."""

        async def main() -> None:
            stage = PassStage()
            await before_the_head(stage, GATED)
            stage.services.admission.set_endpoint(UPSTREAM, UPSTREAM, up=False)
            stage.calls[0].head(status, [])
            await settle()
            assert stage.gate.is_up(UPSTREAM) == up
            stage.calls[0].end(LAST)
            await settle()
            stage.services.admission.set_endpoint(UPSTREAM, UPSTREAM, up=True)
            stage.check_over()

        play(main())

    @pytest.mark.parametrize(
        ("method", "content_type", "counts"),
        [(GATED, b"text/event-stream; x", True), (GATED, b"text/plain", False), (UNGATED, b"text/event-stream", False)],
    )
    def test_a_stream_of_events_has_one_of_the_servers_slots(
        self, method: str, content_type: bytes, counts: bool
    ) -> None:
        async def main() -> None:
            stage = PassStage()
            traffic = stage.services.upstreams[UPSTREAM].traffic
            await before_the_head(stage, method)
            assert (traffic.with_head(), traffic.oldest_without_head()) == (frozenset(), None)
            stage.calls[0].head(200, [(b"content-type", content_type)])
            await settle()
            assert (len(traffic.with_head()), traffic.oldest_without_head()) == (counts, None)
            stage.calls[0].end(LAST)
            await settle()
            assert traffic.with_head() == frozenset()
            stage.check_over()

        play(main())

    @pytest.mark.parametrize("status", [600, 999])
    def test_a_status_that_http_does_not_have_is_a_502(self, status: int) -> None:
        async def main() -> None:
            stage = PassStage()
            wire = stage.pass_on()
            await settle()
            await stage.begin(stage.calls[0], status=status)
            assert (wire.answer.status, stage.outcomes) == (502, ["upstream_error"])
            await pass_time(0.03)
            stage.check_over()

        play(main())

    @pytest.mark.parametrize(
        ("status", "outcome"),
        [
            (200, "completed"),
            (201, "completed"),
            (307, "completed"),
            (400, "completed"),
            (404, "completed"),
            (429, "upstream_error"),
            (500, "upstream_error"),
            (503, "upstream_error"),
        ],
    )
    def test_its_own_status_passes_and_says_how_it_ended(self, status: int, outcome: str) -> None:
        async def main() -> None:
            stage = PassStage()
            wire = stage.pass_on()
            await settle()
            await stage.begin(stage.calls[0], status=status)
            stage.calls[0].end(LAST)
            await settle()
            assert (wire.answer.status, wire.answer.body, stage.outcomes) == (status, LAST, [outcome])
            stage.check_over()

        play(main())


LOADS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(LOADING))]


class TestLoading:
    """A server that says that it loads its model has begun nothing."""

    def test_where_it_is_held_it_waits_and_is_sent_again(self) -> None:
        async def main() -> None:
            stage = PassStage(upstream={"on_down": "hold"})
            wire = stage.pass_on(body=b"all of it")
            await settle()
            await stage.begin(stage.calls[0], LOADS, 503)
            stage.calls[0].end(LOADING)
            await settle()
            assert (stage.taken, wire.received, stage.gate.is_up(UPSTREAM)) == ((1, 0, 0), b"", False)
            stage.services.admission.set_endpoint(UPSTREAM, UPSTREAM, up=True)
            await settle()
            await stage.begin(stage.calls[1])
            stage.calls[1].end(LAST)
            await settle()
            assert stage.bodies == [b"all of it"] * 2
            assert (wire.answer.body, wire.answer.is_whole, stage.outcomes) == (LAST, True, ["completed"])
            stage.check_over()

        play(main())

    def test_one_that_says_so_again_and_again_is_believed_no_more(self) -> None:
        async def main() -> None:
            stage = PassStage(upstream={"on_down": "hold"})
            wire = stage.pass_on()
            for number in range(MOST_LOADINGS + 1):
                await settle()
                await stage.begin(stage.calls[number], LOADS, 503)
                stage.calls[number].end(LOADING)
                await settle()
                stage.services.admission.set_endpoint(UPSTREAM, UPSTREAM, up=True)
            await settle()
            assert (wire.answer.status, wire.answer.body, wire.answer.ended) == (503, LOADING, True)
            assert stage.outcomes == ["upstream_error"]
            stage.check_over()

        play(main())

    @BOTH
    def test_else_it_is_passed_on_and_nobody_else_is_sent_there(self, method: str) -> None:
        async def main() -> None:
            stage = PassStage(upstream={"on_down": "fail" if method == GATED else "hold"})
            wire = stage.pass_on(method)
            await settle()
            await stage.begin(stage.calls[0], LOADS, 503)
            stage.calls[0].end(LOADING)
            await settle()
            assert (wire.answer.status, wire.answer.body, wire.answer.ended) == (503, LOADING, True)
            assert wire.answer.headers["content-length"] == str(len(LOADING))
            assert stage.outcomes == (["upstream_error"] if method == GATED else [])
            assert not stage.gate.is_up(UPSTREAM)
            stage.check_over()

        play(main())

    @BOTH
    def test_any_other_503_passes_as_it_is(self, method: str) -> None:
        async def main() -> None:
            for said, length in ((b"busy\n", True), (LOADING, False)):
                stage = PassStage(upstream={"on_down": "hold"})
                wire = stage.pass_on(method)
                await settle()
                sized = [(b"content-length", b"%d" % len(said))] if length else [(b"transfer-encoding", b"chunked")]
                await stage.begin(stage.calls[0], sized, 503)
                stage.calls[0].end(said)
                await settle()
                assert (wire.answer.status, wire.answer.body, wire.answer.ended) == (503, said, True)
                assert stage.outcomes == (["upstream_error"] if method == GATED else [])
                assert stage.gate.is_up(UPSTREAM)
                stage.check_over()

        play(main())

    @BOTH
    @pytest.mark.parametrize("leaves", [False, True])
    def test_half_of_it_says_nothing(self, method: str, leaves: bool) -> None:
        async def main() -> None:
            stage = PassStage(upstream={"on_down": "hold"})
            wire = stage.pass_on(method)
            await settle()
            await stage.begin(stage.calls[0], LOADS, 503)
            stage.calls[0].piece(LOADING[:9])
            await settle()
            if leaves:
                wire.leave()
            else:
                stage.calls[0].lose()
            await settle()
            if not leaves:
                assert (wire.answer.status, wire.answer.headers["llmgate-code"]) == (502, "UPSTREAM_ERROR")
            assert stage.outcomes == ([] if method == UNGATED else ["client_gone" if leaves else "upstream_error"])
            await pass_time(2)
            stage.check_over()

        play(main())

    def test_who_leaves_while_it_waits_again_is_not_sent(self) -> None:
        async def main() -> None:
            stage = PassStage(upstream={"on_down": "hold"})
            wire = stage.pass_on()
            await settle()
            await stage.begin(stage.calls[0], LOADS, 503)
            stage.calls[0].end(LOADING)
            wire.leave()
            await settle()
            stage.services.admission.set_endpoint(UPSTREAM, UPSTREAM, up=True)
            await settle()
            assert len(stage.calls) == 1
            assert len(stage.outcomes) == 1
            stage.check_over()

        play(main())

    def test_a_connection_that_is_refused_to_what_goes_straight_through_is_noted(self) -> None:
        async def main() -> None:
            stage = PassStage(upstream={"on_down": "hold"})
            await connecting(stage, UNGATED)
            stage.calls[0].refuse()
            await settle()
            assert not stage.gate.is_up(UPSTREAM)
            stage.check_over()

        play(main())
