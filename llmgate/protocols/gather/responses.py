"""Puts an answer of OpenAI Responses together: POST /v1/responses. The last event carries all of it.

llama-server (build 10434) leaves two things out there that its own whole answers have: `completed_at`, which is the
same as `created_at`, and the `status` of a reasoning item, which is always completed. It is known by the `timings` that
it puts beside the response; they are in none of its whole answers.
"""

from typing import Any

from llmgate.errors import UpstreamFailed
from llmgate.protocols.gather.gathering import LIMIT, UNREADABLE, StreamGathering, token_count
from llmgate.protocols.gather.values import encoded

_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_DELTA = ".delta"


class ResponsesGathering(StreamGathering):
    """See Gathering. An event is known by its name; where that is none of OpenAI's, by the `type` in its data."""

    __slots__ = ("_response",)

    def __init__(self, limit: int = LIMIT) -> None:
        super().__init__(limit)
        self._response = b""

    def _read(self, name: bytes, document: dict[str, Any]) -> None:
        kind = name.decode("utf-8", "replace")
        if not kind.startswith("response."):
            kind = str(document.get("type"))
        if kind.endswith(_DELTA):
            self.output_tokens += self._counting
        elif kind in _ENDS:
            self._read_end(document)

    def _read_end(self, document: dict[str, Any]) -> None:
        response = document.get("response")
        if not isinstance(response, dict):
            raise UpstreamFailed(UNREADABLE)
        self.complete = True
        if isinstance(usage := response.get("usage"), dict):
            self.input_tokens = token_count(usage.get("input_tokens"), None)
            self._count_output(usage.get("output_tokens"))
        self._response = encoded(_as_llama_server_would(response) if "timings" in document else response)

    def _assemble(self) -> bytes:
        return self._response


def _as_llama_server_would(response: dict[str, Any]) -> dict[str, Any]:
    output = response.get("output")
    for item in output if isinstance(output, list) else ():
        if isinstance(item, dict) and item.get("type") == "reasoning":
            item.setdefault("status", "completed")
    if "created_at" in response:
        response.setdefault("completed_at", response["created_at"])
    return response
