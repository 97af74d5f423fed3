"""F63 in a real browser: a page of another origin cannot ask, one whose origin is allowed streams and reads headers.

The official SDKs run in such a page as well, from the packages that `make clients` installs.
"""

import functools
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Site, browsing, find_browser
from gateprocess import GateProcess
from hands import Hands
from keysfile import keys_file

from tests.e2e.access.conftest import LAPTOP

pytestmark = pytest.mark.slow

EVIL_PAGE = """<!doctype html><script>
const body = JSON.stringify({model: "m", max_tokens: 16, stream: true, messages: [{role: "user", content: "hi"}]});
const url = "http://127.0.0.1:PORT/v1/messages";
async function attempt(name, options) {
  try {
    const answer = await fetch(url, {method: "POST", body, ...options});
    return [name, answer.type, answer.status];
  } catch (error) { return [name, "refused", 0]; }
}
async function attack() {
  const found = [
    await attempt("no-cors", {mode: "no-cors", headers: {"content-type": "text/plain"}}),
    await attempt("simple", {headers: {"content-type": "text/plain"}}),
    await attempt("json", {headers: {"content-type": "application/json", "x-api-key": "KEY"}}),
    ["beacon", String(navigator.sendBeacon(url, body)), 0],
  ];
  const form = document.createElement("form");
  form.method = "post"; form.action = url; form.enctype = "text/plain"; form.target = "frame";
  const field = document.createElement("input"); field.name = body; form.append(field);
  const frame = document.createElement("iframe"); frame.name = "frame";
  const loaded = new Promise(done => { frame.onload = done; });
  document.body.append(frame, form); form.submit(); await loaded;
  try { await fetch("http://127.0.0.1:PORT/v1/models", {mode: "cors"}); found.push(["list", "read", 0]); }
  catch (error) { found.push(["list", "refused", 0]); }
  await fetch("/report", {method: "POST", body: JSON.stringify(found)});
}
addEventListener("load", attack);
</script><body>"""

FRIENDLY_PAGE = """<!doctype html><script>
async function ask() {
  const body = JSON.stringify({model: "m", max_tokens: 16, stream: true, messages: [{role: "user", content: "hi"}]});
  const headers = {"content-type": "application/json", "x-api-key": "KEY", "anthropic-version": "2023-06-01",
    "anthropic-dangerous-direct-browser-access": "true", "x-stainless-os": "Unknown"};
  const found = {};
  try {
    const answer = await fetch("http://127.0.0.1:PORT/llm/v1/messages", {method: "POST", body, headers});
    found.status = answer.status;
    found.id = answer.headers.get("llmgate-request-id");
    found.text = await answer.text();
    const refused = await fetch("http://127.0.0.1:PORT/llm/v1/messages", {method: "POST", body,
      headers: {...headers, "x-api-key": "wrong"}});
    found.refused = refused.status;
    found.code = refused.headers.get("llmgate-code");
  } catch (error) { found.error = String(error); }
  await fetch("/report", {method: "POST", body: JSON.stringify(found)});
}
addEventListener("load", ask);
</script><body>"""

SDK_PAGE = """<!doctype html><script type="importmap">IMPORTS</script><script type="module">
const report = (what) => fetch("/report", { method: "POST", body: JSON.stringify(what) });
const found = {};
try {
  const { default: Client } = await import("NAME");
  const client = new Client({ baseURL: "http://127.0.0.1:PORT/llmBASE", apiKey: "KEY", maxRetries: 0,
    dangerouslyAllowBrowser: true });
  await report("loaded");
  const request = { model: "m", max_tokens: 16, messages: [{ role: "user", content: "hi" }] };
  const stream = client.SURFACE.stream(request);
  for await (const event of stream) found.last = event.type ?? event.choices[0].finish_reason;
  found.text = await stream.FINISHED;
} catch (error) { found.error = String(error); }
await report(found);
</script><body>"""

SDKS = {
    "@anthropic-ai/sdk": {"BASE": "", "SURFACE": "messages", "FINISHED": "finalText()"},
    "openai": {"BASE": "/v1", "SURFACE": "chat.completions", "FINISHED": "finalContent()"},
}
HEARD = {
    "@anthropic-ai/sdk": {"last": "message_stop", "text": "Hello there"},
    "openai": {"last": "stop", "text": "Hello"},
}
PACKAGES = Path(__file__).parents[2] / "clients/js/node_modules"


@pytest.fixture
def browser() -> str:
    found = find_browser()
    if found is None:
        pytest.skip("no chromium: apt-get install chromium")
    return found


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files to pages of every origin."""

    def end_headers(self) -> None:
        self.send_header("access-control-allow-origin", "*")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Not to the test's output."""


@pytest.fixture
def imports() -> Iterator[str]:
    """An import map for the installed packages, as a bundler for browsers would see them."""
    assert PACKAGES.is_dir(), f"no packages in {PACKAGES.parent}: run `make clients`, or `npm ci` there"
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=PACKAGES)) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        root = f"http://127.0.0.1:{server.server_address[1]}"
        sdk = f"{root}/@anthropic-ai/sdk"
        names = {
            "openai": f"{root}/openai/index.mjs",
            "@anthropic-ai/sdk": f"{sdk}/index.mjs",
            f"{sdk}/internal/node.mjs": f"{sdk}/internal/node.browser.mjs",  # what its package.json says for browsers
            "@opentelemetry/api": f"{root}/@opentelemetry/api/dist/index.mjs",
            "standardwebhooks": "data:text/javascript,export class Webhook {}",  # no module, and not used here
        }
        yield json.dumps({"imports": names})
        server.shutdown()


def page(text: str, gate: GateProcess, key: str = LAPTOP) -> bytes:
    return text.replace("PORT", str(gate.port)).replace("KEY", key).encode()


async def test_f63_a_page_of_another_origin_gets_nowhere(folder: Path, hands: Hands, browser: str) -> None:
    upstreams = {"up": {"url": hands.url, "models": ["m"], "max_concurrent": 1}}
    with GateProcess(folder, {"upstreams": upstreams}) as gate, Site() as evil:
        evil.page = page(EVIL_PAGE, gate)
        with browsing(browser, folder / "profile", evil.origin):
            found = {name: told for name, *told in await evil.report()}
        assert found.pop("beacon") == ["true", 0]  # it was sent, and nobody tells what became of it
        assert found.pop("no-cors") == ["opaque", 0]
        assert found == {"simple": ["refused", 0], "json": ["refused", 0], "list": ["refused", 0]}
        assert "(ORIGIN_NOT_ALLOWED)" in gate.log
        await hands.wait(lambda: hands.connections == [])
        assert gate.requests("done") == []


async def test_f63_an_allowed_page_streams(folder: Path, hands: Hands, browser: str) -> None:
    upstreams = {"up": {"url": hands.url, "models": ["m"], "max_concurrent": 1}}
    with Site() as friend:
        server = {"keys_file": keys_file(folder, a={"key": LAPTOP}), "cors": {"origins": [friend.origin]}}
        with GateProcess(folder, {"server": server, "upstreams": upstreams}) as gate:
            friend.page = page(FRIENDLY_PAGE, gate)
            with browsing(browser, folder / "profile", friend.origin):
                turn = await hands.turn()
                assert turn.request.header(b"x-api-key") != LAPTOP.encode()
                await turn.complete()
                found = await friend.report()
            assert (found.get("error"), found["status"]) == (None, 200)
            assert found["id"].startswith("req_")
            assert "message_stop" in found["text"]
            assert (found["refused"], found["code"]) == (401, "UNAUTHORIZED")


@pytest.mark.parametrize("sdk", SDKS)
async def test_the_sdk_streams_in_an_allowed_page_what_it_had_to_wait_for(
    folder: Path, hands: Hands, browser: str, imports: str, sdk: str
) -> None:
    upstreams = {"up": {"url": hands.url, "models": ["m"], "max_concurrent": 1, "release_timeout": "5ms"}}
    with Site() as friend:
        server = {"keys_file": keys_file(folder, a={"key": LAPTOP}), "cors": {"origins": [friend.origin]}}
        settings = {"server": server, "waiting": {"heartbeat": "100ms"}, "upstreams": upstreams}
        with GateProcess(folder, settings) as gate:
            for waiting in range(2):
                await gate.ask("m", headers={"x-api-key": LAPTOP})
                await gate.wait_waiting("up", waiting)
            text = SDK_PAGE
            for name, value in {"IMPORTS": imports, "NAME": sdk, **SDKS[sdk]}.items():
                text = text.replace(name, value)
            friend.page = page(text, gate)
            with browsing(browser, folder / "profile", friend.origin):
                assert await friend.report() == "loaded"
                await gate.wait_waiting("up", 2)
                await (await hands.turn()).complete()
                await gate.wait(lambda: gate.requests("waiting")[-1]["queue_frames"] == 2)
                await (await hands.turn()).complete()
                turn = await hands.turn()
                assert turn.request.header(b"origin") is None
                await turn.complete()
                assert await friend.report() == HEARD[sdk]
