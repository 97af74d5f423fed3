"""`llmgate demo`: the daemon in front of two simulated upstreams, with something to see and to try."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llmgate.cli.context import context_of, print_json, say
from llmgate.cli.failure import complain_of_start

if TYPE_CHECKING:
    from llmgate.config.load import Loaded
    from llmgate.simulator.stage import Stage

DRAIN_SECONDS = 5
"""Longer than any request of the demo takes."""

WORDS = 4
"""Of an answer to what is told to try: few, so that the queue frames stay on the screen."""

HEADER = "-H 'content-type: application/json'"

TO_TRY = """
llmgate stands at {url} in front of two simulated upstreams:
  reasoning  2 slots, each request holds one for 3 s        ollama  never busy

Fill the slots of reasoning; the fifth request is told its position until it has a slot:
  seq 4 | xargs -P4 -I{{}} curl -s -o /dev/null {url}/llm/v1/messages {header} -d '{busy}' &
  sleep 1; curl -N {url}/llm/v1/messages {header} -d '{busy}'

A free upstream answers at once:
  curl -N {url}/llm/v1/messages {header} -d '{idle}'

Watch it from another terminal:
  {command} status
  {command} top

ctrl-c ends it.
"""


def demo(
    ctx: typer.Context,
    listen: Annotated[
        str, typer.Option(help="Address for clients, as host:port.", metavar="ADDRESS")
    ] = "127.0.0.1:8080",
    admin_socket: Annotated[
        Path | None, typer.Option(help="Where to put the admin socket.", metavar="PATH", readable=False)
    ] = None,
) -> None:
    """Try it: the daemon and two simulated upstreams.

    A few simulated clients come and go, so that there is something to see; with --quiet there are none. With --json it
    prints where it stands as soon as it serves.

    \b
    Example:
      llmgate demo --listen 127.0.0.1:8081
    """
    from llmgate.daemon import serve
    from llmgate.simulator.stage import Stage

    context = context_of(ctx)
    url = _front_door(listen)
    socket = (admin_socket or context.socket or _default_socket()).absolute()
    command = _command(context.socket or admin_socket)
    announced = Announcement(socket, url, command, as_json=context.json)
    with Stage(announced.made, None if context.quiet else url) as stage:
        refuse = complain_of_start if context.json else None
        status = serve(settings(stage, listen, socket), refuse=refuse)
    raise typer.Exit(status)


def _front_door(listen: str) -> str:
    """The URL of the address; a usage error where it has none that can be told to a person."""
    from llmgate.config.listen import parse_listen
    from llmgate.config.units import BadValue

    try:
        address = parse_listen(listen)
    except BadValue as error:
        raise typer.BadParameter(f"--listen {error}") from None
    if not address.port or not address.is_local:
        raise typer.BadParameter("--listen must be a loopback address with a port, such as 127.0.0.1:8081")
    return f"http://{address}"


def _default_socket() -> Path:
    from llmgate.config.paths import default_admin_socket

    return default_admin_socket(os.environ, os.getuid())


def _command(socket: Path | None) -> str:
    from llmgate.cli.program import program

    return program() if socket is None else f"{program()} --socket {shlex.quote(str(socket))}"


def settings(stage: "Stage", listen: str, socket: Path) -> "Loaded":
    """The demo's settings: no file and no environment has a part in them."""
    from llmgate.config.load import Loaded
    from llmgate.config.settings import Settings

    upstreams: dict[str, Any] = {}
    for name, server in (("reasoning", stage.busy), ("ollama", stage.idle)):
        slots = server.behaviour.slots
        upstreams[name] = {"url": server.url, "models": list(server.models), "max_concurrent": slots}
    plain = {
        "server": {"listen": [listen], "drain_timeout": DRAIN_SECONDS},
        "admin": {"socket": str(socket)},
        "upstreams": upstreams,
    }
    return Loaded(Settings.model_validate(plain), None)


class Announcement:
    """Says what to try as soon as the daemon of this process, and no other, answers on the socket."""

    def __init__(self, socket: Path, url: str, command: str, *, as_json: bool = False) -> None:
        self._socket = socket
        self._url = url
        self._command = command
        self._as_json = as_json

    def made(self) -> bool:
        from llmgate.adminclient import AdminClient
        from llmgate.errors import AdminError

        try:
            answered = AdminClient(self._socket).status().pid == os.getpid()
        except AdminError:
            return False
        if answered and self._as_json:
            print_json({"url": f"{self._url}/llm", "socket": str(self._socket), "pid": os.getpid()})
        elif answered:
            say(to_try(self._url, self._command))
        return answered


def to_try(url: str, command: str) -> str:
    """The lines to type, ready to be copied."""
    import json

    from llmgate.simulator.traffic import BUSY, IDLE, Visit

    busy, idle = (
        json.dumps(Visit("", model, "", max_tokens=WORDS).body(), separators=(",", ":")) for model in (BUSY, IDLE)
    )
    return TO_TRY.format(url=url, header=HEADER, command=command, busy=busy, idle=idle)
