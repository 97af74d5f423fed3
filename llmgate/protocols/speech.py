"""What one server speaks: which of the surfaces' paths it answers, from its kind, or from what it answered.

A kind says what its servers are known to speak; versions differ, so what a server answers goes before it. Only for
`/v1/messages` anything is learnt: there the answer decides whether a request is translated, everywhere else the server
may as well be asked each time.
"""

from typing import Final, Literal

from llmgate.protocols.upstream_error import read_upstream_error

Kind = Literal["auto", "llama-server", "ollama", "vllm", "openai", "anthropic"]
"""`auto`: not known yet, or none of the others."""

MESSAGES_PATH: Final = "/v1/messages"
CHAT_PATH: Final = "/v1/chat/completions"

NO_SUCH_PATH: Final = (404, 405, 501)
LOADING: Final = (502, 503)
"""The statuses of which `is_no_such_path` and `is_loading` may be true."""

_OPENAI = dict.fromkeys((CHAT_PATH, "/v1/completions", "/v1/embeddings"), True)
_OLLAMA = ("/api/chat", "/api/generate", "/api/embed")

_SPOKEN: Final[dict[Kind, dict[str, bool]]] = {
    "auto": {},
    "llama-server": {**_OPENAI, **dict.fromkeys(_OLLAMA, False)},
    "ollama": {**_OPENAI, **dict.fromkeys(_OLLAMA, True), "/v1/rerank": False},
    "vllm": {**_OPENAI, **dict.fromkeys(_OLLAMA, False)},
    "openai": {**_OPENAI, **dict.fromkeys(_OLLAMA, False), MESSAGES_PATH: False},
    "anthropic": {
        MESSAGES_PATH: True,
        **dict.fromkeys((*_OPENAI, *_OLLAMA, "/v1/responses", "/v1/rerank"), False),
    },
}
"""What is missing depends on the server's version, its model or its options."""


class Speech:
    """One server's. `kind` is set once it is known, the others once the server answered for them."""

    __slots__ = ("counts", "kind", "messages", "templates", "tokenizes")

    def __init__(self, kind: Kind = "auto") -> None:
        self.kind: Kind = kind
        self.messages: bool | None = None
        """Whether it answers POST /v1/messages; None: it was not asked."""
        self.counts = True
        """Whether POST /v1/messages/count_tokens is worth asking; not once it said that there is no such path."""
        self.templates = True
        """The same of POST /apply-template."""
        self.tokenizes = True
        """The same of POST /tokenize."""

    def speaks(self, path: str) -> bool | None:
        """Whether it answers this path of a surface, without prefix; None: it must be asked."""
        if path == MESSAGES_PATH and self.messages is not None:
            return self.messages
        return _SPOKEN[self.kind].get(path)

    def forget(self) -> None:
        """What it answered: it may have come back as another version."""
        self.messages = None
        self.counts = self.templates = self.tokenizes = True


def is_no_such_path(status: int, body: bytes) -> bool:
    """Whether this answer says that the server does not know the path, rather than the model that was asked for.

    llama-server: 404 "File Not Found"; FastAPI: 404 "Not Found"; Go and nginx: 404 and a page; 405 and 501 mean
    nothing else. OpenAI, vLLM and Ollama answer 404 for an unknown model too, and name the model then.
    """
    return status in (405, 501) or (status == 404 and b"model" not in body.lower())


def is_loading(status: int, body: bytes) -> bool:
    """Whether the server says that it did not begin the request, since its model is still being loaded.

    llama-server: 503 "Loading model"; proxies in front of servers that start answer 502 or 503 in like words. One that
    failed to load it says so, and will not be there in a moment.
    """
    if status not in LOADING or b"<" in body:  # a page for a browser: its images may be "loading" too
        return False
    said = read_upstream_error(status, body).message.lower()
    return "loading" in said and "model" in said and not any(word in said for word in ("error", "fail", "cannot"))
