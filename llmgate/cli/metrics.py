"""`llmgate metrics`: the figures as Prometheus reads them."""

import typer

from llmgate.cli.context import context_of, print_json, print_lines


def metrics(ctx: typer.Context) -> None:
    """Print the metrics, in the text form of Prometheus.

    \b
    Example:
      llmgate metrics | grep llmgate_requests_waiting
    """
    context = context_of(ctx)
    text = context.client("metrics").metrics().decode("utf-8", "replace")
    if context.json:
        print_json({"metrics": text})
    else:
        print_lines(text.splitlines())
