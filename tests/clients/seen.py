"""Requests as programs sent them that were pointed at a gate by what `llmgate connect` writes: what tells who asks.

Seen at the front door on Debian 12. Their texts, tools and what says nothing here are left out, ids are made up; names
and order of headers and keys are theirs. A program without a session header shows that it tells none.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_SESSION = "3b0c9a52-6f0e-4d8e-9f0b-5a2f6e1c7d41"
_HELLO = [{"role": "user", "content": "Say hello."}]
_BLOCKS = [
    {"role": "user", "content": [{"type": "text", "text": "Say hello.", "cache_control": {"type": "ephemeral"}}]}
]
_CHAT = "/llm/v1/chat/completions"
_USAGE = {"include_usage": True}


@dataclass(frozen=True)
class Seen:
    """One request; `client`, `session` and `purpose` are what a gate has to know of it."""

    program: str
    version: str
    target: str
    headers: Mapping[str, str]
    fields: Mapping[str, Any]
    client: str
    session: str = ""
    purpose: str = ""
    told_version: str | None = None
    """Where it is not its own, but that of the SDK in it."""
    own: Mapping[str, str] = field(default_factory=dict)
    """Headers that stand in the settings that `connect` writes, here so that they are seen to be there."""

    def __str__(self) -> str:
        return f"{self.program} {self.version}"

    def body(self, model: str) -> bytes:
        return json.dumps({"model": model, **self.fields}).encode()


SEEN = (
    Seen(
        "Claude Code",
        "2.1.332",
        "/llm/v1/messages?beta=true",
        {
            "Accept": "application/json",
            "Authorization": "Bearer llmgate",
            "Content-Type": "application/json",
            "User-Agent": "claude-cli/2.1.332 (external, sdk-cli)",
            "X-Claude-Code-Session-Id": _SESSION,
            "X-Stainless-Lang": "js",
            "X-Stainless-Retry-Count": "0",
            "X-Stainless-Timeout": "2147483",
            "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,effort-2025-11-24",
            "anthropic-dangerous-direct-browser-access": "true",
            "anthropic-version": "2023-06-01",
            "x-app": "cli",
        },
        {
            "messages": _BLOCKS,
            "system": [{"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}}],
            "metadata": {"user_id": json.dumps({"device_id": "0", "account_uuid": "", "session_id": _SESSION})},
            "max_tokens": 32000,
            "thinking": {"type": "adaptive"},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "output_config": {"effort": "high"},
            "stream": True,
        },
        client="claude-cli",
        session=_SESSION,
    ),
    Seen(
        "Codex",
        "0.171.0",
        "/llm/v1/responses",
        {
            "x-codex-beta-features": "remote_compaction_v2",
            "x-codex-window-id": f"{_SESSION}:0",
            "x-codex-turn-metadata": json.dumps(
                {"session_id": _SESSION, "request_kind": "turn", "turn_trigger": "exec"}
            ),
            "x-client-request-id": _SESSION,
            "session-id": _SESSION,
            "thread-id": _SESSION,
            "accept": "text/event-stream",
            "content-type": "application/json",
            "originator": "codex_exec",
            "user-agent": "codex_exec/0.171.0 (Debian 12.0.0; x86_64) dumb (codex_exec; 0.171.0)",
        },
        {
            "stream": True,
            "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Say hello."}]}],
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "reasoning": {"summary": "auto"},
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": _SESSION,
            "client_metadata": {"session_id": _SESSION, "thread_id": _SESSION},
        },
        client="codex",
        session=_SESSION,
    ),
    Seen(
        "opencode",
        "1.18.33",
        _CHAT,
        {
            "Authorization": "Bearer llmgate",
            "Content-Type": "application/json",
            "User-Agent": "opencode/1.18.33 ai-sdk/provider-utils/4.0.23 runtime/bun/1.3.14",
            "x-session-affinity": "ses_dd1898a85ffeZtTSoC6DAxq72O",
            "x-session-id": "ses_dd1898a85ffeZtTSoC6DAxq72O",
            "Accept": "*/*",
        },
        {"max_tokens": 32000, "messages": _HELLO, "stream": True, "stream_options": _USAGE},
        client="opencode",
        session="ses_dd1898a85ffeZtTSoC6DAxq72O",
    ),
    Seen(
        "pi",
        "1.6.0",
        "/llm/v1/messages?beta=true",
        {
            "X-Stainless-Retry-Count": "0",
            "X-Stainless-Timeout": "2147483",
            "X-Stainless-Lang": "js",
            "anthropic-version": "2023-06-01",
            "x-api-key": "llmgate",
            "User-Agent": "pi/1.6.0 (linux; node/v26.10.0; x64)",
            "accept": "application/json",
            "anthropic-dangerous-direct-browser-access": "true",
            "content-type": "application/json",
            "x-session-affinity": _SESSION,
            "accept-language": "*",
            "sec-fetch-mode": "cors",
        },
        {"messages": _BLOCKS, "max_tokens": 16384, "stream": True, "system": [{"type": "text", "text": "You are pi."}]},
        client="pi",
        session=_SESSION,
    ),
    Seen(
        "Continue",
        "1.5.47",
        _CHAT,
        {
            "accept": "application/json",
            "authorization": "Bearer llmgate",
            "content-type": "application/json",
            "user-agent": "ls/JS 5.23.2",
            "x-stainless-lang": "js",
        },
        {"messages": _HELLO, "stream": True, "stream_options": _USAGE},
        client="continue",
        told_version="",
        own={"llmgate-client": "continue"},
    ),
    Seen(
        "Cline",
        "3.0.65",
        _CHAT,
        {
            "Authorization": "Bearer llmgate",
            "Content-Type": "application/json",
            "User-Agent": "ai-sdk/openai-compatible/3.0.37 ai-sdk/provider-utils/5.0.30 runtime/bun/1.3.13",
            "Accept": "*/*",
        },
        {"messages": _HELLO, "tool_choice": "auto", "stream": True, "stream_options": _USAGE},
        client="ai-sdk",
        told_version="3.0.37",
    ),
    Seen(
        "aider",
        "0.86.2",
        _CHAT,
        {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": "OpenAI/Python 2.20.0",
            "X-Stainless-Lang": "python",
            "Authorization": "Bearer llmgate",
            "x-stainless-retry-count": "0",
            "x-stainless-read-timeout": "2147483.0",
        },
        {"messages": _HELLO, "stream": True, "temperature": 0},
        client="openai-python",
        told_version="2.20.0",
    ),
)
