"""What an answer's translation must know of its request."""

import msgspec


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Made by `request.translate`."""

    model: str = ""
    """As the client named it; "": the answer shows the upstream's name."""
    stop_sequences: tuple[str, ...] = ()
    input_estimate: int = 0
    """Tokens of the prompt, estimated, for an upstream that does not tell them."""
