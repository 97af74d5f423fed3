"""Claude Code, Codex, opencode and aider: what is printed, read as they would."""

from client_settings import FOR_EVER, KNOWN, TARGET, settings_of, variables_of

from llmgate.cli.connect.agents import aider, claude_code, codex, opencode
from llmgate.cli.connect.target import LONGEST_MS


def test_claude_code_has_the_same_in_the_shell_and_in_its_file() -> None:
    recipe = claude_code(TARGET)
    expected = {
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:8080/llm",
        "ANTHROPIC_AUTH_TOKEN": "llmgate",
        "ANTHROPIC_MODEL": "qwen2.5:3b-instruct",
        "ANTHROPIC_DEFAULT_OPUS_MODEL": "qwen2.5:3b-instruct",
        "ANTHROPIC_DEFAULT_SONNET_MODEL": "qwen2.5:3b-instruct",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": "qwen2.5:3b-instruct",
        "API_TIMEOUT_MS": "5400000",
        "CLAUDE_ENABLE_STREAM_WATCHDOG": "0",
        "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    }
    assert variables_of(recipe.blocks[0]) == expected
    assert settings_of(recipe) == [{"env": expected}]


def test_claude_code_is_told_the_context_that_is_known() -> None:
    assert variables_of(claude_code(KNOWN).blocks[0])["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "8192"


def test_claude_code_with_an_odd_model_and_a_key() -> None:
    variables = variables_of(claude_code(FOR_EVER).blocks[0])
    assert variables["ANTHROPIC_MODEL"] == FOR_EVER.model
    assert (variables["API_TIMEOUT_MS"], variables["ANTHROPIC_AUTH_TOKEN"]) == (str(LONGEST_MS), "YOUR-LLMGATE-KEY")


def test_codex_speaks_responses_and_takes_its_time() -> None:
    recipe = codex(TARGET)
    assert recipe.blocks == ()
    assert settings_of(recipe) == [
        {
            "model": "qwen2.5:3b-instruct",
            "model_provider": "llmgate",
            "model_providers": {
                "llmgate": {
                    "name": "llmgate",
                    "base_url": "http://127.0.0.1:8080/llm/v1",
                    "wire_api": "responses",
                    "stream_idle_timeout_ms": 5_400_000,
                    "request_max_retries": 0,
                    "stream_max_retries": 0,
                }
            },
        }
    ]


def test_codex_names_the_variable_of_a_key_only_where_one_is_asked_for() -> None:
    recipe = codex(FOR_EVER)
    assert settings_of(recipe)[0]["model_providers"]["llmgate"]["env_key"] == "LLMGATE_API_KEY"
    assert variables_of(recipe.blocks[0]) == {"LLMGATE_API_KEY": "YOUR-LLMGATE-KEY"}


def test_opencode_has_every_timeout_and_none_where_the_wait_has_no_end() -> None:
    (settings,) = settings_of(opencode(TARGET))
    assert settings["model"] == "llmgate/qwen2.5:3b-instruct"
    assert settings["provider"]["llmgate"]["options"] == {
        "baseURL": "http://127.0.0.1:8080/llm/v1",
        "apiKey": "llmgate",
        "timeout": 5_400_000,
        "headerTimeout": 5_400_000,
        "chunkTimeout": 5_400_000,
    }
    options = settings_of(opencode(FOR_EVER))[0]["provider"]["llmgate"]["options"]
    assert (options["timeout"], options["headerTimeout"]) == (False, False)
    assert options["chunkTimeout"] == LONGEST_MS  # no release refuses a number


def test_opencode_is_told_the_limits_that_are_known() -> None:
    assert settings_of(opencode(TARGET))[0]["provider"]["llmgate"]["models"] == {
        "qwen2.5:3b-instruct": {"name": "qwen2.5:3b-instruct"}
    }
    known = settings_of(opencode(KNOWN))[0]["provider"]["llmgate"]["models"]["m"]
    assert known["limit"] == {"context": 8192, "output": 1024}


def test_aider_wants_its_prefix_and_seconds() -> None:
    recipe = aider(TARGET)
    assert settings_of(recipe) == [
        {
            "openai-api-base": "http://127.0.0.1:8080/llm/v1",
            "openai-api-key": "llmgate",
            "model": "openai/qwen2.5:3b-instruct",
            "timeout": 5400,
        }
    ]
    assert variables_of(recipe.blocks[0])["AIDER_TIMEOUT"] == "5400"
