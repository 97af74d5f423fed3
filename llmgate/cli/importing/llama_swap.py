"""llama-swap: `models`, each with the command that starts its server, and `peers`.

Its keys: https://github.com/mostlygeek/llama-swap/blob/main/config.example.yaml. llmgate starts no servers: what is
carried over is where they are once they run. Ports are given out there in the order of the models' names.
"""

import re
from collections.abc import Mapping
from typing import Any

from llmgate.cli.importing.draft import Draft, Server

FIRST_PORT = 5800
CARRIED = {"proxy", "aliases", "concurrencyLimit", "useModelName", "macros", "timeouts", "name", "description"}
STARTS_NONE = (
    "llmgate starts and stops no servers (cmd, ttl). Start those below yourself, or keep llama-swap and make it the "
    "only upstream: url = where it listens, models = those below"
)


def read(plain: Mapping[str, Any], environ: Mapping[str, str]) -> Draft:
    """The settings as YAML gives them."""
    draft = Draft("llama-swap")
    models, port = _tables(plain.get("models")), plain.get("startPort")
    port = port if isinstance(port, int) else FIRST_PORT
    if models:
        draft.remarks.append(STARTS_NONE)
    for name, model in sorted(models.items()):
        macros = {**_macros(plain.get("macros")), **_macros(model.get("macros")), "MODEL_ID": name}
        if "${PORT}" in f"{model.get('cmd', '')}{model.get('proxy', '${PORT}')}":
            macros["PORT"] = str(port)
            port += 1
        _model(draft, name, model, macros, environ)
    for name, peer in _tables(plain.get("peers")).items():
        _peer(draft, name, peer, environ)
    sections = sorted(map(str, plain.keys() - {"models", "peers", "macros", "startPort"}))
    if sections:
        draft.remarks.append(", ".join(sections))
    return draft


def _tables(value: Any) -> dict[str, dict[str, Any]]:
    return (
        {str(name): table for name, table in value.items() if isinstance(table, dict)}
        if isinstance(value, dict)
        else {}
    )


def _macros(value: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in value.items()} if isinstance(value, dict) else {}


def expand(text: str, macros: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """The text with its ${macros}; those that are not known stay as they are."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        known = environ.get(name.removeprefix("env.")) if name.startswith("env.") else macros.get(name)
        return match[0] if known is None else known

    for _ in range(8):  # macros hold macros, though not without end
        text = re.sub(r"\$\{([A-Za-z0-9_.-]+)\}", value, text)
    return text


def _model(
    draft: Draft, name: str, model: Mapping[str, Any], macros: Mapping[str, str], environ: Mapping[str, str]
) -> None:
    server = draft.server(name, expand(str(model.get("proxy") or "http://127.0.0.1:${PORT}"), macros, environ))
    if server is None:
        return
    real = str(model.get("useModelName") or name)
    aliases = model.get("aliases")
    for asked in [name, *(_alias(alias) for alias in (aliases if isinstance(aliases, list) else []))]:
        server.models[asked] = real
    server.raise_limit(model.get("concurrencyLimit"))
    _timeouts(server, model.get("timeouts"))
    rest = sorted(map(str, model.keys() - CARRIED))
    if rest:
        server.remarks.append(f"of {name}: {', '.join(rest)}")


def _alias(alias: Any) -> str:
    return str(alias.get("id") or "") if isinstance(alias, dict) else str(alias)


def _timeouts(server: Server, timeouts: Any) -> None:
    """Seconds, 0 = none."""
    for theirs, ours in (("connect", "connect_timeout"), ("responseHeader", "first_byte_timeout")):
        seconds = timeouts.get(theirs) if isinstance(timeouts, dict) else None
        if isinstance(seconds, int) and not isinstance(seconds, bool) and 0 <= seconds < 10**8:
            server.more[ours] = seconds


def _peer(draft: Draft, name: str, peer: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    server = draft.server(name, expand(str(peer.get("proxy") or ""), {}, environ))
    if server is None:
        return
    models = peer.get("models")
    server.models |= {str(model): str(model) for model in (models if isinstance(models, list) else [])}
    variable = re.fullmatch(r"\$\{env\.(\w+)\}", str(peer.get("apiKey") or ""))
    if variable:
        server.key_variable = variable[1]
    elif peer.get("apiKey"):
        server.remarks.append(f"the key of {name}: put it into a file and name that with api_key_file")
    rest = sorted(map(str, peer.keys() - {"proxy", "models", "apiKey"}))
    if rest:
        server.remarks.append(f"of {name}: {', '.join(rest)}")
