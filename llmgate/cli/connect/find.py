"""Finds what clients must know of the gate: the running daemon tells it, else the settings, else it is guessed."""

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from llmgate.cli.connect.target import KEY_VARIABLE, NO_KEY_STATUS, Target, key_advice
from llmgate.cli.context import Context
from llmgate.errors import AdminError, LlmgateError, SettingsError

if TYPE_CHECKING:
    from llmgate.adminapi import Status
    from llmgate.config.settings import Settings

DEFAULT_ROOT = "http://127.0.0.1:8080/llm"
LOOK_SECONDS = 5.0
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104  where it listens; this machine reaches it here


@dataclass(frozen=True)
class Found:
    """`source` says where the target comes from, for a person."""

    target: Target
    source: str
    config: str = ""
    """The path of the settings that are in force there, "" where that is not known."""


@dataclass(frozen=True)
class Listed:
    """What the front door says of its models: the first of them.

    `key_needed`: it has keys; `refused`: it wants another one than it was shown, and tells nothing.
    """

    model: str = ""
    context_window: int | None = None
    max_output_tokens: int | None = None
    key_needed: bool = False
    refused: bool = False


def find(context: Context, base_url: str | None, model: str | None) -> Found:
    """Options win. A daemon that --socket names must run, and answer this user."""
    try:
        status = context.client("connect").status()
    except AdminError:
        if context.socket is not None:
            raise
        return _from_settings(context, base_url, model)
    here = base_url or root_of(status.listen, status.path_prefix)
    shown = status.certificate
    listed = ask_models(here, model, shown.fingerprint if shown is not None else "")
    target = Target(
        root=base_url or under_its_name(here, shown.names if shown is not None else ()),
        model=model or listed.model or Target.model,
        queue_timeout=longest(
            None if upstream.queue_timeout_ms is None else upstream.queue_timeout_ms / 1000
            for upstream in status.upstreams
        ),
        key_needed=listed.key_needed,
        context_window=listed.context_window,
        max_output_tokens=listed.max_output_tokens,
    )
    return Found(target, f"from the daemon that runs, process {status.pid}", status.config)


def find_running(context: Context, base_url: str | None, model: str | None) -> Target:
    """Of a daemon that must run, unless its URL and model are given."""
    if base_url is not None and model is not None:
        return Target(base_url, model)
    status: Status = context.client("try").status()
    root = base_url or root_of(status.listen, status.path_prefix)
    fingerprint = status.certificate.fingerprint if status.certificate is not None else ""
    listed = ask_models(root, None, fingerprint) if model is None else Listed(model)
    if listed.refused:
        raise LlmgateError(f"llmgate: the gate at {root} asks for a key{key_advice()}")
    if not listed.model:
        raise LlmgateError("llmgate: no model is listed yet; name one, such as: llmgate try MODEL")
    return Target(root, listed.model, fingerprint=fingerprint)


def _from_settings(context: Context, base_url: str | None, model: str | None) -> Found:
    settings, source = _settings(context)
    target = Target(
        root=base_url
        or root_of(settings.server.listen, settings.server.path_prefix, secure=settings.server.tls_cert is not None),
        model=model or _first_model(settings) or Target.model,
        queue_timeout=longest(upstream.queue_timeout for upstream in settings.upstreams.values()),
        key_needed=bool(getattr(settings.server, "keys_file", None)),
    )
    return Found(target, source)


def _settings(context: Context) -> tuple["Settings", str]:
    """Those of the daemon if it were started here, and where they come from. What cannot be used is no hindrance: keys
    that the daemon has need not be known to whoever asks it."""
    from llmgate.config.load import load
    from llmgate.config.settings import Settings

    try:
        loaded = load(context.config, environ=os.environ)
    except SettingsError as error:
        if context.config is not None:
            raise
        why = str(error).splitlines()[0].removeprefix("llmgate: ")
        return Settings(), f"no daemon answers, and the settings cannot be used ({why}): a guess"
    if loaded.path is None:
        return loaded.settings, "no daemon answers and there are no settings: a guess"
    return loaded.settings, f"no daemon answers; from {loaded.path}"


def root_of(listens: Iterable[str], prefixes: Iterable[str], *, secure: bool = False) -> str:
    """The base URL of the first address that has one; `secure`: that of an address without a scheme is https.
    LlmgateError where all are Unix sockets."""
    address = next((each for each in listens if not each.startswith(("unix:", "fd:"))), None)
    if address is None:
        raise LlmgateError(
            "llmgate: the gate listens on a Unix socket only, which few clients can use; add an address such as "
            "127.0.0.1:8080 to listen, or say with --base-url how it is reached"
        )
    scheme, told, bare = address.rpartition("://")
    host, _, port = bare.rpartition(":")
    scheme = scheme if told else "https" if secure else "http"
    return f"{scheme}://{_ANYWHERE.get(host, host)}:{port}{next(iter(prefixes), '')}"


def under_its_name(root: str, names: Collection[str]) -> str:
    """As clients should call it: where its certificate is not for the address, by the first name that it is for."""
    from llmgate.core.access import is_address

    parts = urlsplit(root)
    plain = [name for name in names if "*" not in name and not is_address(name)]
    if not plain or parts.hostname in names:
        return root
    return parts._replace(netloc=f"{plain[0]}:{parts.port}" if parts.port else plain[0]).geturl()


def longest(timeouts: Iterable[float | None]) -> float | None:
    """The wait that a client must expect, whichever upstream it gets; None = for ever."""
    known = list(timeouts)
    return None if None in known or not known else max(each for each in known if each is not None)


def _first_model(settings: "Settings") -> str:
    from llmgate.core.routing import is_glob

    names = (name for upstream in settings.upstreams.values() for name in (*upstream.models, *upstream.aliases))
    return next((name for name in names if not is_glob(name)), "")


def ask_models(root: str, model: str | None, fingerprint: str = "") -> Listed:
    """What GET /v1/models says of this model, or of the first; nothing where it does not answer in time.
    `fingerprint`: see trust.trusted."""
    import httpx

    from llmgate.cli.trust import trusted

    headers = {"authorization": f"Bearer {key}"} if (key := os.environ.get(KEY_VARIABLE)) else {}
    try:
        verify = trusted(root, fingerprint)
        answer = httpx.get(f"{root}/v1/models", headers=headers, timeout=LOOK_SECONDS, trust_env=False, verify=verify)
        asked = answer.status_code in (NO_KEY_STATUS, 403)
        listed = answer.json().get("data") if answer.status_code == 200 else []
    except (httpx.HTTPError, ValueError, AttributeError):
        return Listed()
    models = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    chosen = next((entry for entry in models if model in (None, entry.get("id"))), {})
    return Listed(
        str(chosen.get("id") or ""),
        _count(chosen.get("context_window")),
        _count(chosen.get("max_output_tokens")),
        key_needed=asked or bool(key),
        refused=asked,
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
