"""Ids of a message, and of tool calls that came without one, made from the id of the request, which is unique."""

_OURS = "req_"


def message_id(request_id: str) -> str:
    """Of the message that answers a request."""
    return "msg_" + request_id.removeprefix(_OURS)


def call_id(request_id: str, ordinal: int) -> str:
    """Of a tool call in it. Unique in the whole conversation, since the client sends it back with the result."""
    return f"toolu_{request_id.removeprefix(_OURS)}_{ordinal}"
