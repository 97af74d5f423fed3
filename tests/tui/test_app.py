"""The app against a scripted daemon on a real Unix socket, its pictures, and `--once`."""

import asyncio
import contextlib
import sys
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from textual.events import MouseScrollDown, MouseScrollUp, Paste

from llmgate.adminapi import FeedItem, RequestDetail, Step
from llmgate.adminclient import AsyncAdminClient
from llmgate.errors import AdminError, DaemonNotRunning
from llmgate.tui import app as app_module
from llmgate.tui import follow
from llmgate.tui.app import TopApp, first_view, run
from llmgate.tui.cells import plain
from llmgate.tui.furniture import Look
from llmgate.tui.keys import KEYS
from llmgate.tui.widgets.canvas import Canvas


def screen_text(app: TopApp) -> str:
    return "\n".join(plain(line) for line in app.screen.query_one(Canvas)._lines)


async def shows(app: TopApp, text: str) -> None:
    """Waits until the screen shows it."""
    for _ in range(3000):
        if text in screen_text(app):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"never shown: {text}\n{screen_text(app)}")


@contextlib.asynccontextmanager
async def showing(daemon: Any, acting: Any):  # type: ignore[no-untyped-def]
    app = TopApp(AsyncAdminClient(daemon.path, command="top"), acting, look=Look(zone=UTC))
    async with app.run_test(size=(80, 24)) as pilot:
        yield app, pilot


class TestLive:
    async def test_what_happens_is_shown_at_once(self, daemon: Any, sample: Any, recorder: Any) -> None:
        daemon.snapshot(sample.documented())
        await daemon.start()
        async with showing(daemon, recorder) as (app, _):
            await shows(app, "1/1              3/16")
            daemon.write(b": alive\n\n")
            happened = sample.event(101, "queued", "ha-llm", "queued (depth 4)")
            daemon.send(
                FeedItem(
                    type="event", number=101, now_ms=sample.NOW, event=happened,
                    upstream=sample.upstream("ha-llm", state="full", running=1, waiting=4),
                    request=sample.request("q-9", "ha-llm", order=9, client="late\x1b[2Jcomer"),
                )
            )  # fmt: skip
            await shows(app, "1/1              4/16")
            await shows(app, "  qwen2.5:3b-instruct   late?[2Jco…  -")
            await shows(app, "depth 4")

    async def test_lost_and_found(self, daemon: Any, sample: Any, recorder: Any) -> None:
        daemon.snapshot(sample.documented())
        await daemon.start()
        async with showing(daemon, recorder) as (app, pilot):
            await shows(app, "● live")
            await daemon.stop()
            await shows(app, "The socket file does not exist.")
            assert "What was last seen stays below." in screen_text(app)
            assert "ha-llm         full" in screen_text(app)
            daemon.snapshot(sample.snapshot([sample.upstream("fresh", served=1)], pid=8))
            await daemon.start()
            await pilot.press("r")
            await shows(app, "● live")
            await shows(app, "fresh")
            assert "ha-llm" not in screen_text(app)

    async def test_a_cut_viewer_comes_back_by_itself(
        self, daemon: Any, sample: Any, recorder: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(follow, "GOOD_SECONDS", 0.0)
        daemon.snapshot(sample.documented())
        await daemon.start()
        async with showing(daemon, recorder) as (app, _):
            await shows(app, "● live")
            daemon.snapshot(sample.snapshot([sample.upstream("second-life", served=1)]))
            daemon.cut()
            await shows(app, "second-life")
            assert daemon.came == 2

    async def test_garbage_is_said_and_tried_again(self, daemon: Any, sample: Any, recorder: Any) -> None:
        daemon.head = b"SSH-2.0-OpenSSH_9\r\n\r\n"
        await daemon.start()
        async with showing(daemon, recorder) as (app, pilot):
            await shows(app, "does not speak as llmgate does.")
            daemon.head = daemon.HEAD
            daemon.snapshot(sample.documented())
            await pilot.press("r")
            await shows(app, "● live")
            daemon.write(b"data: {nonsense\n\n")
            await shows(app, "does not speak as llmgate does.")
            assert "What was last seen stays below." in screen_text(app)

    async def test_it_waits_for_a_daemon_to_start(self, daemon: Any, sample: Any, recorder: Any) -> None:
        async with showing(daemon, recorder) as (app, pilot):
            await shows(app, "llmgate serve")
            daemon.snapshot(sample.documented())
            await daemon.start()
            await pilot.press("r")
            await shows(app, "● live")

    async def test_a_flood_of_ten_thousand_does_not_stop_the_keys(
        self, daemon: Any, sample: Any, recorder: Any
    ) -> None:
        waiting = [sample.request(f"q-{n}", "a", order=n) for n in range(10_000)]
        upstreams = [sample.upstream("a", waiting=10_000), sample.upstream("b")]
        daemon.snapshot(sample.snapshot(upstreams, waiting, number=0))
        await daemon.start()
        async with showing(daemon, recorder) as (app, pilot):
            await shows(app, "● live")
            for number in range(1, 2001):
                request = sample.request(f"q-{number}", "a", state="done")
                upstream = sample.upstream("a", waiting=10_000 - number)
                daemon.send(
                    FeedItem(type="event", number=number, now_ms=sample.NOW, upstream=upstream, request=request)
                )
                if number % 400 == 0:
                    await pilot.press("j" if number % 800 else "k")
            await shows(app, "8000/16")


class TestKeys:
    @pytest.mark.parametrize("key", ["q", "ctrl+c"])
    @pytest.mark.parametrize("before", [(), ("question_mark",), ("2", "enter")])
    async def test_quit(self, sample: Any, still: Callable[..., TopApp], key: str, before: tuple[str, ...]) -> None:
        app = still(sample.documented())
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press(*before, key)
            await pilot.pause()
            assert app._exit
        assert app.return_code == 0

    @pytest.mark.parametrize("before", [("slash", "q"), ("colon", "q"), ("p",)])
    async def test_ctrl_c_quits_whatever_is_being_typed(
        self, sample: Any, still: Callable[..., TopApp], before: tuple[str, ...]
    ) -> None:
        app = still(sample.documented())
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press(*before)
            assert not app._exit
            await pilot.press("ctrl+c")
            await pilot.pause()
            assert app._exit

    @pytest.mark.parametrize("key", ["question_mark", "h", "f1"])
    async def test_help_and_back(self, sample: Any, still: Callable[..., TopApp], key: str) -> None:
        app = still(sample.documented())
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press(key)
            assert "keys, overview" in screen_text(app)
            await pilot.press(key)
            assert "waiting on ha-llm" in screen_text(app)
            await pilot.press(key, "escape")
            assert "waiting on ha-llm" in screen_text(app)

    async def test_every_key_through_the_terminals_names(
        self, sample: Any, still: Callable[..., TopApp], recorder: Any
    ) -> None:
        """None of them breaks anything, and each that acts reaches the daemon."""
        app = still(sample.documented())
        async with app.run_test(size=(80, 24)) as pilot:
            for key in (name for one in KEYS for name in one.names if name not in ("q", "ctrl+c")):
                await pilot.press("2", TERMINAL.get(key, key), "y" if key in ("p", "d", "R", "x") else "escape")
                assert not app._exit
            await pilot.press("2", "home", "m")
            await shows(app, "moved to the front")
        assert {asked[0] for asked in recorder.asked} == {"pause", "drain", "resume", "set", "cancel", "move"}


class TestActions:
    async def test_a_question_is_asked_and_what_became_of_it_is_told(
        self, sample: Any, still: Callable[..., TopApp], recorder: Any
    ) -> None:
        app = still(sample.documented())
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("p")
            assert "Pause ha-llm?" in screen_text(app)
            await pilot.press("n")
            assert recorder.asked == []
            await pilot.press("p", "y")
            await shows(app, "ha-llm: paused")
            assert recorder.asked == [("pause", "ha-llm")]

    async def test_an_error_is_told(self, sample: Any, still: Callable[..., TopApp], recorder: Any) -> None:
        recorder.error = AdminError("Only an operator may do that\n\nmore")
        app = still(sample.documented())
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("tab", "X")
            await shows(app, " Only an operator may do that")
            assert recorder.asked == [("cancel", "q-7f3a21")]

    async def test_slots_count_on_while_the_daemon_has_not_answered(
        self, sample: Any, still: Callable[..., TopApp], recorder: Any
    ) -> None:
        app = still(sample.documented())
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("j", "plus", "plus", "minus")
            await shows(app, "reasoning: max_concurrent is 9")
        assert [asked[2] for asked in recorder.asked] == [{"max_concurrent": slots} for slots in (9, 10, 9)]

    async def test_actions_reach_the_daemon_in_their_order(
        self, sample: Any, still: Callable[..., TopApp], recorder: Any
    ) -> None:
        """The first takes longer than the second."""
        free, real = asyncio.Event(), recorder.set_limits

        async def slow(name: str, *, max_concurrent: int) -> object:
            if max_concurrent == 9:
                await free.wait()
            return await real(name, max_concurrent=max_concurrent)

        recorder.set_limits = slow
        app = still(sample.documented())
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("j", "plus", "plus")
            assert recorder.asked == []
            free.set()
            await shows(app, "reasoning: max_concurrent is 10")
        assert [asked[1:] for asked in recorder.asked] == [
            ("reasoning", {"max_concurrent": slots}) for slots in (9, 10)
        ]

    async def test_a_copy_goes_to_the_terminal(self, sample: Any, still: Callable[..., TopApp]) -> None:
        app = still(sample.documented())
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("2", "y")
            assert app.clipboard == "q-7f3a21"
            await pilot.press("Y")
            assert app.clipboard == (
                "curl -s --unix-socket /run/llmgate/admin.sock http://localhost/v1/requests/q-7f3a21"
            )

    async def test_what_the_daemon_knows_of_a_request_is_shown(
        self, sample: Any, still: Callable[..., TopApp], recorder: Any
    ) -> None:
        request = sample.request("q-7f3a24", "ha-llm")
        steps = [Step(number=1, offset_ms=1, kind="queued", text="queued (depth 3)", position=3)]
        recorder.details["q-7f3a24"] = RequestDetail(now_ms=sample.NOW, request=request, journey=steps)
        app = still(sample.documented())
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("2", "j", "enter")
            await shows(app, "+0.001s  queued (depth 3), position 3")
            await pilot.press("escape", "k", "enter")
            await shows(app, "q-7f3a21")
            assert "position 3" not in screen_text(app).partition("journey")[2]

    async def test_what_the_doctor_finds_is_shown(self, sample: Any, still: Callable[..., TopApp]) -> None:
        app = still(sample.documented())
        app._doctor = [sys.executable, "-c", "print('fail  socket: gone')"]
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press(":", *"doctor", "enter")
            await shows(app, "fail  socket: gone")
            await pilot.press("escape")
            await shows(app, "reasoning")

    async def test_what_ended_before_it_came_is_fetched(
        self, sample: Any, still: Callable[..., TopApp], recorder: Any
    ) -> None:
        recorder.over = [sample.request("q-old", "ollama", state="done", outcome="completed", ended_ms=sample.NOW)]
        app = still(sample.documented())
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.press("4")
            await shows(app, "q-old")

    async def test_without_those_that_ended_the_rest_is_shown(
        self, sample: Any, still: Callable[..., TopApp], recorder: Any
    ) -> None:
        async def ended() -> object:
            raise AdminError("no")

        recorder.ended = ended
        app = still(sample.documented())
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("2")
            await shows(app, "claude-code")

    async def test_the_wheel_moves_the_selection(self, sample: Any, still: Callable[..., TopApp]) -> None:
        app = still(sample.documented())
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot._post_mouse_events([MouseScrollDown], Canvas)
            await shows(app, " ▸ vllm-a100")
            await pilot._post_mouse_events([MouseScrollUp], Canvas)
            await shows(app, " ▸ ha-llm")

    async def test_clicks(self, sample: Any, still: Callable[..., TopApp]) -> None:
        app = still(sample.documented())
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.click(offset=(20, 4))
            await shows(app, " ▸ reasoning")
            assert app.board.state.pane == "upstreams"
            await pilot.click(offset=(20, 3))
            await shows(app, " ▸ ha-llm")
            await pilot.click(offset=(30, 10))
            assert (app.board.state.pane, app.board.state.detail) == ("waiting", "")
            await pilot.click(offset=(30, 11), times=2)
            await shows(app, " llmgate ▸ ha-llm ▸ q-7f3a27")
            await pilot.click(offset=(30, 0))
            assert app.board.state.detail == "q-7f3a27"

    async def test_pasted_text_is_typed(self, sample: Any, still: Callable[..., TopApp]) -> None:
        app = still(sample.documented())
        async with app.run_test(size=(80, 24)) as pilot:
            app.board.post_message(Paste("ignored"))
            await pilot.press("2", "slash")
            app.board.post_message(Paste("client=\ndsh"))
            await shows(app, " /client=dsh")
            assert "claude-code" not in screen_text(app)


TERMINAL = {
    "/": "slash",
    " ": "space",
    "+": "plus",
    "=": "equals_sign",
    "-": "minus",
    ":": "colon",
    "?": "question_mark",
}


LOST = DaemonNotRunning(
    "No daemon answers on /run/user/1000/llmgate/admin.sock\n\nThe socket file does not exist.\n\n"
    "  start it now          llmgate serve"
)


class TestPictures:
    """The colours, as SVG in __snapshots__ (the texts: test_picture.py); after a wanted change: --snapshot-update."""

    def test_overview(self, snap_compare: Any, sample: Any, still: Any) -> None:
        assert snap_compare(still(sample.documented()), terminal_size=(80, 24))

    def test_overview_wide(self, snap_compare: Any, sample: Any, still: Any) -> None:
        app = still(sample.documented(), theme="dark")
        assert snap_compare(app, terminal_size=(120, 40), press=["tab", "j", "space"])

    def test_monochrome_ascii(self, snap_compare: Any, sample: Any, still: Any) -> None:
        app = still(sample.documented(), theme="mono", no_color=True)
        assert snap_compare(app, terminal_size=(60, 15), press=["a", "j"])

    def test_disconnected(self, snap_compare: Any, sample: Any, still: Any) -> None:
        assert snap_compare(still(sample.documented(), error=LOST), terminal_size=(80, 24))


class TestOnce:
    async def test_one_picture(self, daemon: Any, sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
        daemon.snapshot(sample.documented())
        await daemon.start()
        assert await asyncio.to_thread(run, daemon.path, once=True, zone=UTC) == 0
        lines = capsys.readouterr().out.split("\n")
        assert lines[0].startswith(" llmgate 0.1.0  ● live")
        assert " ▸ ha-llm         full     ▰ 1/1              3/16    0:41   5.7s  38.0s   1,204" in lines
        assert not any("quit" in line or line != line.rstrip() for line in lines)

    @pytest.mark.parametrize(("on_a_terminal", "rows"), [(True, 23), (False, 24)])
    async def test_on_a_terminal_the_prompt_has_the_last_row(
        self,
        daemon: Any,
        sample: Any,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        on_a_terminal: bool,
        rows: int,
    ) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("LINES", "24")
        monkeypatch.setattr("sys.stdout.isatty", lambda: on_a_terminal)
        waiting = [sample.request(f"q-{number}", "a", order=number) for number in range(90)]
        daemon.snapshot(sample.snapshot([sample.upstream("a", waiting=90)], waiting))
        await daemon.start()
        assert await asyncio.to_thread(run, daemon.path, once=True, zone=UTC) == 0
        assert capsys.readouterr().out.count("\n") == rows

    async def test_ascii(self, daemon: Any, sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
        daemon.snapshot(sample.documented())
        await daemon.start()
        assert await asyncio.to_thread(run, daemon.path, once=True, ascii=True, zone=UTC) == 0
        assert capsys.readouterr().out.isascii()

    def test_no_daemon(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(tmp_path / "admin.sock", once=True) == 3
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith(f"No daemon answers on {tmp_path}/admin.sock\n")
        assert "llmgate --socket PATH top" in captured.err
        assert run(tmp_path / "admin.sock", once=True, quiet=True) == 3
        assert capsys.readouterr().err == ""

    async def test_garbage(self, daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
        daemon.head = b"SSH-2.0-OpenSSH_9\r\n\r\n"
        await daemon.start()
        assert await asyncio.to_thread(run, daemon.path, once=True) == 1
        assert "does not speak as llmgate does" in capsys.readouterr().err

    async def test_a_daemon_that_says_nothing(self, daemon: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(app_module, "SNAPSHOT_SECONDS", 0.05)
        await daemon.start()
        assert await asyncio.to_thread(run, daemon.path, once=True) == 1

    async def test_items_before_the_snapshot_are_waited_out(self, daemon: Any, sample: Any, recorder: Any) -> None:
        early = FeedItem(type="progress", number=1, now_ms=1)
        daemon.first = lambda: daemon.frame(early) + daemon.frame(sample.documented())
        await daemon.start()
        view = await first_view(AsyncAdminClient(daemon.path))
        assert [lane.upstream.name for lane in view.lanes] == ["ha-llm", "reasoning", "ollama", "vllm-a100"]


def test_without_a_terminal_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "admin.sock") == 1
    assert "needs a terminal" in capsys.readouterr().err
