"""`llmgate doctor`: each thing that can be wrong is a finding with advice."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llmgate.adminapi import CertificateView, EndpointView
from llmgate.cli import doctor
from llmgate.cli.doctor import Finding, installation, upstream
from tests.cli.conftest import FakeDaemon, Run, status_of
from tests.cli.conftest import upstream as view_of

KNOCK = doctor.server_answers
LISTEN = ["http://127.0.0.1:8080", "http://[::1]:8081", "http://192.168.1.5:8080"]


@pytest.fixture(autouse=True)
def gates(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Where other gates answer; no upstream of these tests is asked."""
    found: set[str] = set()
    monkeypatch.setattr(doctor, "gate_at", lambda url: "0.1.0" if url in found else None)
    return found


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Servers that take no connection; no other is knocked at."""
    found: set[str] = set()
    monkeypatch.setattr(doctor, "server_answers", lambda url: url not in found)
    return found


@pytest.fixture
def port() -> Iterator[int]:
    """Somebody listens there."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    file = tmp_path / "llmgate.toml"
    file.write_text('[upstreams.a]\nurl = "http://127.0.0.1:1"\nmax_concurrent = 1\n')
    return file


def about(view: Any) -> list[tuple[str, str]]:
    return [(finding.state, finding.text) for finding in upstream(view, LISTEN)]


def test_a_sound_upstream() -> None:
    assert about(view_of("a", running=1, max_concurrent=2)) == [("ok", "ok, 1/2 slots, http://127.0.0.1:8000")]


@pytest.mark.parametrize(
    ("fields", "state", "said"),
    [
        ({"state": "down", "detail": "it takes no connection"}, "fail", "down: it takes no connection"),
        ({"state": "paused"}, "warn", "paused by an operator"),
        ({"state": "draining"}, "warn", "draining by an operator"),
        ({"state": "drained"}, "warn", "drained by an operator"),
        ({"alarms": ["mismatch: it has 1 slot"]}, "warn", "mismatch: it has 1 slot"),
        ({"detail": "b is down"}, "warn", "b is down"),
        ({"url": "http://localhost:8080"}, "fail", "http://localhost:8080 is where llmgate itself listens"),
        ({"url": "http://[::1]:8081/llm"}, "fail", "where llmgate itself listens"),
        ({"url": "http://192.168.1.5:8080"}, "fail", "where llmgate itself listens"),
    ],
)
def test_what_is_wrong_with_an_upstream(fields: dict[str, Any], state: str, said: str) -> None:
    ((found, text),) = about(view_of("a", **fields))
    assert found == state
    assert said in text


@pytest.mark.parametrize("url", ["http://127.0.0.1:8001", "http://192.168.1.6:8080", "http://gpu:8080"])
def test_another_server_is_no_loop(url: str) -> None:
    assert [state for state, _ in about(view_of("a", url=url))] == ["ok"]


def test_an_upstream_that_is_a_gate_makes_a_chain(gates: set[str]) -> None:
    view = view_of("a", url="http://gpu:8080")
    gates.add("http://gpu:8080")
    sound, (state, text) = about(view)
    assert (sound[0], state) == ("ok", "warn")
    assert text.startswith("http://gpu:8080 is an llmgate: that makes a chain")
    assert [state for state, _ in about(view_of("a", url="http://gpu:8080", state="down"))] == ["fail"]


def test_a_server_that_has_just_gone_is_told_before_the_daemon_knows(silent: set[str], gates: set[str]) -> None:
    silent |= {"http://a:1", "http://c:1"}
    gates.add("http://a:1")
    (finding,) = upstream(view_of("a", state="idle", url="http://a:1"), LISTEN)
    assert (finding.state, finding.advice.rpartition(": ")[2]) == ("fail", "llmgate probe http://a:1")
    assert finding.text == "http://a:1 takes no connection from here; the daemon has not noticed yet"
    three = [EndpointView(name=f"http://{host}:1", up=host != "c") for host in "abc"]
    found = about(view_of("a", url="http://a:1, http://b:1, http://c:1", endpoints=three))
    assert [(state, text.split()[0]) for state, text in found] == [("warn", "http://a:1")]


def test_a_server_is_knocked_at(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert KNOCK(f"http://127.0.0.1:{port}/llm")
    assert not KNOCK("http://127.0.0.1:1")
    asked: list[tuple[str, int]] = []

    def unknown(address: tuple[str, int], _: float) -> socket.socket:
        asked.append(address)
        raise socket.gaierror

    monkeypatch.setattr("socket.create_connection", unknown)
    assert KNOCK("https://ollama")  # the daemon may know it, as one of its container's network
    assert KNOCK("http://ollama")
    assert asked == [("ollama", 443), ("ollama", 80)]


def test_a_server_that_is_down_is_told_beside_what_an_operator_does() -> None:
    found = about(view_of("a", state="draining", up=False, detail="it takes no connection"))
    assert [state for state, _ in found] == ["fail", "warn"]
    assert found[0][1].startswith("down: it takes no connection")


def test_while_it_stops_no_operator_drains() -> None:
    (finding,) = upstream(view_of("a", state="draining"), LISTEN, stopping=True)
    assert (finding.text, finding.advice) == ("draining, as llmgate is stopping", "")
    (paused,) = upstream(view_of("a", state="paused"), LISTEN, stopping=True)
    assert paused.text == "paused by an operator"


def test_what_a_reload_took_away_is_not_an_operators_doing() -> None:
    (finding,) = upstream(view_of("a", state="draining", leaving=True), LISTEN)
    assert finding.text == "draining, as it is no longer in the settings"
    assert "resume" not in finding.advice
    assert finding.advice.endswith("put it back there, then: llmgate reload")


@pytest.mark.parametrize(
    ("alarm", "fields", "advice"),
    [
        ("mismatch: fewer slots (2) than", {}, "llmgate set a max_concurrent=2 --persist\nor start the server"),
        ("mismatch: fewer slots (0) than", {}, "llmgate set a max_concurrent=auto --persist\nor start the server"),
        (
            "mismatch: fewer slots (2) than",
            {"endpoints": [EndpointView(name="b", up=True)]},
            "lower max_concurrent of that",
        ),
        ("stalled: so", {}, ""),
    ],
)
def test_what_to_do_about_an_alarm(alarm: str, fields: Any, advice: str) -> None:
    (finding,) = upstream(view_of("a", alarms=[alarm], **fields), LISTEN)
    assert finding.advice[: len(advice) or None] == advice


def test_nothing_is_to_be_written_where_there_is_no_file() -> None:
    alarm = "mismatch: fewer slots (1) than"
    (finding,) = upstream(view_of("dead", alarms=[alarm]), LISTEN, has_file=False)
    assert finding.advice.splitlines()[:2] == [
        "llmgate set dead max_concurrent=1",
        "and start it with max_concurrent=1 the next time",
    ]


@pytest.mark.parametrize("state", ["active", "inactive"])
def test_a_port_that_systemd_holds_is_not_knocked_at(
    run: Run, settings: Path, tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    systemctl = tmp_path / "systemctl"
    shown = f"Listen=/run/x.sock (Stream)\\nListen=[::]:{port} (Stream)\\nActiveState={state}\\n"
    systemctl.write_text(f"#!/bin/sh\n[ $1 = --user ] && exec printf '{shown}'\nexit 1\n")
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    settings.write_text(f'[server]\nlisten = ["127.0.0.1:{port}"]\n' + settings.read_text())
    knocked: list[str] = []
    monkeypatch.setattr(doctor, "_answers", lambda url: bool(knocked.append(url)))
    ended = run("doctor", "--config", settings, "--socket", tmp_path / "admin.sock")
    said = f"ok    port: 127.0.0.1:{port} is held by llmgate.socket of systemd: the first who connects starts llmgate"
    assert (said in ended.out, knocked == []) == (state == "active", state == "active")


def test_two_owners_of_the_package() -> None:
    assert list(installation(["llmgated"])) == []
    (finding,) = installation(["llmgate", "llmgated"])
    assert finding.state == "fail"
    assert "pip uninstall llmgate llmgated" in finding.advice


def test_without_a_daemon_it_looks_at_ports_and_servers(run: Run, settings: Path, tmp_path: Path, port: int) -> None:
    settings.write_text(f'[server]\nlisten = ["127.0.0.1:{port}"]\n' + settings.read_text())
    ended = run("doctor", "--config", settings, "--socket", tmp_path / "admin.sock")
    assert ended.status == 1
    assert f"ok    settings: {settings}" in ended.out
    assert "fail  daemon: No daemon answers on" in ended.out
    assert f"fail  port: 127.0.0.1:{port} is taken by another program" in ended.out
    assert "fail  upstream a: nobody listens at http://127.0.0.1:1" in ended.out


def test_settings_that_cannot_be_used(run: Run, settings: Path, tmp_path: Path) -> None:
    settings.write_text("[upstreams.a]\nmax_concurrent = 1\n")
    ended = run("doctor", "--config", settings, "--socket", tmp_path / "admin.sock", "--json")
    told = json.loads(ended.out)
    assert (told["schema"], told["ok"]) == (1, False)
    assert told["findings"][0]["what"] == "settings"
    assert f"{settings}:" in told["findings"][0]["text"]


def test_settings_that_cannot_be_used_do_not_hide_the_daemon(
    run: Run, daemon: FakeDaemon, settings: Path, port: int
) -> None:
    alarm = "mismatch: fewer slots (1) than"
    daemon.status = status_of(view_of("a", alarms=[alarm]), listen=[f"http://127.0.0.1:{port}"], config="")
    settings.write_text(f'[admin]\nsocket = "{daemon.socket}"\n[upstreams.a]\nurll = "x"\n')
    ended = run("doctor", "--config", settings)
    assert ended.status == 1
    assert f"fail  settings: {settings}:" in ended.out
    assert f"ok    port: http://127.0.0.1:{port}" in ended.out
    assert "--persist" not in ended.out


def test_a_sound_daemon(run: Run, daemon: FakeDaemon, settings: Path, port: int) -> None:
    daemon.status = status_of(view_of("a"), listen=[f"http://127.0.0.1:{port}"])
    ended = run("doctor", "--config", settings, "--socket", daemon.socket)
    assert ended.status == 0
    assert f"ok    port: http://127.0.0.1:{port}" in ended.out
    assert "fail" not in ended.out
    assert "fail" not in run("doctor", "-q", "--config", settings, "--socket", daemon.socket).out


def test_the_settings_are_those_of_the_daemon_that_runs(
    run: Run, daemon: FakeDaemon, settings: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.status = status_of(view_of("a"), listen=[f"http://127.0.0.1:{port}"], config=str(settings))
    line = ("doctor", "--socket", daemon.socket)
    assert run(*line).out.splitlines()[0] == f"ok    settings: {settings}"
    settings.write_text("x = 1\n")
    broken = run(*line)
    assert broken.out.splitlines()[0].startswith(f"warn  settings: {settings}:1: unknown key x")
    assert f"process {daemon.status.pid}" in broken.out
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert "which only others may read: not looked at" in run(*line).out.splitlines()[0]
    daemon.status = status_of(view_of("a"), listen=[f"http://127.0.0.1:{port}"], config="")
    assert run(*line).out.startswith("ok    settings: the daemon reads no file: its command line,")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"version": "9.9.9"}, "the daemon is llmgate 9.9.9"),
        ({"may_act": False}, "you may look, not act"),
        ({"state": "stopping"}, "it is stopping"),
        ({"listen": ["http://127.0.0.1:1"]}, "http://127.0.0.1:1 takes no connection"),
    ],
)
def test_what_is_wrong_with_a_daemon(
    run: Run, daemon: FakeDaemon, settings: Path, port: int, fields: dict[str, Any], said: str
) -> None:
    daemon.status = status_of(view_of("a"), **{"listen": [f"http://127.0.0.1:{port}"]} | fields)
    assert said in run("doctor", "--config", settings, "--socket", daemon.socket).out


def test_fewer_slots_than_the_cap_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told(url: str, _: str) -> Any:
        from llmgate.cli.probe import Told

        return Told(url, "llama-server", 1, None, ())

    monkeypatch.setattr("llmgate.cli.probe.ask", told)
    assert doctor._server("a", "http://gpu", 1) == Finding("upstream a", "ok", "http://gpu answers")
    assert doctor._server("a", "http://gpu", 2).text == "http://gpu has 1 slot, fewer than max_concurrent = 2"
    assert doctor._server("a", "http://gpu", "auto").state == "ok"


def test_without_a_daemon_a_gate_is_known_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told(url: str, _: str) -> Any:
        from llmgate.cli.probe import Told

        return Told(url, "auto", None, True, (), "")

    monkeypatch.setattr("llmgate.cli.probe.ask", told)
    assert doctor._server("a", "http://gpu", 1).text.startswith("http://gpu is an llmgate: that makes a chain")


@pytest.mark.parametrize(
    ("until", "state", "said"),
    [
        ("2027-01-30T09:00:00Z", "ok", "for gate.lan, 10.0.0.1, until 2027-01-30"),
        ("2026-12-10T09:00:00Z", "warn", "that for gate.lan, 10.0.0.1 ends on 2026-12-10"),
        ("2026-11-29T09:00:00Z", "fail", "that for gate.lan, 10.0.0.1 is out of date since 2026-11-29"),
    ],
)
def test_a_certificate_that_ends_soon_is_told(until: str, state: str, said: str) -> None:
    shown = CertificateView(fingerprint="00", names=["gate.lan", "10.0.0.1"], expires_at=until)
    (found,) = doctor._certificate(status_of(certificate=shown))
    assert (found.what, found.state, found.text) == ("certificate", state, said)
    assert bool(found.advice) == (state != "ok")


def test_of_one_of_which_nothing_is_known_nothing_is_said() -> None:
    for shown in (None, CertificateView(fingerprint="")):
        assert list(doctor._certificate(status_of(certificate=shown))) == []
