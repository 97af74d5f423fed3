"""Cline, Continue and Zed."""

from client_settings import FOR_EVER, KNOWN, TARGET, settings_of, variables_of, words_of

from llmgate.cli.connect.editors import UNKNOWN_CONTEXT, cline, continue_, zed


def test_cline_is_told_what_to_type() -> None:
    typed, command = cline(TARGET).blocks
    assert typed.text.splitlines() == [
        "API Provider  OpenAI Compatible",
        "Base URL      http://127.0.0.1:8080/llm/v1",
        "API Key       llmgate",
        "Model ID      qwen2.5:3b-instruct",
    ]
    assert words_of(command) == [
        *("cline", "auth", "--provider", "openai-compatible", "--baseurl", "http://127.0.0.1:8080/llm/v1"),
        *("--apikey", "llmgate", "--modelid", "qwen2.5:3b-instruct"),
    ]
    assert words_of(cline(FOR_EVER).blocks[1])[-1] == FOR_EVER.model


def test_continue_gets_the_longest_timeout_since_it_takes_seconds_for_milliseconds_here_and_there() -> None:
    (model,) = settings_of(continue_(TARGET))[0]["models"]
    assert (model["apiBase"], model["model"]) == ("http://127.0.0.1:8080/llm/v1", "qwen2.5:3b-instruct")
    assert model["requestOptions"] == {"timeout": 2_147_483, "headers": {"llmgate-client": "continue"}}
    assert settings_of(continue_(FOR_EVER))[0]["models"][0]["model"] == FOR_EVER.model


def test_zed_has_a_provider_whose_key_is_in_a_variable() -> None:
    recipe = zed(TARGET)
    provider = settings_of(recipe)[0]["language_models"]["openai_compatible"]["llmgate"]
    assert provider["api_url"] == "http://127.0.0.1:8080/llm/v1"
    assert provider["available_models"][0]["max_tokens"] == UNKNOWN_CONTEXT
    assert any("guess" in note for note in recipe.notes)
    assert variables_of(recipe.blocks[0]) == {"LLMGATE_API_KEY": "llmgate"}


def test_zed_is_told_the_limits_that_are_known() -> None:
    recipe = zed(KNOWN)
    model = settings_of(recipe)[0]["language_models"]["openai_compatible"]["llmgate"]["available_models"][0]
    assert (model["max_tokens"], model["max_output_tokens"]) == (8192, 1024)
    assert not any("guess" in note for note in recipe.notes)
