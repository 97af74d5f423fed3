"""The app against a scripted daemon on a real Unix socket, its pictures, and `--once`."""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from llmgate.adminapi import FeedItem
from llmgate.adminclient import AdminClient
from llmgate.errors import DaemonNotRunning
from llmgate.tui import app as app_module
from llmgate.tui import follow
from llmgate.tui.app import TopApp, first_view, run
from llmgate.tui.cells import plain
from llmgate.tui.screens.help import HelpScreen
from llmgate.tui.screens.overview import OverviewScreen
from llmgate.tui.sections import Look
from llmgate.tui.widgets.canvas import Canvas


def screen_text(app: TopApp) -> str:
    return "\n".join(plain(line) for line in app.screen.query_one(Canvas)._lines)


async def shows(app: TopApp, text: str) -> None:
    """Waits until the screen shows it."""
    for _ in range(500):
        if text in screen_text(app):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"never shown: {text}\n{screen_text(app)}")


@contextlib.asynccontextmanager
async def showing(daemon: Any):  # type: ignore[no-untyped-def]
    app = TopApp(AdminClient(daemon.path, command="top"), look=Look(zone=UTC))
    async with app.run_test(size=(80, 24)) as pilot:
        yield app, pilot


class TestLive:
    async def test_what_happens_is_shown_at_once(self, daemon: Any, sample: Any) -> None:
        daemon.snapshot(sample.documented())
        await daemon.start()
        async with showing(daemon) as (app, _):
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

    async def test_lost_and_found(self, daemon: Any, sample: Any) -> None:
        daemon.snapshot(sample.documented())
        await daemon.start()
        async with showing(daemon) as (app, pilot):
            await shows(app, "● live")
            await daemon.stop()
            await shows(app, "The socket file does not exist.")
            assert "What was last seen stays below." in screen_text(app)
            assert "ha-llm           full" in screen_text(app)
            daemon.snapshot(sample.snapshot([sample.upstream("fresh", served=1)], pid=8))
            await daemon.start()
            await pilot.press("r")
            await shows(app, "● live")
            await shows(app, "fresh")
            assert "ha-llm" not in screen_text(app)

    async def test_a_cut_viewer_comes_back_by_itself(
        self, daemon: Any, sample: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(follow, "GOOD_SECONDS", 0.0)
        daemon.snapshot(sample.documented())
        await daemon.start()
        async with showing(daemon) as (app, _):
            await shows(app, "● live")
            daemon.snapshot(sample.snapshot([sample.upstream("second-life", served=1)]))
            daemon.cut()
            await shows(app, "second-life")
            assert daemon.came == 2

    async def test_garbage_is_said_and_tried_again(self, daemon: Any, sample: Any) -> None:
        daemon.head = b"SSH-2.0-OpenSSH_9\r\n\r\n"
        await daemon.start()
        async with showing(daemon) as (app, pilot):
            await shows(app, "does not speak as llmgate does.")
            daemon.head = daemon.HEAD
            daemon.snapshot(sample.documented())
            await pilot.press("r")
            await shows(app, "● live")
            daemon.write(b"data: {nonsense\n\n")
            await shows(app, "does not speak as llmgate does.")
            assert "What was last seen stays below." in screen_text(app)

    async def test_it_waits_for_a_daemon_to_start(self, daemon: Any, sample: Any) -> None:
        async with showing(daemon) as (app, pilot):
            await shows(app, "llmgate serve")
            daemon.snapshot(sample.documented())
            await daemon.start()
            await pilot.press("r")
            await shows(app, "● live")

    async def test_a_flood_of_ten_thousand_does_not_stop_the_keys(self, daemon: Any, sample: Any) -> None:
        waiting = [sample.request(f"q-{n}", "a", order=n) for n in range(10_000)]
        upstreams = [sample.upstream("a", waiting=10_000), sample.upstream("b")]
        daemon.snapshot(sample.snapshot(upstreams, waiting, number=0))
        await daemon.start()
        async with showing(daemon) as (app, pilot):
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
    @pytest.mark.parametrize("in_help", [False, True])
    async def test_quit(self, sample: Any, still: Callable[..., TopApp], key: str, in_help: bool) -> None:
        app = still(sample.documented())
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press(*(["question_mark"] if in_help else []), key)
            await pilot.pause()
            assert app._exit
        assert app.return_code == 0

    @pytest.mark.parametrize("key", ["question_mark", "h", "f1"])
    async def test_help_and_back(self, sample: Any, still: Callable[..., TopApp], key: str) -> None:
        app = still(sample.documented())
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press(key)
            assert isinstance(app.screen, HelpScreen)
            await pilot.press(key)
            assert isinstance(app.screen, OverviewScreen)
            await pilot.press(key, "escape")
            assert isinstance(app.screen, OverviewScreen)


SIZES = [(80, 24), (120, 40), (60, 15)]
LOST = DaemonNotRunning(
    "No daemon answers on /run/user/1000/llmgate/admin.sock\n\nThe socket file does not exist.\n\n"
    "  start it now          llmgate serve"
)


@pytest.fixture(params=SIZES, ids="{0[0]}x{0[1]}".format)
def looks(request: pytest.FixtureRequest, snap_compare: Any) -> Callable[..., bool]:
    """Compares an app with its SVG picture in __snapshots__; after a wanted change: pytest --snapshot-update."""
    return lambda app, *keys: snap_compare(app, terminal_size=request.param, press=keys)


class TestPictures:
    def test_overview(self, looks: Any, sample: Any, still: Any) -> None:
        assert looks(still(sample.documented()))

    def test_monochrome_ascii(self, looks: Any, sample: Any, still: Any) -> None:
        assert looks(still(sample.documented(), no_color=True), "a", "j")

    def test_disconnected(self, looks: Any, sample: Any, still: Any) -> None:
        assert looks(still(sample.documented(), error=LOST))

    def test_no_upstream(self, looks: Any, sample: Any, still: Any) -> None:
        assert looks(still(sample.snapshot([])))

    def test_no_traffic(self, looks: Any, sample: Any, still: Any) -> None:
        assert looks(
            still(sample.snapshot([sample.upstream("reasoning", max_concurrent=8), sample.upstream("ollama")]))
        )

    def test_stopping(self, looks: Any, sample: Any, still: Any) -> None:
        busy = sample.upstream("reasoning", state="closed", running=1, draining=1, max_concurrent=64, served=5)
        running = sample.request("q-1", "reasoning", state="running", dispatched_ms=sample.NOW - 7000)
        leaving = sample.request("q-2", "reasoning", state="draining", dispatched_ms=sample.NOW - 9000)
        assert looks(still(sample.snapshot([busy], [running, leaving], state="stopping")))

    def test_help(self, looks: Any, sample: Any, still: Any) -> None:
        assert looks(still(sample.documented()), "question_mark")


class TestOnce:
    async def test_one_picture(self, daemon: Any, sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
        daemon.snapshot(sample.documented())
        await daemon.start()
        assert await asyncio.to_thread(run, daemon.path, once=True, zone=UTC) == 0
        lines = capsys.readouterr().out.split("\n")
        assert lines[0].startswith(" llmgate 0.1.0  ● live")
        assert " ▸ ha-llm           full   ▰ 1/1              3/16    0:41   5.7s  38.0s   1,204" in lines
        assert not any("quit" in line or line != line.rstrip() for line in lines)

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

    async def test_items_before_the_snapshot_are_waited_out(self, daemon: Any, sample: Any) -> None:
        early = FeedItem(type="progress", number=1, now_ms=1)
        daemon.first = lambda: daemon.frame(early) + daemon.frame(sample.documented())
        await daemon.start()
        view = await first_view(AdminClient(daemon.path))
        assert [lane.upstream.name for lane in view.lanes] == ["ha-llm", "reasoning", "ollama", "vllm-a100"]


def test_without_a_terminal_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "admin.sock") == 1
    assert "needs a terminal" in capsys.readouterr().err
