"""`llmgate simulate`: the simulated upstream alone, until ctrl-c."""

import errno
import os
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from llmgate.cli.context import Context, context_of, print_json, say
from llmgate.cli.failure import IN_USE, NO_PERMISSION, complain
from llmgate.cli.numbers import number, whole

if TYPE_CHECKING:
    from llmgate.simulator import Behaviour, Simulator


class Kind(StrEnum):
    """As whom a simulated server may be known."""

    ANY = "any"
    LLAMA_SERVER = "llama-server"
    OLLAMA = "ollama"
    VLLM = "vllm"


def simulate(
    ctx: typer.Context,
    host: Annotated[str, typer.Option(help="Address to listen on.", metavar="ADDRESS")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 = any free one.", parser=whole(0, 65535), metavar="N")
    ] = 8000,
    slots: Annotated[int, typer.Option(help="Requests that it works on at once.", parser=whole(1), metavar="N")] = 1,
    hold: Annotated[str, typer.Option(help="How long a request keeps its slot at least.", metavar="TIME")] = "0s",
    prompt: Annotated[str, typer.Option(help="Silence before the first event of an answer.", metavar="TIME")] = "0s",
    tokens: Annotated[
        int, typer.Option(help="Words of an answer; max_tokens lowers it.", parser=whole(1), metavar="N")
    ] = 16,
    tokens_per_second: Annotated[
        float,
        typer.Option(help="Speed of an answer; 0 = its words are spread over the hold.", parser=number(0), metavar="N"),
    ] = 0,
    kind: Annotated[
        Kind, typer.Option(help="As whom it is known; any: as none, it tells its slots and speaks every surface.")
    ] = Kind.ANY,
    model: Annotated[list[str] | None, typer.Option(help="A model to list; may be repeated.", metavar="NAME")] = None,
    fail: Annotated[
        list[str] | None,
        typer.Option(
            help="refuse, break (in mid-answer) or a status, each with :RATE from 0 to 1; may be repeated.",
            metavar="KIND[:RATE]",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Which failures are drawn.", parser=whole(), metavar="N")] = 0,
) -> None:
    """Run a simulated LLM server, to try things out.

    It speaks the surfaces of Anthropic, OpenAI and Ollama that stream. GET /simulator/stats tells what it saw.

    \b
    Example:
      llmgate simulate --port 8001 --slots 2 --hold 3s --fail break:0.1
      llmgate simulate --port 11434 --kind ollama --model qwen2.5:3b-instruct
    """
    from llmgate.simulator import Behaviour, Failure, Simulator

    try:
        behaviour = Behaviour(
            slots=slots,
            hold=_seconds("--hold", hold),
            prompt=_seconds("--prompt", prompt),
            tokens=tokens,
            tokens_per_second=tokens_per_second,
            failures=tuple(Failure.parse(text) for text in fail or ()),
            seed=seed,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--fail'") from None
    _run(Simulator(behaviour, models=model or ["simulated"], kind=kind.value), host, port, context_of(ctx))


def _seconds(option: str, text: str) -> float:
    from llmgate.config.units import BadValue, parse_duration

    try:
        return parse_duration(text)
    except BadValue as error:
        raise typer.BadParameter(str(error), param_hint=f"'{option}'") from None


def _run(server: "Simulator", host: str, port: int, context: Context) -> None:
    from llmgate.simulator.standalone import run

    def listening() -> None:
        if not context.quiet:
            say(f"llmgate: a simulated server listens on {server.url}, {describe(server.behaviour)}; ctrl-c ends it")

    try:
        run(server, host, port, listening)
    except OSError as error:
        status = _exit_status(error)
        code = {IN_USE: "IN_USE", NO_PERMISSION: "NO_PERMISSION"}.get(status, "FAILED")
        complain(code, f"llmgate: cannot listen on {host}:{port}: {_reason(error)}", as_json=context.json)
        raise typer.Exit(status) from None
    if context.json:
        print_json(server.ledger.as_plain())


def describe(behaviour: "Behaviour") -> str:
    """What it will do, in a few words."""
    from llmgate.config.units import format_duration

    slots = "1 slot" if behaviour.slots == 1 else f"{behaviour.slots} slots"
    return f"{slots}, each request held for {format_duration(behaviour.hold)}"


def _reason(error: OSError) -> str:
    """asyncio puts a text of its own in the place of the system's."""
    if error.errno == errno.EADDRINUSE:
        return f"{os.strerror(error.errno)}; stop who listens there, or choose another with --port N"
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error.strerror or error)


def _exit_status(error: OSError) -> int:
    return {errno.EADDRINUSE: IN_USE, errno.EACCES: NO_PERMISSION, errno.EPERM: NO_PERMISSION}.get(error.errno or 0, 1)
