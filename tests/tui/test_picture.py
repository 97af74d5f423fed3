"""The overview as lines of text."""

import time
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.adminapi import FeedItem, RequestView, Status, UpstreamView
from llmgate.tui.cells import plain, width_of_line
from llmgate.tui.furniture import Look
from llmgate.tui.listing import settle
from llmgate.tui.model import Model
from llmgate.tui.picture import picture
from llmgate.tui.press import press
from llmgate.tui.state import PAGES, PANES, Chosen, Message, Sort, State, Typing, Why

ERROR = "No daemon answers on /run/x.sock\n\nThe socket file does not exist.\n\n  start it now          llmgate serve"


def drawn(model: Model, look: Look, at: float = 1.0, **state: Any) -> list[str]:
    view = model.view(at)
    return [plain(line) for line in picture(view, look, settle(State(**state), view))]


@pytest.fixture
def model(sample: Any) -> Model:
    known = Model()
    known.apply(sample.documented(), 1.0)
    return known


def test_eighty_columns(model: Model) -> None:
    assert drawn(model, Look(80, 24, zone=UTC)) == [
        " llmgate 0.1.0  ● live  run 8/10  wait 4  full 2  timeout 0  failed 4   14:02:31",
        "────────────────────────────────────────────────────────────────────────────────",
        "   UPSTREAM       STATE    SLOTS          WAIT/MAX  OLDEST  P50 W  P95 W  SERVED",
        " ▸ ha-llm         full     ▰ 1/1              3/16    0:41   5.7s  38.0s   1,204",
        "   reasoning      ok       ▰▰▰▰▰▰▰▱ 7/8       0/64       -   0.0s   2.1s   8,873",
        "   ollama         idle     ▱ 0/1              0/32       -   0.0s   0.4s      52",
        "   vllm-a100      DOWN     ▱▱▱▱▱▱▱▱ 0/8       1/64    1:10      -      -     310",
        "── waiting on ha-llm ───────────────────────────────────────────────────────────",
        "     #  WAITED   ETA  MODEL                 CLIENT       SESSION   PURPOSE",
        "     1    0:41 ~0:12  qwen2.5:3b-instruct   dsh          a3f9..c1  compaction",
        "     2    0:18 ~0:18  qwen2.5:3b-instruct   claude-code  e745..b7  -",
        "     3    0:03 ~0:24  qwen2.5:3b-instruct   web          -         session-title",
        "── running on ha-llm ───────────────────────────────────────────────────────────",
        "         RUN  WAITED  MODEL                CLIENT       SESSION     OUT    TOK/S",
        "        0:09    5.7s  qwen2.5:3b-instruct  opencode     ses_..gY    371     41.2",
        "",
        "── events ──────────────────────────────────────────────────────────────────────",
        " 14:02:28 queued         ha-llm     depth 3  web  session-title",
        " 14:02:22 dispatched     ha-llm     after 5730ms  opencode  ses_..gY",
        " 14:01:21 down           vllm-a100  it takes no connection",
        " 14:01:02 QUEUE_FULL     ha-llm     depth 16",
        "",
        "────────────────────────────────────────────────────────────────────────────────",
        " ↑↓ select  ⏎ open  tab pane  / filter  p pause  d drain  ? help  q quit",
    ]


def test_the_picture_in_the_readme_has_the_lines_of_the_program(model: Model) -> None:
    """It is one of `make demo`: the same titles, columns and keys, on a screen of the same size."""
    shown = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").split("```\n")[1].splitlines()
    lines = drawn(model, Look(80, 24, zone=UTC))
    assert (len(shown), max(map(len, shown))) == (24, 80)
    for title in (" UPSTREAM ", " WAITED ", " RUN ", " select "):
        assert [line for line in shown if title in line] == [line for line in lines if title in line]
    assert [line.split()[1] for line in shown if line.startswith("── ")] == ["waiting", "running", "events"]
    column = next(line for line in shown if " WAITED   ETA" in line).index("CLIENT")
    clients = {line[column:].split()[0] for line in shown if " ~" in line}
    assert {"claude-cli", "opencode"} <= clients, "as the product calls them"


def test_more_columns_on_a_wide_screen(model: Model) -> None:
    lines = drawn(model, Look(120, 40, zone=UTC))
    assert lines[0].split()[4] == "unix:/run/llmgate/admin.sock"
    titles = "UPSTREAM STATE SLOTS WAIT/MAX OLDEST P50 W P95 W TTFT RUN P50 RPS SERVED FAILED WAITING (5 min)"
    assert " ".join(lines[2].split()) == titles
    assert lines[8].split() == [
        "#",
        "ID",
        "WAITED",
        "ETA",
        "LEFT",
        "MODEL",
        "CLIENT",
        "SESSION",
        "PURPOSE",
        "API",
        "SSE",
    ]
    assert lines[7].endswith(" dispatch order ─── 3 of 16 ─── timeout 5:00 ──────")


@pytest.mark.parametrize(
    ("width", "figures"),
    [
        (60, "run 8/10  wait 4  failed 4"),
        (68, "run 8/10  wait 4  full 2  failed 4"),
        (78, "run 8/10  wait 4  full 2  timeout 0  failed 4"),
        (88, "up 3d  run 8/10  wait 4  full 2  timeout 0  failed 4"),
        (100, "up 3d 04:12  run 8/10  wait 4  full 2  timeout 0  failed 4"),
        (120, "unix:/run/llmgate/admin.sock  up 3d  run 8/10  wait 4  full 2  timeout 0  failed 4"),
        (140, "unix:/run/llmgate/admin.sock  up 3d 04:12  running 8/10  waiting 4  full 2  timeout 0  failed 4"),
    ],
)
def test_the_header_says_it_as_clearly_as_there_is_room(model: Model, width: int, figures: str) -> None:
    head = drawn(model, Look(width, 24, zone=UTC))[0]
    assert head == f" llmgate 0.1.0  ● live  {figures}".ljust(width - 9) + " 14:02:31"


def test_on_a_small_screen_the_waiters_without_a_row_are_counted(model: Model) -> None:
    lines = drawn(model, Look(60, 15, zone=UTC))
    (head,) = [line for line in lines if "waiting on" in line]
    assert head.endswith(" … 2 more ───")
    assert len(head) == 60
    assert [line.split()[0] for line in lines if " dsh " in line or " claude-code " in line] == ["1"]


def test_one_line_each_on_a_tiny_screen(model: Model) -> None:
    assert drawn(model, Look(50, 8)) == [
        " llmgate ● live",
        "▸ha-llm 1/1 wait 3 41s",
        " reasoning 7/8 wait 0",
        " ollama 0/1 wait 0",
        " vllm-a100 0/8 wait 1 1m DOWN",
        "",
        "",
        " ? help  q quit",
    ]
    assert drawn(model, Look(80, 14)) == drawn(model, Look(59, 14))
    assert drawn(model, Look(50, 5))[-1] == " vllm-a100 0/8 wait 1 1m DOWN", "no upstream gives way to it"
    assert drawn(model, Look(50, 8, keys=False))[-1] == ""


def test_a_tiny_screen_without_a_daemon(model: Model, sample: Any) -> None:
    model.apply(sample.quiet(sample.NOW + 4_000), 5.0)
    model.lost(ERROR, 3, 5.0, 9.0)
    lines = drawn(model, Look(40, 6), at=5.0)
    assert lines[:3] == [" llmgate ○ not connected", " No daemon answers on /run/x.sock", "▸ha-llm 1/1 wait 3 45s"]
    model.apply(sample.snapshot([]), 6.0)
    assert drawn(model, Look(40, 6))[1] == " no upstream yet"


def test_a_tiny_screen_tells_of_an_error_what_it_has_room_for(model: Model) -> None:
    model.lost(ERROR, 3, 2.0, 4.0)
    assert drawn(model, Look(40, 9), at=2.0)[:4] == [
        " llmgate ○ not connected",
        " No daemon answers on /run/x.sock",
        " The socket file does not exist.",
        "   start it now          llmgate serve",
    ]
    assert drawn(model, Look(40, 9), at=2.0)[-1] == " ? help  q quit"
    assert drawn(model, Look(40, 6), at=2.0)[2] == "▸ha-llm 1/1 wait 3 42s"


def test_a_tiny_screen_of_a_daemon_that_stops(sample: Any) -> None:
    model = Model()
    model.apply(sample.snapshot([sample.upstream("a", state="drained")], state="stopping"), 1.0)
    lines = drawn(model, Look(59, 14))
    assert lines[:4] == [
        " llmgate ● stopping",
        " Stopping: no new request is taken, and it ends when the",
        " last running one ends.",
        "▸a 0/1 wait 0 drained",
    ]
    model.lost(ERROR, 1, 2.0, 3.0)
    assert not any("Stopping" in line for line in drawn(model, Look(59, 14)))


def test_disconnected_keeps_the_last_picture_greyed(model: Model, sample: Any) -> None:
    model.apply(sample.quiet(sample.NOW + 10_000), 11.0)
    model.lost(ERROR, 6, 11.0, 13.0)
    view = model.view(11.0 + 33)
    lines = [plain(line) for line in picture(view, Look(80, 24, zone=UTC))]
    assert lines[0] == " llmgate 0.1.0  ○ not connected                                         14:03:14"
    assert "      No daemon answers on /run/x.sock" in lines
    seen = next(index for index, line in enumerate(lines) if "── last seen" in line)
    assert lines[seen].startswith("── last seen 14:02:41 (33 s ago) ──")
    assert lines[seen + 2] == " ▸ ha-llm         full     ▰ 1/1              3/16    0:51   5.7s  38.0s   1,204"
    styled = picture(view, Look(80, 24, zone=UTC))[seen + 1 : -2]
    assert {span.style for line in styled for span in line if span.text.strip()} == {"dim"}
    assert lines[-1].startswith(" r retry now ")


def test_silence_is_told_and_greys_the_picture(model: Model) -> None:
    lines = drawn(model, Look(80, 24, zone=UTC), at=6.0)
    assert lines[0].startswith(" llmgate 0.1.0  ○ no answer for 5 s  run 8/10")
    assert lines[0].endswith(" 14:02:36"), "it is as late as it is"
    assert "  0:43 " in lines[3], "no age counts on after what may pass without a word"
    styled = picture(model.view(6.0), Look(80, 24, zone=UTC))
    assert {span.style for line in styled[2:-2] for span in line if span.text.strip()} == {"dim"}
    assert lines[-1].startswith(" ↑↓ select  ⏎ open")
    assert drawn(model, Look(59, 14), at=6.0)[0] == " llmgate ○ no answer for 5 s"
    assert "▸ q-7f3a24  ○ no answer for 5 s" in drawn(model, Look(80, 24), at=6.0, detail="q-7f3a24")[0]


def test_disconnected_from_the_start() -> None:
    model = Model()
    model.lost(ERROR, 1, 1.0, 2.0)
    lines = drawn(model, Look(80, 24))
    assert lines[0] == " llmgate  ○ not connected"
    assert not any("last seen" in line or "UPSTREAM" in line for line in lines)
    assert lines[-1] == " r retry now  w why (llmgate doctor)  ? help  q quit"


def test_connecting() -> None:
    assert "   Connecting to the daemon." in drawn(Model(), Look(80, 24))


def test_no_upstream(model: Model, sample: Any) -> None:
    model.apply(sample.snapshot([]), 1.0)
    lines = drawn(model, Look(80, 24))
    assert "      No upstream yet: there is no server to send requests to." in lines
    assert not any("UPSTREAM " in line for line in lines)


def test_no_traffic_until_the_first_request(model: Model, sample: Any) -> None:
    quiet = sample.snapshot([sample.upstream("reasoning")])
    model.apply(quiet, 1.0)
    assert any("OpenAI                http://127.0.0.1:8080/llm/v1" in line for line in drawn(model, Look(80, 24)))
    for fields in ({"served": 1}, {"failed": 1}, {"queue_full": 1}, {"queue_timeout": 1}, {"running": 1}):
        model.apply(sample.snapshot([sample.upstream("reasoning", **fields)]), 1.0)
        assert not any("OpenAI" in line for line in drawn(model, Look(80, 24)))


def test_who_was_not_let_in_is_told_where_no_request_has_come(sample: Any) -> None:
    model = Model()
    refused = sample.event(
        9, "caller_refused", "", "refused a request from 10.0.0.9 (HOST_NOT_ALLOWED)", word="refused"
    )
    model.apply(sample.snapshot([sample.upstream("a")], [], [refused]), 1.0)
    said = "\n".join(drawn(model, Look(80, 24, zone=UTC)))
    assert "No request has come" in said
    assert "HOST_NOT_ALLOWED" in said


@pytest.mark.parametrize(("size", "upstreams"), [((60, 15), 3), ((80, 24), 9)])
def test_without_traffic_there_is_room_for_the_base_urls(sample: Any, size: tuple[int, int], upstreams: int) -> None:
    model = Model()
    model.apply(sample.snapshot([sample.upstream(f"up-{number}") for number in range(9)]), 1.0)
    lines = drawn(model, Look(*size, zone=UTC))
    assert any("http://127.0.0.1:8080/llm/v1" in line for line in lines)
    assert sum("  up-" in line or "▸ up-" in line for line in lines) == upstreams


def test_after_a_stop_the_picture_is_the_one_before_it(model: Model, sample: Any) -> None:
    """While it stops everything drains, which tells nobody what had been going on."""
    stopping = [sample.upstream("ha-llm", state="drained"), sample.upstream("vllm-a100", state="drained")]
    model.apply(sample.snapshot(stopping, state="stopping"), 2.0)
    assert [lane.upstream.state for lane in model.view(2.0).lanes] == ["drained", "drained"]
    model.lost(ERROR, 1, 5.0, 7.0)
    lines = drawn(model, Look(80, 24, zone=UTC), at=6.0)
    (title,) = [line for line in lines if line.startswith("── last seen")]
    assert title.startswith("── last seen 14:02:32 (4 s ago)")
    assert [line.split()[:2] for line in lines if "/64" in line] == [["reasoning", "ok"], ["vllm-a100", "DOWN"]]
    model.apply(sample.snapshot([sample.upstream("ha-llm", state="idle")]), 8.0)
    model.lost(ERROR, 1, 9.0, 10.0)
    assert [lane.upstream.state for lane in model.view(9.0).lanes] == ["idle"]


@pytest.mark.parametrize("size", [(60, 15), (62, 18), (70, 16)])
def test_a_small_screen_breaks_off_no_sentence_when_the_connection_is_lost(model: Model, size: tuple[int, int]) -> None:
    told = [f"  way {number} ".ljust(24) + "llmgate --socket PATH " + "x" * 20 for number in range(9)]
    model.lost("\n".join(["No daemon answers on /x", "", "Nobody listens.", "", *told, " " * 24 + "and more"]), 1, 5, 9)
    lines = [line.strip() for line in drawn(model, Look(*size, zone=UTC), at=6.0)]
    assert lines[2:5] == ["No daemon answers on /x", "Trying again in 3 s (attempt 2).", "Nobody listens."]
    assert "seen" not in " ".join(lines)
    begun = [line for line in lines if line.startswith("way")]
    assert " ".join(lines).count("x" * 20) == len(begun) > 0


def test_stopping(model: Model, sample: Any) -> None:
    told = sample.status([], state="stopping")
    model.apply(FeedItem(type="progress", number=100, now_ms=sample.NOW, status=told), 1.0)
    lines = drawn(model, Look(80, 24))
    assert lines[0].startswith(" llmgate 0.1.0  ● stopping")
    assert lines[2] == " Stopping: no new request is taken, and it ends when the last running one ends."


def test_a_newer_daemon_is_told_once(model: Model, sample: Any) -> None:
    model.apply(sample.snapshot([sample.upstream("a", served=1)], schema=7), 1.0)
    lines = drawn(model, Look(80, 24))
    assert sum("newer than this viewer (schema 7, here 1)" in line for line in lines) == 1


def test_slots_that_are_down_do_not_count_and_ungated_ones_stand_apart(model: Model, sample: Any) -> None:
    ups = [
        sample.upstream("a", running=1, max_concurrent=2),
        sample.upstream("b", state="down", max_concurrent=8),
        sample.upstream("c", running=3, max_concurrent=0),
    ]
    model.apply(sample.snapshot(ups), 1.0)
    assert "run 1/2+3 " in drawn(model, Look(80, 24))[0]


@pytest.mark.parametrize("look", [Look(80, 24), Look(50, 12)])
def test_why_is_said_anew_with_each_picture(model: Model, sample: Any, look: Look) -> None:
    def said(name: str, waiting: int, after_ms: int) -> str:
        requests = [sample.request(f"w{number}", name) for number in range(waiting)]
        requests.append(sample.request("r", name, state="running", dispatched_ms=sample.NOW))
        up = sample.upstream(name, state="full", running=1, waiting=waiting)
        model.apply(sample.snapshot([up], requests, now_ms=sample.NOW + after_ms), 1.0)
        return " ".join("\n".join(drawn(model, look, why=Why("upstream", "one"))).split())

    first = said("one", 8, 6_000)
    assert "8 wait on one." in first
    assert "has been running for 0:06." in first
    later = said("one", 1, 246_000)
    assert "1 wait on one." in later
    assert "has been running for 4:06." in later
    assert "There is no upstream one any more." in said("uno", 1, 250_000)


def test_ascii_is_ascii(model: Model) -> None:
    for look in (Look(80, 24), Look(120, 40), Look(40, 10)):
        for state in (
            {},
            {"page": "waiting"},
            {"page": "recent"},
            {"page": "events"},
            {"detail": "q-7f3a24"},
            {"help": 0},
        ):
            assert "\n".join(drawn(model, look, ascii=True, why=Why("request", "界"), **state)).isascii()
    model.lost(ERROR + "界", 1, 1.0, 2.0)
    assert "\n".join(drawn(model, Look(80, 24), ascii=True)).isascii()


def test_the_selection(model: Model) -> None:
    lines = drawn(model, Look(80, 24, zone=UTC), chosen={"upstreams": Chosen("vllm-a100")})
    assert lines[6].startswith(" ▸ vllm-a100")
    assert lines[7].startswith("── waiting on vllm-a100 ")
    assert lines[8] == "   connection refused, next probe in 5 s"


TEXT = st.text(st.sampled_from("ab[]\x1b\r\n\t\x00界한👩\u200d\u0301\u202e "), max_size=60)
NUMBER = st.integers(0, 10**12)
UPSTREAM = st.builds(
    UpstreamView,
    name=TEXT,
    state=TEXT | st.sampled_from(["full", "down"]),
    url=TEXT,
    max_concurrent=st.integers(0, 10_000),
    max_queued=st.none() | NUMBER,
    queue_timeout_ms=st.none() | NUMBER,
    running=NUMBER,
    waiting=NUMBER,
    draining=st.integers(0, 9),
    oldest_arrived_ms=st.none() | NUMBER,
    p50_wait_ms=st.none() | NUMBER,
    rate=st.floats(0, 1e9),
    served=NUMBER,
    detail=TEXT,
    alarms=st.lists(TEXT, max_size=2),
)
REQUEST = st.builds(
    RequestView,
    id=TEXT,
    upstream=st.just("a"),
    state=st.sampled_from(["waiting", "running", "draining"]),
    order=st.integers(-5, 5),
    model=TEXT,
    api=TEXT,
    path=TEXT,
    stream=st.booleans(),
    client=TEXT,
    session=TEXT,
    purpose=TEXT,
    arrived_ms=NUMBER,
    dispatched_ms=st.none() | NUMBER,
    first_byte_ms=st.none() | NUMBER,
    output_tokens=NUMBER,
    eta_ms=st.none() | NUMBER,
    peer=TEXT,
    key=TEXT,
    deadline_ms=st.none() | NUMBER,
)
STATE = st.builds(
    State,
    page=st.sampled_from(PAGES),
    pane=st.sampled_from(PANES),
    filter=TEXT,
    detail=st.just("") | TEXT,
    help=st.none() | st.integers(0, 100),
    why=st.none() | st.builds(Why, st.sampled_from(["request", "upstream"]), TEXT | st.sampled_from(["a", "b"])),
    log=st.booleans(),
    prompt=st.none() | st.builds(Typing, st.sampled_from(["filter", "command"]), TEXT),
    message=st.none() | st.builds(Message, TEXT),
    ascii=st.booleans(),
    read_only=st.booleans(),
    sorts=st.dictionaries(
        st.sampled_from(PANES), st.builds(Sort, st.sampled_from(["", "WAITED", "MODEL"]), st.booleans())
    ),
)


@given(
    st.lists(UPSTREAM, max_size=6),
    st.lists(REQUEST, max_size=8),
    st.builds(Look, st.integers(1, 200), st.integers(1, 60)),
    TEXT | st.none(),
    STATE,
)
def test_whatever_comes_the_picture_fills_the_screen(
    upstreams: list[UpstreamView], requests: list[RequestView], look: Look, error: str | None, state: State
) -> None:
    model = Model()
    model.apply(_snapshot(upstreams, requests), 1.0)
    if error is not None:
        model.lost(error, 1, 2.0, 3.0)
    view = model.view(3.0)
    lines = picture(view, look, settle(state, view))
    assert len(lines) == look.height
    assert {width_of_line(line) for line in lines} == {look.width}
    assert not set("\x1b\r\n\t\x00\u202e") & set("".join(span.text for line in lines for span in line))


def _snapshot(upstreams: list[UpstreamView], requests: list[RequestView]) -> FeedItem:
    first = UpstreamView(name="a", state="ok", url="", max_concurrent=1)
    return FeedItem(
        type="snapshot",
        number=1,
        now_ms=10**9,
        status=Status(
            version="1\x1b", pid=1, started_at="", uptime_ms=5, now_at="2026-11-30T14:02:31Z", now_ms=10**9,
            state="running", listen=["\x1b:\r"], config="", socket="/\x1b", upstreams=[first, *upstreams],
        ),
        requests=requests,
    )  # fmt: skip


def test_a_picture_of_ten_thousand_waiters_is_quick(sample: Any) -> None:
    many = [sample.request(f"q-{n}", "a", order=n) for n in range(10_000)]
    model = Model()
    model.apply(sample.snapshot([sample.upstream("a", waiting=10_000)], many), 1.0)
    began = time.perf_counter()
    for _ in range(10):
        drawn(model, Look(120, 50))
    assert time.perf_counter() - began < 5


SIZES = [(80, 24), (120, 40), (60, 15)]
LOST = (
    "No daemon answers on /run/user/1000/llmgate/admin.sock\n\nThe socket file does not exist.\n\n"
    "  start it now          llmgate serve\n  another socket        llmgate --socket PATH top"
)
DENIED = (
    "Permission denied on /run/llmgate/admin.sock\n\nThe socket belongs to group llmgate, and you are not in it.\n\n"
    "  join the group        sudo usermod -aG llmgate $USER   (then log in again)"
)
SCREENS: dict[str, tuple[str, ...]] = {
    "overview": (),
    "overview, waiting": ("tab", "j"),
    "waiting": ("2",),
    "running": ("3",),
    "recent": ("4",),
    "events": ("5", "j"),
    "detail": ("2", "j", "enter"),
    "detail of one that ended": ("4", "enter"),
    "help": ("?",),
    "help of recent": ("4", "?"),
    "why": ("2", "j", "w"),
    "log": ("l",),
    "filtered and sorted": ("2", "/", *"!dsh", "enter", "s", "s"),
    "marked": ("2", " ", " "),
    "question": ("2", " ", " ", "x"),
    "command": (":", *"drain re", "tab"),
    "refused": ("x",),
    "ascii": ("a",),
    "frozen": ("P",),
}


@pytest.fixture
def busy(sample: Any) -> Model:
    """The state in the documentation, with two requests that ended."""
    known = Model()
    known.apply(sample.documented(), 1.0)
    now = sample.NOW
    known.remember(
        [
            sample.request("q-7f3970", "ha-llm", state="done", outcome="completed", client="claude-code",
                           session="e74544d8-d380-49a1-8f97-050cbf9101b7", arrived_ms=now - 60_900,
                           dispatched_ms=now - 58_800, first_byte_ms=now - 58_000, ended_ms=now - 50_000,
                           output_tokens=1204),
            sample.request("q-7f3902", "ha-llm", state="done", outcome="queue_timeout", client="web",
                           arrived_ms=now - 400_000, ended_ms=now - 100_000),
        ]
    )  # fmt: skip
    return known


@pytest.mark.parametrize("size", SIZES, ids="{0[0]}x{0[1]}".format)
class TestEveryScreen:
    """After a wanted change: pytest --snapshot-update; then read the difference."""

    def shown(self, model: Model, size: tuple[int, int], sample: Any, keys: tuple[str, ...] = (), **state: Any) -> str:
        view = model.view(1.0)
        known = settle(State(**state), view)
        for key in keys:
            known = settle(press(known, key, view, size[1]).state, view)
        if view.link.state == "live":
            model.apply(sample.quiet(sample.NOW + 33_000), 34.0)
        lines = picture(model.view(34.0), Look(*size, zone=UTC), settle(known, model.view(34.0)))
        return "\n".join(plain(line) for line in lines)

    @pytest.mark.parametrize("name", SCREENS)
    def test_screen(self, busy: Model, size: tuple[int, int], sample: Any, name: str, snapshot: Any) -> None:
        assert self.shown(busy, size, sample, SCREENS[name]) == snapshot

    @pytest.mark.parametrize(("name", "error"), [("not connected", LOST), ("no permission", DENIED)])
    def test_lost(self, busy: Model, size: tuple[int, int], sample: Any, name: str, error: str, snapshot: Any) -> None:
        busy.apply(sample.quiet(sample.NOW + 30_000), 31.0)
        busy.lost(error, 6, 31.0, 36.0)
        assert self.shown(busy, size, sample) == snapshot
        assert self.shown(busy, size, sample, ("2", "w")) == snapshot(name="on a page")
        fresh = Model()
        fresh.lost(error, 1, 31.0, 36.0)
        assert self.shown(fresh, size, sample) == snapshot(name="from the start")

    def test_states(self, busy: Model, size: tuple[int, int], sample: Any, snapshot: Any) -> None:
        assert self.shown(busy, size, sample, read_only=True) == snapshot(name="read-only")
        assert self.shown(Model(), size, sample) == snapshot(name="connecting")
        for name, item in {
            "no upstream": sample.snapshot([]),
            "no traffic": sample.snapshot(
                [sample.upstream("reasoning", max_concurrent=8), sample.upstream("b", state="down", detail="refused")]
            ),
            "may only look": sample.snapshot([sample.upstream("a", served=1)], may_act=False),
            "newer": sample.snapshot([sample.upstream("a", served=1)], schema=7),
            "stopping": sample.snapshot([sample.upstream("a", state="draining", running=1)], state="stopping"),
            "paused": sample.snapshot(
                [sample.upstream("a", state="paused", waiting=1)], [sample.request("q-1", "a", arrived_ms=sample.NOW)]
            ),
        }.items():
            model = Model()
            model.apply(item, 1.0)
            assert self.shown(model, size, sample) == snapshot(name=name)
