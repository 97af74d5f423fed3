"""The one word for how a request that reached its upstream ended, from what is known when its call is over."""

from llmgate.errors import GateError, Outcome
from llmgate.protocols.upstream_error import is_servers_fault
from llmgate.upstreams.answer import Done


def outcome_of(
    done: Done,
    *,
    status: int,
    told_end: bool | None,
    stream_failed: bool,
    cut: Outcome | None,
    error: GateError | None,
) -> Outcome:
    """`status` is the answer's (0: it has none).

    `told_end`: whether what is in it told its own end (None where that does not matter); `stream_failed`: whether that
    was an error. `cut` is why we ended it, or what was wrong with the answer; `error` what went wrong with the call.
    """
    if told_end and not stream_failed:
        return "completed"  # the client has everything, whatever became of the connection
    if cut is not None:
        return cut
    if done is Done.ENDED:
        broken = told_end is False or stream_failed
        served = status < 300 or not is_servers_fault(status)
        return "completed" if served and not broken else "upstream_error"
    if error is not None:
        return error.outcome
    return "upstream_down" if done is Done.UNSENT else "upstream_error"
