"""Open WebUI, Python and curl. tests/e2e/test_connect.py runs what is printed."""

import ast
import json

import pytest
from client_settings import FOR_EVER, TARGET, variables_of, words_of

from llmgate.cli.connect.programs import curl, open_webui, python
from llmgate.cli.connect.target import Target


def test_open_webui_gets_no_time_limit_where_the_wait_has_no_end() -> None:
    assert variables_of(open_webui(TARGET).blocks[0]) == {
        "OPENAI_API_BASE_URL": "http://127.0.0.1:8080/llm/v1",
        "OPENAI_API_KEY": "llmgate",
        "AIOHTTP_CLIENT_TIMEOUT": "5400",
    }
    assert variables_of(open_webui(FOR_EVER).blocks[0])["AIOHTTP_CLIENT_TIMEOUT"] == ""


@pytest.mark.parametrize("target", [TARGET, FOR_EVER])
def test_python_is_python_with_these_values(target: Target) -> None:
    for block, base in zip(python(target).blocks, (target.root, target.openai), strict=True):
        tree = ast.parse(block.text)
        literals = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        assert {base, target.model, target.key, target.patience} <= literals


def test_curl_sends_the_key_only_where_one_is_asked_for() -> None:
    words = words_of(curl(TARGET).blocks[0])
    assert words[:3] == ["curl", "-N", "http://127.0.0.1:8080/llm/v1/messages"]
    assert json.loads(words[-1])["model"] == "qwen2.5:3b-instruct"
    assert "authorization" not in " ".join(words)
    odd = words_of(curl(FOR_EVER).blocks[0])
    assert json.loads(odd[-1])["model"] == FOR_EVER.model
    assert "authorization: Bearer YOUR-LLMGATE-KEY" in odd
