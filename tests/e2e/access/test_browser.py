"""F63 in a real browser: a page of another origin cannot ask, one whose origin is allowed streams and reads headers."""

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


@pytest.fixture
def browser() -> str:
    found = find_browser()
    if found is None:
        pytest.skip("no chromium: apt-get install chromium")
    return found


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
                assert turn.request.header(b"x-api-key") is None
                await turn.complete()
                found = await friend.report()
            assert (found.get("error"), found["status"]) == (None, 200)
            assert found["id"].startswith("req_")
            assert "message_stop" in found["text"]
            assert (found["refused"], found["code"]) == (401, "UNAUTHORIZED")
