"""Who asks: what is known of a request when it comes to a gate, and shown in log, feed and TUI (never its text)."""

import msgspec


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """One request as an operator knows it. Every text is cleaned and shortened before it comes here."""

    id: str
    model: str = ""
    api: str = ""
    """The surface's name: "messages", "chat"."""
    path: str = ""
    stream: bool = False
    client: str = ""
    """Short name of the client program, such as "claude-cli"."""
    client_version: str = ""
    """As the client program tells it, "2.1.197"; "" where it does not."""
    session: str = ""
    session_from: str = ""
    """The header that told the session, or "body"."""
    key: str = ""
    """Name of the key that it came with; "" where none is asked."""
    purpose: str = ""
    """"compaction", "session-title" ... when the client says so; empty for an ordinary turn."""
    peer: str = ""
    """Address of the client's socket, "host:port"."""
    body_bytes: int = 0
    max_wait: float | None = None
    """Seconds that it is ready to wait, where its client says so; the settings may allow fewer."""
