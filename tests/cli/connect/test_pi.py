"""pi and DeepSeek Harness."""

from client_settings import FOR_EVER, KNOWN, TARGET, settings_of, variables_of

from llmgate.cli.connect.pi import dsh, pi
from llmgate.cli.connect.target import LONGEST_MS


def test_pi_has_its_provider_and_its_timeouts() -> None:
    models, settings = settings_of(pi(TARGET))
    assert models["providers"]["llmgate"] == {
        "baseUrl": "http://127.0.0.1:8080/llm",
        "api": "anthropic-messages",
        "apiKey": "llmgate",
        "compat": {"sendSessionAffinityHeaders": True},
        "models": [{"id": "qwen2.5:3b-instruct"}],
    }
    assert (settings["httpIdleTimeoutMs"], settings["retry"]["provider"]["timeoutMs"]) == (5_400_000, 5_400_000)
    assert settings_of(pi(FOR_EVER))[1]["httpIdleTimeoutMs"] == 0
    known = settings_of(pi(KNOWN))[0]["providers"]["llmgate"]["models"]
    assert known == [{"id": "m", "contextWindow": 8192, "maxTokens": 1024}]


def test_dsh_is_more_patient_than_the_queue() -> None:
    recipe = dsh(TARGET)
    (settings,) = settings_of(recipe)
    provider = settings["llm-pi-ai"]["providers"]["llmgate"]
    assert (provider["api"], provider["baseURL"]) == ("anthropic-messages", "http://127.0.0.1:8080/llm")
    assert provider["streamIdleTimeoutMs"] > 3_600_000
    assert variables_of(recipe.blocks[0]) == {provider["apiKeyEnv"]: "llmgate"}
    assert settings["agent-default-model"] == {"provider": "llmgate", "model": "qwen2.5:3b-instruct"}
    endless = settings_of(dsh(FOR_EVER))[0]["llm-pi-ai"]["providers"]["llmgate"]["streamIdleTimeoutMs"]
    assert endless == LONGEST_MS
