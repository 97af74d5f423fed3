"""What one value of a setting may be: each function gives its final form, or a BadValue that says what is allowed."""

import ipaddress
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from llmgate.config.listen import check_socket_path, parse_listen
from llmgate.config.units import BadValue, is_no_limit, parse_duration

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
"""RFC 9110, 5.6.2: the characters of a header's name."""
_UPSTREAM_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OWN_HEADERS = frozenset(
    re.findall(
        r"[a-z-]+",
        "accept-encoding connection content-length expect host keep-alive proxy-authenticate proxy-authorization "
        "proxy-connection te trailer transfer-encoding upgrade",
    )
)
"""Hop by hop (RFC 9110, 7.6.1), or set by the transport, which must be able to read the answer."""


def parse_text(value: object) -> str:
    if not isinstance(value, str):
        raise BadValue("must be text in quotes")
    return value


def parse_clock(value: object) -> float | None:
    """None for 0, for a word of NO_LIMIT and for None itself."""
    if value is None or is_no_limit(value):
        return None
    try:
        return parse_duration(value) or None
    except BadValue as error:
        raise BadValue(f'{error}, or "none"') from None


def parse_heartbeat(value: object) -> float:
    seconds = parse_duration(value)
    if seconds < 0.01:
        raise BadValue("must be at least 10ms")
    return seconds


def parse_retry_after(value: object) -> float:
    seconds = parse_duration(value)
    if seconds < 1:
        raise BadValue("must be at least 1s: Retry-After counts whole seconds")
    return seconds


def parse_count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 31:
        raise BadValue("must be a whole number, 0 or more")
    return value


def parse_positive_count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 1 << 31:
        raise BadValue("must be a whole number, 1 or more")
    return value


def parse_max_concurrent(value: object) -> object:
    if value == "auto":
        return value
    try:
        return parse_count(value)
    except ValueError:
        raise BadValue('must be a whole number, 0 (not gated) or more, or "auto" (the server\'s own slots)') from None


def parse_endpoint_max_concurrent(value: object) -> object:
    """Not 0: of several servers behind one queue each has its limit."""
    if value == "auto" or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 1 << 31):
        return value
    raise BadValue('must be a whole number, 1 or more, or "auto" (the server\'s own slots)')


def parse_endpoints(value: object) -> object:
    """None is none; what one endpoint holds is for its model to check."""
    if value is None:
        return None
    if not isinstance(value, list | tuple) or not value or any(isinstance(item, str) for item in value):
        raise BadValue(
            'must be a list of at least one table, such as [{ url = "http://gpu1:8000", max_concurrent = 4 }], '
            "or as JSON in the environment"
        )
    return value


def parse_max_queued(value: object) -> int | None:
    if value is None or is_no_limit(value):
        return None
    try:
        return parse_count(value)
    except ValueError:
        raise BadValue('must be a whole number, 0 (refuse at once when busy) or more, or "none" (no limit)') from None


def parse_uids(value: object) -> tuple[int, ...]:
    help_text = "must be a list of user ids, such as [1000, 1001]"
    if not isinstance(value, list | tuple):
        raise BadValue(help_text)
    try:
        return tuple(dict.fromkeys(parse_count(each) for each in value))
    except BadValue:
        raise BadValue(help_text) from None


def _texts(value: object) -> list[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise BadValue('must be a list of texts, such as ["a", "b"]')
    return list(value)


def _distinct(items: Iterable[str]) -> tuple[str, ...]:
    listed = tuple(items)
    if len(set(listed)) < len(listed):
        raise BadValue("must not name the same thing twice")
    return listed


def _each(value: object, parse: Callable[[str], str]) -> tuple[str, ...]:
    return _distinct(parse(item) for item in _texts(value))


def parse_listens(value: object) -> tuple[str, ...]:
    listens = _each(value, lambda text: str(parse_listen(text)))
    if not listens:
        raise BadValue("must name at least one address")
    return listens


def parse_metrics_listen(value: object) -> str:
    """ "" and "main" as they are."""
    text = parse_text(value)
    if text in ("", "main"):
        return text
    listen = parse_listen(text)
    if not listen.host:
        raise BadValue('must be "main", "host:port" or ""')
    return str(listen)


def _prefix(text: str) -> str:
    if text and not re.fullmatch(r"(?:/[A-Za-z0-9._~-]+)+", text, re.ASCII):
        raise BadValue('must be "" or begin with / and not end with it, such as "/llm"')
    return text


def parse_prefixes(value: object) -> tuple[str, ...]:
    prefixes = _each(value, _prefix)
    if not prefixes:
        raise BadValue('must name at least one prefix; [""] = no prefix')
    return prefixes


_HOST_NAME = re.compile(r"\*|(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*", re.ASCII)
_WEB_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(\d{1,5}))?", re.ASCII)
_DEFAULT_PORTS = {"http": "80", "https": "443"}


def _host_name(text: str) -> str:
    name = text.lower().removesuffix(".")
    if not _HOST_NAME.fullmatch(name):
        raise BadValue('must be host names without a port, such as "gpu.lan", "*.lan" for all below it, "*" for all')
    return name


def parse_host_names(value: object) -> tuple[str, ...]:
    return _each(value, _host_name)


def _web_origin(text: str) -> str:
    """As a browser writes it (RFC 6454 6.2): in lower case, without the port that the scheme has anyway."""
    parts = _WEB_ORIGIN.fullmatch(text.lower())
    if parts is None:
        raise BadValue(
            'must be exact origins such as "https://chat.example.org" or "http://localhost:3000": no path, no *'
        )
    scheme, host, port = parts.groups()
    return f"{scheme}://{host}" + (f":{port}" if port and port != _DEFAULT_PORTS.get(scheme) else "")


def parse_web_origins(value: object) -> tuple[str, ...]:
    return _each(value, _web_origin)


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError:
        raise BadValue('must be networks such as "10.0.0.0/8" or single addresses such as "127.0.0.1"') from None


def parse_networks(value: object) -> tuple[str, ...]:
    return _each(value, _network)


def _header_name(text: str) -> str:
    if not _TOKEN.fullmatch(text):
        raise BadValue("must be names of HTTP headers")
    return text.lower()


def parse_header_names(value: object) -> tuple[str, ...]:
    return _each(value, _header_name)


def _model(text: str) -> str:
    if not text or text != text.strip() or not text.isprintable():
        raise BadValue("must be names of models, none of them empty or with blanks around it")
    return text


def parse_models(value: object) -> tuple[str, ...]:
    return _each(value, _model)


def _table(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadValue('must be a table, such as { name = "value" }')
    return value


def parse_aliases(value: object) -> dict[str, str]:
    table = _table(value)
    if not all(isinstance(model, str) for model in table.values()):
        raise BadValue('must be a table of texts, such as { fast = "qwen2.5:3b-instruct" }')
    return {_model(alias): _model(model) for alias, model in table.items()}


def parse_headers(value: object) -> dict[str, Any]:
    table = _table(value)
    headers = {_header_name(name): _header_value(item) for name, item in table.items()}
    if len(headers) < len(table):
        raise BadValue("must not name the same header twice")
    refused = sorted(_OWN_HEADERS & headers.keys())
    if refused:
        raise BadValue(f"must not set {', '.join(refused)}: llmgate sets or leaves out such headers itself")
    return headers


def _header_value(value: object) -> object:
    """Text, or a SecretStr, which is what a model that is validated once more holds."""
    secret = getattr(value, "get_secret_value", None)
    text = secret() if callable(secret) else value
    if not isinstance(text, str) or text != text.strip(" \t") or not re.fullmatch(r"[\t\x20-\x7e]*", text):
        raise BadValue("must have values of plain ASCII text on one line, without blanks around it")
    return value


def parse_url(value: object) -> str:
    """Without a slash at the end."""
    text = parse_text(value)
    if not re.fullmatch(r"[\x21-\x7e]+", text):
        raise BadValue('must be a URL such as "http://127.0.0.1:8000"')
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise BadValue('must be a URL such as "http://127.0.0.1:8000", with a valid host and port') from None
    if url.scheme not in ("http", "https") or not url.hostname or port == 0:
        raise BadValue('must be an http or https URL such as "http://127.0.0.1:8000"')
    if "@" in url.netloc:
        raise BadValue("must not hold a user or password: name the key with api_key_env or api_key_file")
    if "?" in text or "#" in text:
        raise BadValue("must not have a query or a fragment")
    return text.rstrip("/")


def parse_variable(value: object) -> str:
    text = parse_text(value)
    if text and not _VARIABLE.fullmatch(text):
        raise BadValue("must be the name of an environment variable, not the key itself")
    return text


def parse_optional_path(value: object) -> Path | None:
    """None for "" and for None itself."""
    if value is None or value == "":
        return None
    if not isinstance(value, str | Path) or not str(value).startswith("/") or "\0" in str(value):
        raise BadValue("must be an absolute path")
    return Path(value)


def parse_socket(value: object) -> Path | None:
    path = parse_optional_path(value)
    return path and Path(check_socket_path(str(path)))


def parse_upstream_name(name: str) -> str:
    if not _UPSTREAM_NAME.fullmatch(name):
        raise BadValue("must be named with 1 to 64 letters, digits, dots, dashes or underscores")
    return name
