"""`llmgate probe` against servers that answer as real ones do, and against what is none."""

import http.server
import json
import socket
import ssl
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from certificates import make_pem, serving

from llmgate.cli.probe import explain
from llmgate.config.load import load
from llmgate.errors import UpstreamDown, UpstreamFailed
from llmgate.server.tls import PLAIN as PLAIN_HTTP_HERE

Answers = dict[str, tuple[int, Any]]

LLAMA: Answers = {
    "GET /props": (200, {"default_generation_settings": {"n_ctx": 4096}, "total_slots": 3}),
    "GET /v1/models": (200, {"data": [{"id": "gemma"}]}),
    "POST /v1/messages": (400, {"error": {"message": "messages is missing", "type": "invalid_request_error"}}),
}
OLLAMA: Answers = {
    "GET /": (200, "Ollama is running"),
    "GET /api/version": (200, {"version": "0.12.6"}),
    "GET /v1/models": (200, {"data": [{"id": "qwen2.5:3b-instruct"}]}),
    "GET /api/tags": (200, {"models": [{"name": "qwen2.5:3b-instruct", "model": "qwen2.5:3b-instruct"}]}),
    "GET /api/ps": (200, {"models": []}),
}
VLLM: Answers = {
    "GET /version": (200, {"version": "0.11"}),
    "GET /v1/models": (200, {"data": [{"id": "reasoning", "owned_by": "vllm", "max_model_len": 32768}]}),
}
GATE: Answers = {
    "GET /api/version": (200, {"version": "0.12.6", "llmgate": "0.1.0"}),
    "GET /v1/models": (200, {"data": [{"id": "reasoning"}]}),
    "POST /v1/messages": (400, {"error": {"message": "messages is missing", "type": "invalid_request_error"}}),
}
PLAIN: Answers = {"GET /v1/models": (200, {"data": [{"id": "\x1b[31mred"}, {"id": "good"}]})}


@pytest.fixture
def serve() -> Iterator[Callable[[Answers], str]]:
    """Starts a server of these answers, 404 for the rest; gives its URL. `asked` of it are the keys it was shown."""
    running = []

    def start(answers: Answers, keys: list[str | None] | None = None) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, plain = answers.get(f"{self.command} {self.path}", (404, {"error": "not found"}))
                if keys is not None:
                    keys.append(self.headers["authorization"])
                body = plain.encode() if isinstance(plain, str) else json.dumps(plain).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"] or 0))
                self.do_GET()

            def log_message(self, *_: object) -> None:
                """Not on the test's output."""

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        running.append((server, thread))
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("answers", "what", "upstream"),
    [
        (LLAMA, "a llama-server, which speaks Messages; 3 slots.", ("llama", 3, "llama-server", ["gemma"])),
        (OLLAMA, "an Ollama", ("ollama", 1, "ollama", ["qwen2.5:3b-instruct"])),
        (VLLM, "a vLLM, which does not speak Messages", ("vllm", 1, "vllm", ["reasoning"])),
        (PLAIN, "a server of a kind that is not told", ("server", 1, None, ["good"])),
    ],
)
def test_what_it_is_and_its_settings(
    run: Any, serve: Any, tmp_path: Path, answers: Answers, what: str, upstream: tuple[Any, ...]
) -> None:
    url = serve(answers)
    shown = run("probe", url)
    assert shown.status == 0
    assert shown.out.startswith(f"# {url} is {what}")
    assert "\x1b" not in shown.out
    name, slots, kind, models = upstream
    assert tomllib.loads(shown.out)["upstreams"][name] == {
        "url": url,
        "max_concurrent": slots,
        **({"kind": kind} if kind else {}),
        "models": models,
    }
    file = tmp_path / "l.toml"
    file.write_text(shown.out)
    assert load(file, environ={}).warnings == ()
    assert ("put the number in" in shown.err) == (answers is not LLAMA)


def test_json_tells_the_same(run: Any, serve: Any) -> None:
    url = serve(LLAMA)
    told = json.loads(run("probe", f"{url}/v1/", "--json").out)
    assert next(iter(told)) == "schema"
    assert (told["url"], told["kind"], told["slots"], told["messages"]) == (url, "llama-server", 3, True)
    assert told["models"] == [
        {"name": "gemma", "context_window": 4096, "max_output_tokens": None, "loaded": True}
    ]  # fmt: skip
    assert tomllib.loads(told["toml"])["upstreams"]["llama"]["max_concurrent"] == 3


def test_a_gate_is_said_to_be_one(run: Any, serve: Any, tmp_path: Path) -> None:
    """What is printed may go into its own settings file: it must not make it ask itself."""
    url = serve(GATE)
    shown = run("probe", url)
    assert shown.status == 0
    assert shown.out.startswith(
        f"# {url} is an llmgate, and no server itself: here it is not gated, as the queue is there. "
        "Behind it:\n# model reasoning\n"
    )
    assert tomllib.loads(shown.out) == {}
    assert tomllib.loads(shown.out[shown.out.index("# [") :].replace("# ", "")) == {
        "upstreams": {"gate": {"url": url, "max_concurrent": 0, "models": ["reasoning"]}}
    }
    assert "as an upstream it makes a chain" in shown.err
    told = json.loads(run("probe", url, "--json").out)
    assert (told["kind"], told["version"], tomllib.loads(told["toml"])) == ("llmgate", "0.1.0", {})


def test_a_gate_with_keys_is_known_by_its_words(run: Any, serve: Any) -> None:
    url = serve({"GET /v1/models": (401, {"error": {"message": "llmgate: a valid key is needed (UNAUTHORIZED)"}})})
    said = run("probe", url).err
    assert said.startswith(f"llmgate: {url} is an llmgate, and asks for a key (status 401)")


def test_the_scheme_may_be_left_out(run: Any, serve: Any) -> None:
    assert run("probe", serve(LLAMA).removeprefix("http://")).status == 0


def test_a_key_is_sent_where_its_variable_is_named(run: Any, serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[str | None] = []
    url = serve(VLLM, keys)
    monkeypatch.setenv("THE_KEY", "hunter2")
    shown = run("probe", url, "--key-env", "THE_KEY")
    assert 'api_key_env = "THE_KEY"' in shown.out
    assert set(keys) == {"Bearer hunter2"}
    assert "hunter2" not in shown.out
    wrong = run("probe", url, "--key-env", "NO_SUCH_KEY")
    assert (wrong.status, "NO_SUCH_KEY is not set" in wrong.err) == (2, True)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"GET /v1/models": (401, {})}, "asks for a key (status 401)"),
        ({}, "is no server of language models that is known here: /v1/models gives status 404"),
        ({"GET /v1/models": (200, "<html>")}, "/v1/models gives status 200"),
        ({"GET /v1/models": (503, {})}, "answers, but not as a server of language models does"),
    ],
)
def test_what_is_no_server_that_can_be_used_is_told(run: Any, serve: Any, answers: Answers, said: str) -> None:
    done = run("probe", serve(answers))
    assert (done.status, done.out) == (1, "")
    assert said in done.err


def broken_handshake() -> ssl.SSLError:
    error = ssl.SSLError(1, "x")
    error.reason = "TLSV1_ALERT_INTERNAL_ERROR"
    return error


@contextmanager
def shut_port() -> Iterator[int]:
    """A port that is taken, and at which nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_that_nobody_listens_is_told(run: Any) -> None:
    with shut_port() as port:
        done = run("probe", f"http://127.0.0.1:{port}")
    assert (done.status, done.out) == (1, "")
    assert f"nobody listens at http://127.0.0.1:{port}; start the server" in done.err


def test_that_it_does_not_speak_tls_is_told(run: Any, serve: Any) -> None:
    done = run("probe", serve(LLAMA).replace("http:", "https:"))
    assert (done.status, done.out) == (1, "")
    assert "it speaks no TLS, as it seems; llmgate probe http://127.0.0.1:" in done.err


def test_nor_does_one_that_only_closes(run: Any) -> None:
    """As servers on asyncio do."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        closing = threading.Thread(target=_close_when_asked, args=(server,))
        closing.start()
        done = run("probe", f"https://127.0.0.1:{server.getsockname()[1]}")
        closing.join()
    assert (done.status, done.out) == (1, "")
    assert "it speaks no TLS, as it seems; llmgate probe http://127.0.0.1:" in done.err


def _close_when_asked(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(1 << 16)


@pytest.mark.parametrize(
    "said",
    [
        PLAIN_HTTP_HERE,
        "<center>The plain HTTP request was sent to HTTPS port</center>",
        "Client sent an HTTP request to an HTTPS server.\n",
    ],
)
def test_that_it_speaks_https_is_told(run: Any, serve: Any, said: str) -> None:
    url = serve(dict.fromkeys(("GET /v1/models", "POST /v1/messages", "GET /props", "GET /"), (400, said)))
    done = run("probe", url)
    secure = url.replace("http:", "https:")
    assert done == (1, "", f"llmgate: this port speaks HTTPS: llmgate probe {secure}\n")


def test_a_certificate_that_nobody_signed_is_told_with_what_trusts_it(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = make_pem().write(tmp_path)
    with serving(paths) as url:
        done = run("probe", url)
        assert (done.status, done.out) == (1, "")
        assert "its certificate is refused: self-signed certificate; " in done.err
        assert "SSL_CERT_FILE=FILE" in done.err
        assert "ca_file" in done.err
        monkeypatch.setenv("SSL_CERT_FILE", paths["tls_cert"])
        assert "certificate" not in run("probe", url).err


def test_a_certificate_for_another_name_is_not_told_to_be_trusted(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That would not help."""
    paths = make_pem(7, names="DNS:elsewhere").write(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", paths["tls_cert"])
    with serving(paths) as url:
        said = run("probe", url).err
    assert "its certificate is refused: IP address mismatch" in said
    assert "SSL_CERT_FILE" not in said


@pytest.mark.parametrize(
    ("url", "cause", "said"),
    [
        ("http://h", ConnectionResetError(), "answers, but not as a server"),
        ("https://h", ConnectionResetError(104, "x"), "no connection to https://h: Connection reset by peer"),
        ("https://h", broken_handshake(), "no secure connection to https://h: TLSV1_ALERT_INTERNAL_ERROR"),
    ],
)
def test_not_every_connection_that_breaks_speaks_no_tls(url: str, cause: OSError, said: str) -> None:
    error = UpstreamDown("llmgate: no connection to the upstream (UPSTREAM_DOWN)")
    error.__cause__ = cause
    assert said in explain(url, error)


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (socket.gaierror(-2, "x"), "the name h is not known to this machine"),
        (TimeoutError(), "does not answer in time"),
        (OSError(113, "x"), "no connection to http://h: No route to host"),
        (None, "answers, but not as a server of language models does: it broke off"),
    ],
)
def test_each_reason_has_its_words(cause: OSError | None, said: str) -> None:
    error = UpstreamFailed("llmgate: it broke off (UPSTREAM_ERROR)")
    error.__cause__ = cause
    assert said in explain("http://h", error)
    assert "in time" in explain(
        "http://h", UpstreamDown("llmgate: no connection to the upstream in time (UPSTREAM_DOWN)")
    )


@pytest.mark.parametrize("url", ["http://", "ftp://h", "http://user:pw@h", "h h"])
def test_what_is_no_url_is_a_usage_error(run: Any, url: str) -> None:
    done = run("probe", url)
    assert (done.status, done.out) == (2, "")
    assert "pw" not in done.err
