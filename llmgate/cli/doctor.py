"""`llmgate doctor`: looks at all that can be wrong from outside, and says for each thing what to do."""

import os
import re
import shutil
import socket as sockets
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import typer

from llmgate.cli.context import Context, context_of, print_json, print_lines
from llmgate.cli.gates import CHAIN, gate_at, is_one_of
from llmgate.cli.table import NOT_GATED, counted, paint
from llmgate.errors import DaemonNotRunning, LlmgateError, SettingsError

if TYPE_CHECKING:
    from llmgate.adminapi import Status, UpstreamView
    from llmgate.config.load import Loaded

STYLES = {"ok": "ok", "warn": "full", "fail": "down"}
PACKAGE = "llmgate"
SOCKET_UNIT = "llmgate.socket"
LOOK_SECONDS = 2.0
_TOLD_SLOTS = re.compile(r"\((\d+)\)")
RENEW_DAYS = 14
"""Whoever renews by itself has done so long before: of 90 days a third is left then."""


@dataclass(frozen=True)
class Finding:
    """What was looked at and how it is; `advice` is what to do about it, "" where nothing is to be done."""

    what: str
    state: Literal["ok", "warn", "fail"]
    text: str
    advice: str = ""


def doctor(ctx: typer.Context) -> None:
    """Look for what is wrong, and say what to do about it.

    Settings, admin socket, ports, each upstream and its slots, loops, the installation. Exit status 1: something has to
    be done.

    \b
    Example:
      llmgate doctor
    """
    context = context_of(ctx)
    findings = list(examine(context))
    failed = any(finding.state == "fail" for finding in findings)
    if context.json:
        print_json({"ok": not failed, "findings": [vars(finding) for finding in findings]})
    else:
        print_lines(_lines(findings, context))
    if failed:
        raise typer.Exit(1)


def _lines(findings: Iterable[Finding], context: Context) -> Iterator[str]:
    from llmgate.tui.cells import clean

    for finding in findings:
        if finding.state == "ok" and context.quiet:
            continue
        state = paint(f"{finding.state:<4}", STYLES[finding.state], context.color)
        yield f"{state}  {finding.what}: {clean(finding.text)}"
        yield from (f"      {clean(line)}" for line in finding.advice.splitlines())


def examine(context: Context) -> Iterator[Finding]:
    """Everything, one after the other; what cannot be looked at is a finding, too."""
    yield from installation(_owners())
    status: Status | None = None
    trouble: LlmgateError | None = None
    try:
        status = context.client("doctor").status()
    except LlmgateError as error:
        trouble = error
    loaded: Loaded | None = None
    own = status is not None and _is_its_own(context, status)
    if status is not None and status.config and own and not os.access(status.config, os.R_OK):
        yield Finding("settings", "ok", f"{status.config}, which only others may read: not looked at")
    else:
        try:
            loaded = _load(context, status)
            yield from _settings(loaded, status)
        except SettingsError as error:
            yield _unlike(error) if own else _trouble("settings", error)
    if status is not None:
        yield from _daemon(status)
        for view in status.upstreams:
            yield from upstream(view, status.listen, stopping=status.state != "running", has_file=bool(status.config))
    elif trouble is not None:
        yield _trouble("daemon", trouble)
        if isinstance(trouble, DaemonNotRunning):
            yield from _without_daemon(loaded)


def _trouble(what: str, error: LlmgateError) -> Finding:
    first, *rest = str(error).removeprefix("llmgate: ").splitlines()
    return Finding(what, "fail", first, "\n".join(filter(None, rest)))


def _unlike(error: SettingsError) -> Finding:
    """The daemon has read them, in its own environment; they may have been changed since."""
    advice = "the daemon goes on with what it has read; a variable or a key file that only it can see is no mistake"
    return Finding("settings", "warn", str(error).removeprefix("llmgate: "), advice)


def _is_its_own(context: Context, status: "Status") -> bool:
    """Whether the settings looked at are those that the daemon runs with."""
    return context.config is None or (bool(status.config) and context.config.absolute() == Path(status.config))


def _load(context: Context, status: "Status | None") -> "Loaded":
    """Those that are named, else the file that the running daemon reads, else what `serve` would find."""
    from llmgate.config.load import load

    running = Path(status.config) if status is not None and status.config else None
    return load(context.config or running, environ=os.environ)


def _owners() -> list[str]:
    import importlib.metadata

    return sorted(set(importlib.metadata.packages_distributions().get(PACKAGE, [])))


def installation(owners: list[str]) -> Iterator[Finding]:
    """Another distribution of that name would be imported in our place, or be overwritten by us."""
    if len(owners) > 1:
        yield Finding(
            "installation",
            "fail",
            f"the package {PACKAGE} belongs to {' and '.join(owners)}",
            f"remove the other one, then install llmgated again: pip uninstall {' '.join(owners)}",
        )


def _settings(loaded: "Loaded", status: "Status | None") -> Iterator[Finding]:
    where = str(loaded.path) if loaded.path else "no file: defaults and environment"
    if status is not None and not status.config:
        where = "the daemon reads no file: its command line, defaults and environment"
    yield Finding("settings", "ok", where)
    for warning in loaded.warnings:
        yield Finding("settings", "warn", warning.removeprefix("llmgate: "))


def _daemon(status: "Status") -> Iterator[Finding]:
    settings = f", settings {status.config}" if status.config else ""
    text = f"llmgate {status.version} runs as process {status.pid}, socket {status.socket}{settings}"
    yield Finding("daemon", "ok", text)
    from llmgate import __version__

    if status.version != __version__:
        text = f"the daemon is llmgate {status.version}, this command is {__version__}"
        yield Finding("daemon", "warn", text, "restart the daemon, so that the installed version runs")
    if not status.may_act:
        yield Finding("daemon", "warn", "you may look, not act", "act as the daemon's user, or as root")
    if status.state != "running":
        yield Finding("daemon", "warn", f"it is {status.state}")
    for address in status.listen:
        yield (
            Finding("port", "ok", address)
            if _answers(address)
            else Finding("port", "fail", f"{address} takes no connection", "is a firewall in between?")
        )
    yield from _certificate(status)


def _certificate(status: "Status") -> Iterator[Finding]:
    from datetime import datetime

    shown = status.certificate
    if shown is None or not shown.expires_at:
        return
    left = (datetime.fromisoformat(shown.expires_at) - datetime.fromisoformat(status.now_at)).days
    names = ", ".join(shown.names) or "no name"
    if left >= RENEW_DAYS:
        yield Finding("certificate", "ok", f"for {names}, until {shown.expires_at[:10]}")
    else:
        ends = "is out of date since" if left < 0 else "ends on"
        advice = "renew it, then: llmgate reload"
        text = f"that for {names} {ends} {shown.expires_at[:10]}"
        yield Finding("certificate", "fail" if left < 0 else "warn", text, advice)


def _answers(address: str) -> bool:
    """Whether a connection to where the daemon says that it listens is taken."""
    try:
        if address.startswith("unix:"):
            with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as knocking:
                knocking.settimeout(LOOK_SECONDS)
                knocking.connect(address.removeprefix("unix:"))
        else:
            parts = urlsplit(address)
            sockets.create_connection((_here(parts.hostname), parts.port), LOOK_SECONDS).close()
    except OSError:
        return False
    return True


def _here(host: str | None) -> str:
    """Where this machine reaches what listens on all of its addresses."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host or "", host or "")  # noqa: S104


def upstream(
    view: "UpstreamView", listen: list[str], *, stopping: bool = False, has_file: bool = True
) -> Iterator[Finding]:
    """What the daemon knows of one of its upstreams, and whether its server is there; `stopping`: it lets all of them
    run empty; `has_file`: it has a settings file."""
    what = f"upstream {view.name}"
    loops = [url for url in _urls(view) if is_one_of(url, listen)]
    if loops:
        text = f"{loops[0]} is where llmgate itself listens: every request would go round in a circle"
        yield Finding(what, "fail", text, f"set upstreams.{view.name}.url to the address of the server behind")
    if view.is_down:
        yield Finding(what, "fail", f"down: {view.detail or 'it takes no request'}", _start(view.url))
    sound, unheard = _knock_at(view, loops)
    yield from unheard
    if stopping and view.state in ("draining", "drained"):
        yield Finding(what, "warn", f"{view.state}, as llmgate is stopping")
    elif view.leaving:
        advice = "it goes when its last request is over; to keep it put it back there, then: llmgate reload"
        yield Finding(what, "warn", f"{view.state}, as it is no longer in the settings", advice)
    elif view.state in ("paused", "draining", "drained"):
        yield Finding(what, "warn", f"{view.state} by an operator", f"end that with: llmgate resume {view.name}")
    elif not view.is_down and not loops and not unheard and not view.alarms and not view.detail:
        yield Finding(what, "ok", f"{view.state}, {_slots(view)}, {view.url}")
    if view.detail and not view.is_down:
        yield Finding(what, "warn", view.detail)
    for alarm in view.alarms:
        yield Finding(what, "warn", alarm, _remedy(alarm, view, has_file=has_file))
    yield from (_chain(what, url) for url in sound if gate_at(url) is not None)


def _knock_at(view: "UpstreamView", loops: list[str]) -> tuple[list[str], list[Finding]]:
    """Its servers that take a connection, and what to say of those that do not: the daemon looks every few seconds."""
    if view.is_down:
        return [], []
    down = {endpoint.name for endpoint in view.endpoints if not endpoint.up}
    urls = [url for url in _urls(view) if url not in down and url not in loops]
    silent = [url for url in urls if not server_answers(url)]
    state: Literal["warn", "fail"] = "warn" if len(view.endpoints) > 1 else "fail"
    text = "takes no connection from here; the daemon has not noticed yet"
    unheard = [Finding(f"upstream {view.name}", state, f"{url} {text}", _start(url)) for url in silent]
    return [url for url in urls if url not in silent], unheard


def _start(url: str) -> str:
    return f"start the server, or look at its address: llmgate probe {url}"


def server_answers(url: str) -> bool:
    """Whether something takes a connection there. True where this machine does not know the name: the daemon may."""
    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        sockets.create_connection((parts.hostname or "", port), LOOK_SECONDS).close()
    except (sockets.gaierror, ValueError):
        return True
    except OSError:
        return False
    return True


def _remedy(alarm: str, view: "UpstreamView", *, has_file: bool) -> str:
    """What to do about an alarm; "" where nothing can be said for sure."""
    if not alarm.startswith("mismatch:"):
        return ""
    told = _TOLD_SLOTS.search(alarm)
    if view.endpoints:
        lower = "lower max_concurrent of that endpoint in the settings, then: llmgate reload"
    else:
        limit = f"max_concurrent={told[1] if told and told[1] != '0' else 'auto'}"
        lower = f"llmgate set {view.name} {limit}{' --persist' if has_file else ''}"
        lower += "" if has_file else f"\nand start it with {limit} the next time"
    return f"{lower}\nor start the server with more slots"


def _slots(view: "UpstreamView") -> str:
    taken = view.running + view.draining
    return f"{taken}/{view.max_concurrent} slots" if view.max_concurrent else f"{taken} running, {NOT_GATED}"


def _chain(what: str, url: str) -> Finding:
    return Finding(what, "warn", f"{url} is an llmgate: that makes {CHAIN}", "take the servers behind it instead")


def _urls(view: "UpstreamView") -> list[str]:
    """Of one with endpoints `url` has all of theirs."""
    named = (endpoint.name for endpoint in view.endpoints if "://" in endpoint.name)
    return list(dict.fromkeys([*view.url.split(", "), *named]))


def _without_daemon(loaded: "Loaded | None") -> Iterator[Finding]:
    """The ports that `serve` would want, and the servers that it would ask."""
    if loaded is None:
        return
    held = {port for scope in ((), ("--user",)) for port in _held_by_systemd(scope)}
    for address in loaded.settings.server.listen:
        if _port_of(address) in held:
            text = f"{address} is held by {SOCKET_UNIT} of systemd: the first who connects starts llmgate"
            yield Finding("port", "ok", text)
            continue
        url = address if address.startswith("unix:") else f"http://{address}"
        if not address.startswith("fd:") and _answers(url):
            advice = "end that program, or set server.listen to another port"
            yield Finding("port", "fail", f"{address} is taken by another program", advice)
    for name, settings in loaded.settings.upstreams.items():
        for endpoint in settings.all_endpoints:
            yield _server(name, endpoint.url, endpoint.max_concurrent)


def _held_by_systemd(scope: tuple[str, ...]) -> Iterator[str]:
    """Ports and paths of our socket unit, if it is active. It is asked, since whoever knocks there starts the daemon.

    `systemctl show` prints a line `Listen=127.0.0.1:8080 (Stream)` for each.
    """
    systemctl = shutil.which("systemctl")
    if systemctl is None:
        return
    command = [systemctl, *scope, "show", SOCKET_UNIT, "--property=ActiveState,Listen"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=LOOK_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return
    lines = asked.stdout.splitlines()
    if "ActiveState=active" in lines:
        listens = (line.removeprefix("Listen=") for line in lines if line.startswith("Listen="))
        yield from (_port_of(listen.partition(" (")[0]) for listen in listens)


def _port_of(address: str) -> str:
    """The port, whatever the host: systemd writes that in its own way; of a Unix socket its path."""
    return address.rpartition(":")[2]


def _server(name: str, url: str, max_concurrent: int | str) -> Finding:
    import asyncio

    from llmgate.cli.probe import ask, explain
    from llmgate.errors import GateError

    what = f"upstream {name}"
    try:
        told = asyncio.run(ask(url, ""))
    except GateError as error:
        return Finding(what, "fail", explain(url, error).removeprefix("llmgate: "))
    except LlmgateError as error:
        return Finding(what, "warn", str(error).removeprefix("llmgate: "))
    if told.gate is not None:
        return _chain(what, url)
    if isinstance(max_concurrent, int) and told.slots is not None and told.slots < max_concurrent:
        text = f"{url} has {counted(told.slots, 'slot')}, fewer than max_concurrent = {max_concurrent}"
        return Finding(what, "warn", text, "what is above waits inside of the server, where nobody sees it")
    return Finding(what, "ok", f"{url} answers")
