"""Ollama, whose settings are variables of the environment.

What they mean: https://docs.ollama.com/faq (OLLAMA_HOST, OLLAMA_NUM_PARALLEL, OLLAMA_MAX_QUEUE); read from the
environment, or from a file of NAME=VALUE lines, such as the [Service] section of a systemd unit.
"""

import re
import shlex
from collections.abc import Mapping

from llmgate.cli.importing.draft import Draft

PORT = "11434"
CARRIED = {"OLLAMA_HOST", "OLLAMA_NUM_PARALLEL", "OLLAMA_MAX_QUEUE"}
_PREFIX = re.compile(r"\s*(?:export\s+|Environment\s*=)?")
_ANY = {"0.0.0.0", "[::]", ""}  # noqa: S104  where it listens: asked at, it is this machine


def read_lines(text: str) -> dict[str, str]:
    """The variables that such a file sets, without the quotes around name or value; systemd takes several a line."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        for word in _words(_PREFIX.sub("", line, count=1)):
            name, equals, value = word.partition("=")
            if equals and re.fullmatch(r"OLLAMA_\w+", name):
                found[name] = value.strip("\"'")
    return found


def _words(line: str) -> list[str]:
    """As a shell parts them; a comment has none."""
    try:
        return shlex.split(line, comments=True)
    except ValueError:  # a quote that does not end
        return [line.strip()]


def read(environ: Mapping[str, str]) -> Draft:
    """Ollama as these variables set it up."""
    draft = Draft("Ollama")
    server = draft.server("ollama", url_of(environ.get("OLLAMA_HOST", "")))
    draft.remarks += [name for name in sorted(environ) if name.startswith("OLLAMA_") and name not in CARRIED]
    if server is None:
        return draft
    server.more["kind"] = "ollama"
    server.raise_limit(_number(environ.get("OLLAMA_NUM_PARALLEL", "")))
    if server.max_concurrent is None:
        server.remarks.append("OLLAMA_NUM_PARALLEL is not set: say as max_concurrent how many requests it runs at once")
    queued = _number(environ.get("OLLAMA_MAX_QUEUE", ""))
    if queued is not None:
        server.more["max_queued"] = queued
    return draft


def url_of(host: str) -> str:
    """Where an Ollama with this OLLAMA_HOST is asked: a port is 11434, 80 or 443 unless given."""
    scheme, separator, rest = host.strip().strip("\"'").rpartition("://")
    scheme, port = (scheme, {"http": "80", "https": "443"}.get(scheme, PORT)) if separator else ("http", PORT)
    rest, slash, path = rest.partition("/")
    name = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::(\d+))?", rest)
    if name is None:
        return f"{scheme}://{rest}"
    address = "127.0.0.1" if name[1] in _ANY else name[1]
    return f"{scheme}://{address}:{name[2] or port}{slash}{path}"


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,9}", text.strip(), re.ASCII) else None
