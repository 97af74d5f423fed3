"""`llmgate try` at a front door that plays what it is told to."""

import http.server
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from llmgate.adminapi import RequestDetail, encode
from llmgate.cli.trial import Course, events
from tests.cli.conftest import FakeDaemon, request, status_of

QUEUE = 'event: queue\ndata: {{"type":"ping","position":{0},"depth":3,"waited_ms":0}}\n\n'
START = 'event: message_start\ndata: {"type":"message_start","message":{}}\n\n'
DELTA = (
    'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"type":"text_delta","text":"Hi "}}\n\n'
)
USAGE = 'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":7}}\n\n'
STOP = 'event: message_stop\ndata: {"type":"message_stop"}\n\n'
ERROR = 'event: error\ndata: {"type":"error","error":{"type":"x","message":"llmgate: too long (QUEUE_TIMEOUT)"}}\n\n'


class Door:
    """`stream` is the answer of a POST, with `status`; `listing` is the status of the list of models;
    `hold`: it is not ended. `asked` are the bodies, `keys` too."""

    def __init__(self) -> None:
        self.url = ""
        self.status = 200
        self.listing = 200
        self.stream = START + DELTA * 3 + USAGE + STOP
        self.hold = threading.Event()
        self.hold.set()
        self.asked: list[Any] = []
        self.keys: list[str | None] = []


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    monkeypatch.delenv("LLMGATE_API_KEY", raising=False)
    found = Door()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(found.listing, '{"data": [{"id": "first"}]}')

        def do_POST(self) -> None:
            found.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            found.keys.append(self.headers["authorization"])
            self._send(found.status, found.stream)

        def _send(self, status: int, body: str) -> None:
            self.send_response(status)
            self.send_header("llmgate-request-id", "req_1")
            self.end_headers()
            self.wfile.write(body.encode())
            self.wfile.flush()
            found.hold.wait(60)

        def log_message(self, *_: object) -> None:
            """Not on the test's output."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        found.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield found
        found.hold.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def line(daemon: FakeDaemon, door: Door) -> tuple[object, ...]:
    daemon.status = status_of(listen=[door.url], path_prefix=["/llm", ""])
    return ("try", "--socket", daemon.socket)


def test_it_asks_the_first_model_and_tells_what_came(run: Any, line: Any, door: Door) -> None:
    shown = run(*line)
    assert (shown.status, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == f"model        first, at {door.url}/llm"
    assert lines[1] == "waited       not at all"
    assert lines[3].startswith("answer       7 tokens")
    assert lines[4] == "             Hi Hi Hi"
    (asked,) = door.asked
    assert (asked["model"], asked["stream"], asked["max_tokens"]) == ("first", True, 32)


def test_while_it_waits_each_position_is_told_once(run: Any, line: Any, door: Door) -> None:
    door.stream = "".join(QUEUE.format(place) for place in (2, 2, 1)) + ": queue 1/3\n\n" + door.stream
    shown = run(*line, "reasoning")
    assert shown.err.splitlines() == ["waiting: position 2 of 3", "waiting: position 1 of 3"]
    assert "from position 2" in shown.out
    assert door.asked[0]["model"] == "reasoning"
    assert run(*line, "-q").err == ""


def test_why_nobody_moves_is_told(run: Any, line: Any, door: Door) -> None:
    held = QUEUE.format(1).replace('"waited_ms":0', '"waited_ms":0,"state":"upstream_down"')
    door.stream = QUEUE.format(1) + held * 2 + QUEUE.format(1) + door.stream
    assert run(*line).err.splitlines() == [
        "waiting: position 1 of 3",
        "waiting: position 1 of 3: the upstream is down",
        "waiting: position 1 of 3: the upstream is back",
    ]
    assert json.loads(run(*line, "--json").out)["positions"] == [1]


def test_the_wait_is_that_in_the_queue(run: Any, line: Any, door: Door, daemon: FakeDaemon) -> None:
    assert json.loads(run(*line, "--json").out)["waited_ms"] == 0
    door.stream = QUEUE.format(1) + door.stream
    waited = request("req_1", state="done", arrived_ms=1000, dispatched_ms=43_000)
    daemon.answers["/v1/requests/req_1"] = encode(RequestDetail(now_ms=1, request=waited))
    assert json.loads(run(*line, "--json").out)["waited_ms"] == 42_000
    assert "waited       42s, from position 1" in run(*line).out


def test_json_has_the_figures(run: Any, line: Any, door: Door) -> None:
    door.stream = QUEUE.format(1) + door.stream
    shown = run(*line, "--json")
    told = json.loads(shown.out)
    assert (next(iter(told)), shown.err) == ("schema", "")
    assert (told["ok"], told["positions"], told["output_tokens"], told["text"]) == (True, [1], 7, "Hi Hi Hi ")
    assert 0 <= told["waited_ms"] <= told["first_token_ms"] <= told["total_ms"]


@pytest.mark.parametrize(
    ("status", "stream", "said", "code"),
    [
        (503, '{"error":{"message":"llmgate: the queue is full (QUEUE_FULL)"}}', "the queue is full", "QUEUE_FULL"),
        (404, '{"error":"plain words"}', "plain words", "FAILED"),
        (502, "<html>", "the gate answers with status 502", "FAILED"),
        (200, QUEUE.format(1) + ERROR, "too long (QUEUE_TIMEOUT)", "QUEUE_TIMEOUT"),
        (200, "event: error\ndata: {\n\n", "an error that says nothing", "FAILED"),
        (200, QUEUE.format(1), "the stream ended before the answer began", "FAILED"),
    ],
)
def test_an_error_is_told_in_its_own_words(
    run: Any, line: Any, door: Door, status: int, stream: str, said: str, code: str
) -> None:
    door.status, door.stream = status, stream
    done = run(*line)
    assert (done.status, done.out) == (1, "")
    assert said in done.err
    as_json = run(*line, "--json")
    told = json.loads(as_json.err)
    assert (as_json.status, as_json.out, next(iter(told)), told["error"]["code"]) == (1, "", "schema", code)
    assert said in told["error"]["message"]


def test_a_gate_that_is_not_there_is_told(run: Any) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        done = run("try", "m", "--base-url", url)
        as_json = run("try", "m", "--base-url", url, "--json")
    assert (done.status, done.out) == (1, "")
    assert json.loads(as_json.err)["error"]["code"] == "NO_ANSWER"
    assert f"no whole answer from {url}: " in done.err


def test_without_a_daemon_it_says_how_to_start_one(tmp_path: Any) -> None:
    whole = [sys.executable, "-m", "llmgate", "try", "--socket", str(tmp_path / "none.sock")]
    done = subprocess.run(whole, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert "llmgate serve" in done.stderr


def test_the_key_of_the_environment_is_sent(run: Any, line: Any, door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    run(*line)
    monkeypatch.setenv("LLMGATE_API_KEY", "hunter2")
    shown = run(*line)
    assert door.keys == [None, "Bearer hunter2"]
    assert "hunter2" not in shown.out + shown.err


def test_ctrl_c_ends_it_there_and_then(door: Door) -> None:
    door.stream, door.status = QUEUE.format(4), 200
    door.hold.clear()
    whole = [sys.executable, "-m", "llmgate", "try", "m", "--base-url", door.url]
    with subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "waiting: position 4 of 3\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT  # which a shell tells as 130
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("key", "what"), [(None, "this gate has keys"), ("wrong", "the key in LLMGATE_API_KEY does not count there")]
)
def test_a_gate_with_keys_is_told_how_to_give_one(
    run: Any, line: Any, door: Door, monkeypatch: pytest.MonkeyPatch, key: str | None, what: str
) -> None:
    door.status = 401
    door.stream = '{"type":"error","error":{"message":"llmgate: a valid key is needed (UNAUTHORIZED)"}}'
    if key:
        monkeypatch.setenv("LLMGATE_API_KEY", key)
    advice = f"llmgate: {what}: put one of its keys_file into the environment, as LLMGATE_API_KEY\n"
    assert run(*line, "m").err == f"llmgate: a valid key is needed (UNAUTHORIZED)\n{advice}"
    door.listing = 401
    assert run(*line).err == f"llmgate: the gate at {door.url}/llm asks for a key\n{advice}"


def test_events_are_read_line_by_line() -> None:
    told = list(events(["event: a", 'data: {"x":', "data: 1}", "", ": comment", "", "data: no", "", "event: b", ""]))
    assert told == [("a", {"x": 1}), ("", {})]


def test_the_rate_is_that_of_the_answer_alone() -> None:
    course = Course(first=1.0, ended=3.0, pieces=21)
    assert course.rate == 10.0
    assert Course(first=1.0, ended=1.0, pieces=5).rate is None
    assert Course(first=1.0, ended=1.0002, pieces=5).rate is None, "it came all at once"
    assert Course(ended=1.0).rate is None
