"""What is said to a server, and read from it, to learn how many tokens a request of Anthropic Messages has.

    POST /v1/messages/count_tokens   {"input_tokens":N}: Anthropic, llama-server, vLLM
    POST /apply-template             llama-server: {"prompt":...}, the text that its model would get
    POST /tokenize                   llama-server: {"tokens":[...]} of a text; vLLM: {"count":N} of messages

The second and the third are told the request as it is translated for chat completions. A server of another kind may
be one of those behind a proxy: it has /apply-template, or /tokenize that takes messages, or neither.
"""

import re
from typing import Any, Final

import msgspec

from llmgate.errors import BadRequest
from llmgate.protocols.decoding import decoded
from llmgate.protocols.speech import is_no_such_path
from llmgate.protocols.translate.complaint import complaint
from llmgate.protocols.translate.usage import estimate
from llmgate.protocols.upstream_error import read_upstream_error

COUNT_PATH: Final = "/v1/messages/count_tokens"

_NOT_THE_REQUEST = frozenset({408, 425, 429})
"""Statuses from 400 to 499 that say nothing of the request itself."""
_FILE = re.compile(rb'"data"\s*:\s*"[A-Za-z0-9+/=_\\-]*"')


class _Count(msgspec.Struct):
    input_tokens: int


class _Tokens(msgspec.Struct):
    tokens: list[Any] = []
    count: int | None = None


class _Prompt(msgspec.Struct):
    prompt: str


class _Chat(msgspec.Struct):
    model: str
    messages: msgspec.Raw
    tools: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Text(msgspec.Struct):
    model: str
    content: str
    add_special: bool = True
    parse_special: bool = True


class _Messages(msgspec.Struct):
    messages: list[msgspec.Raw]


_COUNT = msgspec.json.Decoder(_Count)
_TOKENS = msgspec.json.Decoder(_Tokens)
_PROMPT = msgspec.json.Decoder(_Prompt)
_CHAT = msgspec.json.Decoder(_Chat)
_MESSAGES = msgspec.json.Decoder(_Messages)


def render_count(tokens: int) -> bytes:
    """The answer, as Anthropic has it."""
    return msgspec.json.encode(_Count(tokens))


def read_count(body: bytes) -> int | None:
    """The server's own count; None where the body is no answer of that kind."""
    told = decoded(_COUNT, body)
    return told.input_tokens if told and told.input_tokens >= 0 else None


def chat_of(translated: bytes) -> bytes:
    """What /apply-template and vLLM's /tokenize need of a request for chat completions."""
    return msgspec.json.encode(_CHAT.decode(translated))


def read_prompt(body: bytes) -> str | None:
    """The text of /apply-template."""
    told = decoded(_PROMPT, body)
    return told.prompt if told else None


def text_of(model: str, prompt: str) -> bytes:
    """What llama-server's /tokenize needs to count a prompt as its model gets it."""
    return msgspec.json.encode(_Text(model, prompt))


def read_tokens(body: bytes) -> int | None:
    """The number of tokens in an answer of /tokenize; a prompt has at least one."""
    told = decoded(_TOKENS, body)
    number = told and (len(told.tokens) if told.count is None else told.count)
    return number if number and number > 0 else None


def blames_request(status: int, body: bytes) -> bool:
    """Whether an error answer says that the request itself is at fault, so that its client must be told."""
    if status < 400 or is_no_such_path(status, body):
        return False
    blamed = read_upstream_error(status, body).status
    return 400 <= blamed < 500 and blamed not in _NOT_THE_REQUEST


def estimate_body(body: bytes) -> int:
    """Tokens of a request by its length, images and files left out. Raises BadRequest where it has no messages."""
    try:
        asked = msgspec.json.decode(body, type=_Messages)
    except msgspec.ValidationError as error:
        raise BadRequest(f"llmgate: {complaint(str(error), 'the body')} (BAD_REQUEST)") from None
    if not asked.messages:
        raise BadRequest("llmgate: the body holds no messages (BAD_REQUEST)")
    return estimate(len(_FILE.sub(b"", body)))
