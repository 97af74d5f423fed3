"""`llmgate probe`: what a server is, and the settings that put a queue in front of it. Nothing is changed in it."""

import os
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from llmgate.cli.context import Context, context_of, print_json, print_lines, say
from llmgate.cli.table import NOT_GATED, counted
from llmgate.errors import GateError, LlmgateError

if TYPE_CHECKING:
    from ssl import SSLCertVerificationError

    from llmgate.protocols.model_card import ModelCard
    from llmgate.upstreams.answer import Timeouts
    from llmgate.upstreams.probe import Probe
    from llmgate.upstreams.upstream import Upstream

KINDS: Mapping[str, tuple[str, str]] = {
    "llama-server": ("llama", "a llama-server"),
    "ollama": ("ollama", "an Ollama"),
    "vllm": ("vllm", "a vLLM"),
    "openai": ("server", "a server of OpenAI's protocols"),
}
"""A name for the upstream, and what to call the server."""

GATE = "an llmgate"
_NO_KEY = (401, 403)
_WANTS_TLS = (b"this port speaks HTTPS", b"sent to HTTPS port", b"HTTP request to an HTTPS server")
"""What an HTTPS port says to plain HTTP, with a 400: a gate, nginx, servers in Go."""
_PLAIN_ANSWERS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
"""OpenSSL's words for bytes that are no TLS."""
_NOT_TRUSTED = (18, 19, 20, 21)
"""X509_V_ERR_* of OpenSSL's x509_vfy.h: self-signed, or by someone unknown."""


@dataclass(frozen=True)
class Told:
    """What the server told of itself. `slots`: None = it does not tell; `messages`: whether it speaks /v1/messages.

    `gate`: the version of an llmgate, None of anything else.
    """

    url: str
    kind: str
    slots: int | None
    messages: bool | None
    models: tuple["ModelCard", ...]
    gate: str | None = None


def _url(text: str) -> str:
    from llmgate.config.units import BadValue
    from llmgate.config.values import parse_url

    try:
        return parse_url(text if "://" in text else f"http://{text}").removesuffix("/v1")
    except BadValue as error:
        raise typer.BadParameter(str(error)) from None


def probe(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", hidden=True, parser=_url)],
    key_env: Annotated[
        str, typer.Option(help="Environment variable with the key that the server asks for.", metavar="NAME")
    ] = "",
) -> None:
    """Say what server URL is, and print its settings.

    It is asked for its kind, its slots and its models, none of which loads or runs anything. The table that is printed
    belongs into the settings file.

    \b
    Example:
      llmgate probe http://127.0.0.1:8000 >> ~/.config/llmgate/llmgate.toml
    """
    import asyncio

    context = context_of(ctx)
    try:
        told = asyncio.run(ask(url, _key(key_env)))
    except GateError as error:
        raise LlmgateError(explain(url, error)) from None
    if context.json:
        print_json(_plain(told, key_env))
    else:
        print_lines(_lines(told, key_env))
    _hint(told, context)


def _key(variable: str) -> str:
    if variable and not os.environ.get(variable):
        raise typer.BadParameter(f"the environment variable {variable} is not set", param_hint="'--key-env'")
    return os.environ.get(variable, "") if variable else ""


async def ask(url: str, key: str) -> Told:
    from llmgate.config.settings import UpstreamSettings
    from llmgate.fleet import make_upstream

    settings = UpstreamSettings.model_validate({"url": url, "max_concurrent": "auto"})
    upstream = make_upstream("probe", settings, url, key)
    try:
        return await _told(url, upstream)
    finally:
        await upstream.aclose()


async def _told(url: str, upstream: "Upstream") -> Told:
    """LlmgateError where the server wants a key, or is none of a language model."""
    from llmgate.cli.gates import version_in
    from llmgate.protocols.model_card import read_models
    from llmgate.upstreams.answer import Timeouts
    from llmgate.upstreams.probe import Probe

    timeouts = Timeouts(connect=5.0, first_byte=10.0, idle=10.0, total=20.0)
    status, body = await upstream.ask(b"/v1/models", timeouts=timeouts, limit=4 << 20)
    if status == 400 and any(words in body for words in _WANTS_TLS):
        raise LlmgateError(f"llmgate: this port speaks HTTPS: llmgate probe {url.replace('http:', 'https:', 1)}")
    if status in _NO_KEY:
        what = "asks for a key" if version_in(body) is None else f"is {GATE}, and asks for a key"
        raise LlmgateError(
            f"llmgate: {url} {what} (status {status}); put it into a variable and name that: --key-env NAME"
        )
    asking = Probe(upstream)
    upstream.speech.kind = await asking.kind()
    messages = await asking.messages()
    if upstream.speech.kind == "auto" and not messages and (status != 200 or read_models(body) is None):
        raise LlmgateError(
            f"llmgate: something answers at {url}, but it is no server of language models that is known here: "
            f"/v1/models gives status {status}. Is the port right, and the path, which goes without /v1?"
        )
    slots = await _slots(asking)
    cards = await asking.cards(upstream.speech.kind, {})
    gate = await _gate(upstream, timeouts)
    return Told(url, upstream.speech.kind, slots, messages, tuple(cards.values()), gate)


async def _gate(upstream: "Upstream", timeouts: "Timeouts") -> str | None:
    from llmgate.cli.gates import version_in

    try:
        return version_in((await upstream.ask(b"/api/version", timeouts=timeouts, limit=1 << 20))[1])
    except GateError:
        return None


async def _slots(asking: "Probe") -> int | None:
    """Also of a server of another kind that answers /props; whatever else it answers there says nothing of slots."""
    try:
        return await asking.slots()
    except GateError:
        return None


def explain(url: str, error: GateError) -> str:
    """Why there was no answer, from the error below, and what to do."""
    import ssl

    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    host = urlsplit(url).hostname
    if isinstance(cause, ConnectionRefusedError):
        return f"llmgate: nobody listens at {url}; start the server, or look at its port"
    if isinstance(cause, socket.gaierror):
        return f"llmgate: the name {host} is not known to this machine; look at how it is written"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"llmgate: no secure connection to {url}: {_of_certificate(cause)}"
    if _speaks_no_tls(url, cause):
        plain = url.replace("https:", "http:", 1)
        return f"llmgate: no secure connection to {url}: it speaks no TLS, as it seems; llmgate probe {plain}"
    if isinstance(cause, ssl.SSLError):
        return f"llmgate: no secure connection to {url}: {cause.reason or 'the handshake failed'}"
    if isinstance(cause, TimeoutError) or "in time" in str(error):
        return f"llmgate: {url} does not answer in time; is the address right, and does a firewall let it through?"
    if cause is not None and cause.errno:
        return f"llmgate: no connection to {url}: {os.strerror(cause.errno)}"
    return f"llmgate: {url} answers, but not as a server of language models does: {_bare(error)}"


def _of_certificate(error: "SSLCertVerificationError") -> str:
    said = f"its certificate is refused: {error.verify_message.rstrip('.')}"
    if error.verify_code not in _NOT_TRUSTED:
        return said
    return (
        f"{said}; trust it or who signed it with SSL_CERT_FILE=FILE before this command, a file in PEM form, and with "
        "ca_file in its table of the settings"
    )


def _speaks_no_tls(url: str, cause: OSError | None) -> bool:
    """It answered a handshake with something else, or closed on it, of which the event loop gives no number."""
    import ssl

    if isinstance(cause, ssl.SSLError):
        return cause.reason in _PLAIN_ANSWERS
    return url.startswith("https:") and isinstance(cause, ConnectionError) and not cause.errno


def _bare(error: GateError) -> str:
    return re.sub(r"^llmgate: |\s*\([A-Z_]+\)$", "", str(error))


def settings(told: Told, key_env: str = "") -> dict[str, Any]:
    """The keys of the upstream, as they are written. In front of another gate the queue is left to that one."""
    found: dict[str, Any] = {"url": told.url, "max_concurrent": 0 if told.gate is not None else told.slots or 1}
    if told.kind in KINDS:
        found["kind"] = told.kind
    names = [card.name for card in told.models if _is_model(card.name)]
    if names:
        found["models"] = names
    return found | ({"api_key_env": key_env} if key_env else {})


def _is_model(name: str) -> bool:
    from llmgate.config.units import BadValue
    from llmgate.config.values import parse_models

    try:
        return bool(parse_models([name]))
    except BadValue:
        return False


def _name(told: Told) -> str:
    if told.gate is not None:
        return "gate"
    return KINDS[told.kind][0] if told.kind in KINDS else "server"


def _describe(told: Told) -> str:
    what = KINDS[told.kind][1] if told.kind in KINDS else "a server of a kind that is not told, with OpenAI's paths"
    speaks = {True: ", which speaks Messages", False: ", which does not speak Messages: llmgate translates", None: ""}
    return what + speaks[told.messages]


def _plain(told: Told, key_env: str) -> dict[str, Any]:
    return {
        "url": told.url,
        "kind": told.kind if told.gate is None else "llmgate",
        "version": told.gate or None,
        "slots": told.slots,
        "messages": told.messages,
        "models": [
            {
                "name": card.name,
                "context_window": card.context_window,
                "max_output_tokens": card.max_output_tokens,
                "loaded": card.loaded,
            }
            for card in told.models
        ],
        "toml": "".join(f"{line}\n" for line in _table(told, key_env)),
    }


def _table(told: Told, key_env: str) -> Iterator[str]:
    """The settings. A gate's are comments: what is printed may go into its own file, and it would ask itself."""
    from llmgate.config.toml import dump

    mark = "" if told.gate is None else "# "
    yield from (f"{mark}{line}" for line in dump({"upstreams": {_name(told): settings(told, key_env)}}).splitlines())


def _lines(told: Told, key_env: str) -> Iterator[str]:
    """A piece of a settings file: what is no setting is a comment."""
    from llmgate.tui.cells import clean

    gate = f"# {told.url} is {GATE}, and no server itself: here it is {NOT_GATED}, as the queue is there. Behind it:"
    yield _of_server(told) if told.gate is None else gate
    for card in told.models:
        known = [f"context {card.context_window}"] if card.context_window else []
        known += ["loaded"] if card.loaded else []
        yield f"# model {clean(card.name)}" + (f": {', '.join(known)}" if known else "")
    yield from _table(told, key_env)


def _of_server(told: Told) -> str:
    slots = "it does not tell its slots" if told.slots is None else counted(told.slots, "slot")
    return f"# {told.url} is {_describe(told)}; {slots}."


def _hint(told: Told, context: Context) -> None:
    if context.json or context.quiet:
        return
    if told.gate is not None:
        from llmgate.cli.gates import CHAIN

        say(f"llmgate: that is {GATE}: as an upstream it makes {CHAIN}. Take the servers behind it instead")
    elif told.slots is None:
        say("llmgate: max_concurrent = 1, since the server does not tell how much it runs at once: put the number in")
