"""Which requests for a whole answer can be answered from a stream, by the fields that they have.

Those are not, of which an answer put together from the stream could differ from the server's own, or nobody knows
whether it would: a request with a field that is not listed here. Listed are the fields that OpenAI, Anthropic and
Ollama document, and the extra ones that llama-server and vLLM take. What was found in llama-server (build 10434;
tests/e2e/test_llama_gather.py holds it):

- Log probabilities: the stream of a chat leaves out those of tokens that are no text (tags of reasoning, the end), and
  is refused where there are tools. That of a completion has more of them than the whole answer where a stop string is
  found. So a chat with log probabilities is left alone, and a completion with them and with `stop`.
- Several choices: their usage is that of one of them, whichever ends last.
- `verbose`: `__verbose` has an empty `content` in a stream.
- `return_progress` and `timings_per_token` add to a stream what a whole answer does not have; it is left out again.
- `return_tokens` and `response_fields` have no effect but on `__verbose` and on other paths.
- `reasoning_format: deepseek-legacy`: older builds put the reasoning into the content of a stream.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from llmgate.protocols.decoding import decoded
from llmgate.protocols.gather.members import Members


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SAMPLING: Final = _words(
    """
    max_tokens max_completion_tokens temperature top_p top_k min_p seed stop presence_penalty frequency_penalty
    logit_bias user metadata tools tool_choice parallel_tool_calls service_tier
    n_predict n_keep n_discard n_indent n_cache_reuse cache_prompt id_slot samplers grammar grammar_lazy
    grammar_triggers preserved_tokens json_schema top_n_sigma xtc_probability xtc_threshold typical_p dynatemp_range
    dynatemp_exponent repeat_last_n repeat_penalty dry_multiplier dry_base dry_allowed_length dry_penalty_last_n
    dry_sequence_breakers mirostat mirostat_tau mirostat_eta adaptive_target adaptive_decay min_keep backend_sampling
    post_sampling_probs ignore_eos lora t_max_predict_ms timings_per_token return_progress return_tokens
    response_fields sse_ping_interval speculative.n_min speculative.n_max speculative.p_min
    repetition_penalty length_penalty stop_token_ids include_stop_str_in_output min_tokens skip_special_tokens
    spaces_between_special_tokens truncate_prompt_tokens allowed_token_ids bad_words add_special_tokens priority
    request_id cache_salt logits_processors structured_outputs guided_json guided_regex guided_choice guided_grammar
    guided_decoding_backend guided_whitespace_pattern
    """
)
"""OpenAI's, llama-server's, vLLM's; none of them changes the shape of an answer."""
_TALK: Final = _words(
    """
    messages chat_template chat_template_kwargs add_generation_prompt continue_final_message documents
    mm_processor_kwargs response_format reasoning reasoning_effort reasoning_control reasoning_budget_tokens
    reasoning_budget_message thinking_budget_tokens thinking enable_thinking include_reasoning verbosity
    prompt_cache_key prompt_cache_retention safety_identifier
    """
)
_OLLAMA: Final = _words(
    "format options keep_alive think truncate shift logprobs top_logprobs"  # it joins log probabilities itself
)
_FIELDS: Final[dict[str, frozenset[str]]] = {
    "/v1/chat/completions": _SAMPLING | _TALK | _words("functions function_call prediction stream_options"),
    "/v1/completions": _SAMPLING | _words("suffix response_format logprobs n_probs stream_options"),
    "/v1/messages": _SAMPLING
    | _TALK
    | _words(
        "system stop_sequences container mcp_servers context_management output_config output_format cache_control "
        "inference_geo speed"
    ),
    "/v1/responses": _SAMPLING
    | _TALK
    | _words(
        "input instructions max_output_tokens max_tool_calls previous_response_id conversation store include prompt "
        "text truncation top_logprobs context_management stream_options"
    ),
    "/api/chat": _OLLAMA | _words("messages tools"),
    "/api/generate": _OLLAMA | _words("prompt suffix system template context raw images"),
}
"""By path, the fields that may have any value; `model` and `stream` are everywhere."""

_Rule = Callable[[Any], bool]


def _is_off(value: Any) -> bool:
    return value is None or value is False


def _is_one(value: Any) -> bool:
    return value is None or (isinstance(value, int) and value == 1)


def _is_none(value: Any) -> bool:
    return value is None or (isinstance(value, int) and value == 0)


def _is_text(value: Any) -> bool:
    return value is None or value == ["text"]


def _is_not_legacy(value: Any) -> bool:
    return bool(value != "deepseek-legacy")


def _is_one_prompt(value: Any) -> bool:
    """A text, or its tokens."""
    if not isinstance(value, list):
        return isinstance(value, str)
    return all(isinstance(token, int) for token in value) or (len(value) == 1 and isinstance(value[0], str))


_COMMON: Final[dict[str, _Rule]] = {
    "n": _is_one,
    "n_cmpl": _is_one,
    "verbose": _is_off,
    "echo": _is_off,
    "use_beam_search": _is_off,
    "reasoning_format": _is_not_legacy,
}
_RULES: Final[dict[str, dict[str, _Rule]]] = {
    "/v1/chat/completions": {
        **_COMMON,
        "logprobs": _is_off,
        "n_probs": _is_none,
        "top_logprobs": _is_none,
        "modalities": _is_text,
        "audio": _is_off,
        "store": _is_off,
        "best_of": _is_one,
    },
    "/v1/completions": {**_COMMON, "prompt": _is_one_prompt, "best_of": _is_one},
    "/v1/messages": _COMMON,
    "/v1/responses": {**_COMMON, "background": _is_off},
}
"""The fields that may have some values only."""

_ALWAYS: Final = frozenset({"model", "stream"})
_ANYTHING = msgspec.json.Decoder()


def may_be_gathered(path: str, members: Members) -> bool:
    """Whether the answer to this request, which asks for no stream, can be put together from one.

    `path` is that of the surface, without prefix.
    """
    fields, rules = _FIELDS.get(path), _RULES.get(path, {})
    if fields is None or not members.keys <= fields | rules.keys() | _ALWAYS:
        return False
    if not all(rule(_value(members, key)) for key, rule in rules.items() if key in members.keys):
        return False
    return path != "/v1/completions" or _has_plain_probabilities(members)


def _has_plain_probabilities(members: Members) -> bool:
    asked = not (_is_off(_value(members, "logprobs")) and _is_none(_value(members, "n_probs")))
    return not asked or _value(members, "stop") in (None, [], "")


def _value(members: Members, key: str) -> Any:
    """None where there is no such key."""
    value = members.get(key)
    return None if value is None else decoded(_ANYTHING, value)
