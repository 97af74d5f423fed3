"""One call over the admin socket, now or in a loop. httpx is imported by the first one."""

import os
import socket as sockets
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, cast

from llmgate.adminclient.complaint import check_answer, decode, explain

ORIGIN = "http://localhost"
ANSWER_SECONDS = 5.0
SHORTEST_SECONDS = 1.0
"""A call gets so long in any case: with hardly any time left it would fail where a daemon is there, but busy."""

Kind = TypeVar("Kind")


class Ask(NamedTuple, Generic[Kind]):
    """What one call asks for, and the type of its answer; `bytes` is what is no view."""

    kind: type[Kind]
    method: str
    path: str
    query: Mapping[str, str] = {}
    body: Any = None
    patience: float = 1.0
    """How many times as long as usual the answer may take."""


def perform(
    ask: Ask[Kind],
    socket: Path,
    command: str,
    limit: float | None = None,
    told: Callable[[str], None] | None = None,
    settings: Path | None = None,
) -> Kind:
    """Raises DaemonNotRunning when nobody answers, DaemonSilent when that takes too long (`limit` in seconds, where it
    is less than usual), AdminError for everything else. `told` hears how it was answered."""
    import httpx

    seconds = _seconds(ask, limit)
    try:
        _knock(socket, seconds)
        transport = httpx.HTTPTransport(uds=os.fspath(socket), verify=no_tls())
        with httpx.Client(transport=transport, trust_env=False, timeout=seconds) as client:
            answer = client.request(ask.method, ORIGIN + ask.path, params=dict(ask.query), json=ask.body)
    except (httpx.HTTPError, OSError) as error:
        raise explain(error, socket, command, settings) from error
    if told is not None:
        told(_account(ask, answer, socket))
    return _read(ask, answer, socket)


async def perform_async(
    ask: Ask[Kind],
    socket: Path,
    command: str,
    limit: float | None = None,
    told: Callable[[str], None] | None = None,
    settings: Path | None = None,
) -> Kind:
    """As `perform`, without holding up the loop."""
    import httpx

    seconds = _seconds(ask, limit)
    try:
        _knock(socket, seconds)
        transport = httpx.AsyncHTTPTransport(uds=os.fspath(socket), verify=no_tls())
        async with httpx.AsyncClient(transport=transport, trust_env=False, timeout=seconds) as client:
            answer = await client.request(ask.method, ORIGIN + ask.path, params=dict(ask.query), json=ask.body)
    except (httpx.HTTPError, OSError) as error:
        raise explain(error, socket, command, settings) from error
    if told is not None:
        told(_account(ask, answer, socket))
    return _read(ask, answer, socket)


def _account(ask: Ask[Any], answer: Any, socket: Path) -> str:
    """ "/run/llmgate/admin.sock: GET /v1/status: 200 after 3 ms, 812 bytes"."""
    took = answer.elapsed.total_seconds() * 1000
    asked = f"{ask.method} {answer.request.url.raw_path.decode('ascii')}"
    return f"{socket}: {asked}: {answer.status_code} after {took:.0f} ms, {len(answer.content):,} bytes"


def _read(ask: Ask[Kind], answer: Any, socket: Path) -> Kind:
    check_answer(answer.status_code, answer.content, socket, f"{ask.method} {ask.path}")
    if ask.kind is bytes:
        return cast("Kind", answer.content)
    return decode(answer.content, ask.kind, socket)


def _seconds(ask: Ask[Kind], limit: float | None) -> float:
    """How long each step of a call may take."""
    usual = ANSWER_SECONDS * ask.patience
    return usual if limit is None else min(usual, max(limit, SHORTEST_SECONDS))


def _knock(path: Path, seconds: float) -> None:
    """Connects and hangs up: httpcore 1.0 leaves a Unix socket open on which it could not connect."""
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as knocking:
        knocking.settimeout(min(seconds, ANSWER_SECONDS))
        knocking.connect(os.fspath(path))


def no_tls() -> ssl.SSLContext:
    """An empty context: httpx would otherwise read all certificate authorities, for a socket without TLS."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
