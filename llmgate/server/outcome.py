"""How a request that reached its upstream ended, in one word, and why: from what is known when its call is over."""

from llmgate.errors import EXPLAINED, OWN_FAULT, GateError, Outcome
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
    if error is not None:
        return error.outcome
    if done is Done.ENDED:
        broken = told_end is False or stream_failed
        served = status < 300 or not is_servers_fault(status)
        return "completed" if served and not broken else "upstream_error"
    return "upstream_down" if done is Done.UNSENT else "upstream_error"


def reason_of(outcome: Outcome, done: Done, *, status: int, stream_failed: bool, fault: GateError | None) -> str:
    """What failed, for an operator; "" where the outcome says all. `fault` is what went wrong, as far as that is known.

    No word of the server is in it: it may quote the request.
    """
    if outcome not in EXPLAINED:
        return ""
    if stream_failed:
        return "it ended its stream with an error"
    if fault is not None and fault.reason:
        return fault.reason
    if done is Done.ENDED:
        return f"it answered with status {status}" if status >= 300 else "its answer ended before it was complete"
    return OWN_FAULT
