"""Cells of the overview's tables."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.adminapi import UpstreamView
from llmgate.tui.cells import Span, width_of
from llmgate.tui.columns import Frame
from llmgate.tui.model import Lane, Model
from llmgate.tui.tables import (
    SLOTS_WIDTH,
    WAIT_WIDTH,
    Waiter,
    first_byte,
    has_waited,
    left,
    oldest,
    ran,
    session,
    slots,
    speed,
    state,
    tokens,
    wait_and_limit,
    waited,
    waited_style,
)


@pytest.fixture
def frame(sample: Any) -> Frame:
    model = Model()
    model.apply(sample.snapshot([sample.upstream("a")]), 1.0)
    return Frame(model.view(1.0))


EMPTY = Frame(Model().view(0.0))
PLAIN = Frame(Model().view(0.0), ascii=True)


def upstream(**fields: Any) -> UpstreamView:
    return UpstreamView(**{"name": "a", "state": "ok", "url": "", "max_concurrent": 1} | fields)


class TestSlots:
    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({"running": 1}, "▰ 1/1"),
            ({}, "▱ 0/1"),
            ({"max_concurrent": 8, "running": 7}, "▰▰▰▰▰▰▰▱ 7/8"),
            ({"max_concurrent": 8, "running": 6, "draining": 1}, "▰▰▰▰▰▰▰▱ 6+1/8"),
            ({"max_concurrent": 64, "running": 63}, "▰▰▰▰▰▰▰▱ 63/64"),
            ({"max_concurrent": 64, "running": 64}, "▰▰▰▰▰▰▰▰ 64/64"),
            ({"max_concurrent": 64, "running": 1}, "▰▱▱▱▱▱▱▱ 1/64"),
            ({"max_concurrent": 0, "running": 3}, "3 not gated"),
        ],
    )
    def test_examples(self, fields: dict[str, int], text: str) -> None:
        assert slots(upstream(**fields), EMPTY).text == text

    def test_ascii(self) -> None:
        assert slots(upstream(max_concurrent=3, running=1), PLAIN).text == "#.. 1/3"

    @given(st.integers(0, 9999), st.integers(1, 9999), st.integers(0, 99))
    def test_never_wider_than_its_column(self, running: int, slots_there: int, draining: int) -> None:
        text = slots(upstream(running=running, max_concurrent=slots_there, draining=draining), EMPTY).text
        assert width_of(text) <= SLOTS_WIDTH
        assert text.endswith(f"/{slots_there}")


class TestWaiting:
    @pytest.mark.parametrize(
        ("waiting", "limit", "text"),
        [(3, 16, "3/16"), (0, None, "0/∞"), (9999, 10_000, "9k/10k"), (5, 20_000_000, "5/20M")],
    )
    def test_examples(self, waiting: int, limit: int | None, text: str) -> None:
        assert wait_and_limit(upstream(waiting=waiting, max_queued=limit), EMPTY).text == text

    @given(st.integers(0, 10**6), st.none() | st.integers(0, 10**6))
    def test_never_wider_than_its_column(self, waiting: int, limit: int | None) -> None:
        assert len(wait_and_limit(upstream(waiting=waiting, max_queued=limit), EMPTY).text) <= WAIT_WIDTH + 1

    @pytest.mark.parametrize(
        ("ms", "timeout", "style"),
        [(49, 100, ""), (50, 100, "amber"), (79, 100, "amber"), (80, 100, "bad"), (10**9, None, ""), (5, 0, "")],
    )
    def test_its_age_turns_amber_and_red(self, ms: int, timeout: int | None, style: str) -> None:
        assert waited_style(ms, timeout) == style

    def test_oldest(self, sample: Any, frame: Frame) -> None:
        assert oldest(Lane(upstream()), frame).text == "-"
        found = oldest(Lane(upstream(oldest_arrived_ms=sample.NOW - 41_000, queue_timeout_ms=50_000)), frame)
        assert found == Span("0:41", "bad")

    def test_a_waiter(self, sample: Any, frame: Frame) -> None:
        request = sample.request("q", "a", arrived_ms=sample.NOW - 41_000, deadline_ms=sample.NOW + 9_000)
        assert waited(Waiter(1, request, upstream()), frame) == Span("0:41", "bad")
        assert left(Waiter(1, request, upstream()), frame).text == "0:09"
        patient = sample.request("q", "a", arrived_ms=sample.NOW - 41_000)
        assert waited(Waiter(1, patient, upstream()), frame) == Span("0:41")
        assert left(Waiter(1, patient, upstream()), frame).text == "-"


class TestRunning:
    def test_one(self, sample: Any, frame: Frame) -> None:
        now = sample.NOW
        request = sample.request(
            "q", "a", state="running", arrived_ms=now - 15_100, dispatched_ms=now - 9_400, first_byte_ms=now - 9_000,
            output_tokens=371,
        )  # fmt: skip
        texts = [cell(request, frame).text for cell in (ran, has_waited, first_byte, tokens, speed)]
        assert texts == ["0:09", "5.7s", "0.4s", "371", "41.2"]

    def test_one_without_an_answer(self, sample: Any, frame: Frame) -> None:
        request = sample.request("q", "a", state="running", dispatched_ms=sample.NOW, arrived_ms=sample.NOW)
        texts = [cell(request, frame).text for cell in (ran, has_waited, first_byte, tokens, speed)]
        assert texts == ["0:00", "0.0s", "-", "-", "-"]

    def test_one_of_which_nothing_is_known(self, sample: Any, frame: Frame) -> None:
        request = sample.request("q", "a", state="running", output_tokens=3, first_byte_ms=sample.NOW)
        texts = [cell(request, frame).text for cell in (ran, has_waited, first_byte, speed)]
        assert texts == ["-", "-", "-", "-"]

    def test_draining_has_its_word(self, sample: Any, frame: Frame) -> None:
        assert speed(sample.request("q", "a", state="draining"), frame).text == "draining"


def test_a_session_keeps_both_ends(sample: Any) -> None:
    assert session(sample.request("q", "a", session="a3f9c0d1-77c1"), EMPTY).text == "a3f9..c1"
    assert session(sample.request("q", "a", session="\x1b\x1b"), EMPTY).text == "??"
    assert session(sample.request("q", "a"), EMPTY).text == "-"


def test_down_is_loud_and_every_state_has_its_word() -> None:
    words = {word: state(Lane(upstream(state=word)), EMPTY).text for word in ("idle", "ok", "full", "down", "later")}
    assert words == {"idle": "idle", "ok": "ok", "full": "full", "down": "DOWN", "later": "later"}
