"""`llmgate doctor`: looks at all that can be wrong from outside, and says for each thing what to do."""

import os
import socket as sockets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import typer

from llmgate.cli.context import Context, context_of, print_json, print_lines
from llmgate.cli.gates import CHAIN, gate_at, is_one_of
from llmgate.cli.table import paint
from llmgate.errors import DaemonNotRunning, LlmgateError, SettingsError

if TYPE_CHECKING:
    from llmgate.adminapi import Status, UpstreamView
    from llmgate.config.load import Loaded

STYLES = {"ok": "ok", "warn": "full", "fail": "down"}
PACKAGE = "llmgate"
LOOK_SECONDS = 2.0


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
    if status is not None and status.config and not os.access(status.config, os.R_OK):
        yield Finding("settings", "ok", f"{status.config}, which only others may read: not looked at")
    else:
        try:
            loaded = _load(context, status)
            yield from _settings(loaded, status)
        except SettingsError as error:
            yield _trouble("settings", error) if status is None else _unlike(error)
    if status is not None:
        yield from _daemon(status)
        for view in status.upstreams:
            yield from upstream(view, status.listen)
    elif trouble is not None and not isinstance(trouble, SettingsError):
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


def upstream(view: "UpstreamView", listen: list[str]) -> Iterator[Finding]:
    """What the daemon knows of one of its upstreams."""
    what = f"upstream {view.name}"
    loops = [url for url in _urls(view) if is_one_of(url, listen)]
    if loops:
        text = f"{loops[0]} is where llmgate itself listens: every request would go round in a circle"
        yield Finding(what, "fail", text, f"set upstreams.{view.name}.url to the address of the server behind")
    if view.is_down:
        advice = f"start the server, or look at its address: llmgate probe {view.url}"
        yield Finding(what, "fail", f"down: {view.detail or 'it takes no request'}", advice)
    if view.state in ("paused", "draining", "drained"):
        yield Finding(what, "warn", f"{view.state} by an operator", f"end that with: llmgate resume {view.name}")
    elif not view.is_down and not loops and not view.alarms and not view.detail:
        yield Finding(what, "ok", f"{view.state}, {view.running}/{view.max_concurrent or '-'} slots, {view.url}")
    if view.detail and not view.is_down:
        yield Finding(what, "warn", view.detail)
    for alarm in view.alarms:
        yield Finding(what, "warn", alarm)
    for url in _urls(view) if not view.is_down else ():
        if url not in loops and gate_at(url) is not None:
            yield _chain(what, url)


def _chain(what: str, url: str) -> Finding:
    return Finding(what, "warn", f"{url} is an llmgate: that makes {CHAIN}", "take the servers behind it instead")


def _urls(view: "UpstreamView") -> list[str]:
    return [view.url, *(endpoint.name for endpoint in view.endpoints if "://" in endpoint.name)]


def _without_daemon(loaded: "Loaded | None") -> Iterator[Finding]:
    """The ports that `serve` would want, and the servers that it would ask."""
    if loaded is None:
        return
    for address in loaded.settings.server.listen:
        url = address if address.startswith("unix:") else f"http://{address}"
        if _answers(url):
            advice = "end that program, or set server.listen to another port"
            yield Finding("port", "fail", f"{address} is taken by another program", advice)
    for name, settings in loaded.settings.upstreams.items():
        for endpoint in settings.all_endpoints:
            yield _server(name, endpoint.url, endpoint.max_concurrent)


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
        text = f"{url} has {told.slots} slots, fewer than max_concurrent = {max_concurrent}"
        return Finding(what, "warn", text, "what is above waits inside of the server, where nobody sees it")
    return Finding(what, "ok", f"{url} answers")
