"""`llmgate config import`: from a file or the environment to standard output, and what `config check` says of it."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

LITELLM = "model_list:\n- model_name: m\n  litellm_params: {model: openai/m, api_base: 'http://h:1/v1', rpm: 3}\n"
SWAP = "models:\n  m: {proxy: 'http://h:1', ttl: 3}\n"


@pytest.mark.parametrize(("source", "text"), [("litellm", LITELLM), ("llama-swap", SWAP)])
def test_what_is_printed_passes_config_check(run: Any, tmp_path: Path, source: str, text: str) -> None:
    file, made = tmp_path / "config.yaml", tmp_path / "llmgate.toml"
    file.write_text(text)
    done = run("config", "import", "--from", source, file)
    assert (done.status, done.err) == (0, "")
    made.write_text(done.out)
    assert run("config", "check", made).status == 0
    assert 'url = "http://h:1"' in done.out


def test_json_has_the_settings_and_the_remarks(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(LITELLM)
    told = json.loads(run("config", "import", "--from", "litellm", file, "--json").out)
    assert (told["schema"], told["settings"]["upstreams"]["m"]["url"]) == (1, "http://h:1")
    assert told["remarks"] == ["NOT CARRIED OVER: of m: rpm"]
    assert told["toml"].startswith("# Made from")


def test_standard_input_is_a_file_as_well(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(SWAP))
    assert 'models = ["m"]' in run("config", "import", "--from", "llama-swap", "-").out


def test_of_ollama_it_is_the_environment_unless_a_file_is_named(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "gpu1:1")
    assert 'url = "http://gpu1:1"' in run("config", "import", "--from", "ollama").out
    file = tmp_path / "override.conf"
    file.write_text('[Service]\nEnvironment="OLLAMA_HOST=gpu2:2"\n')
    assert 'url = "http://gpu2:2"' in run("config", "import", "--from", "ollama", file).out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "c.yaml:1: is not YAML"),
        ("- a", "must be a YAML table"),
        ("[" * 5000, "is not YAML"),
        ("a: \x00", "is not YAML"),
    ],
)
def test_what_cannot_be_read_is_told(run: Any, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    done = run("config", "import", "--from", "litellm", file)
    assert (done.status, done.out) == (1, "")
    assert said in done.err


def test_files_that_are_none_are_told(run: Any, tmp_path: Path) -> None:
    done = run("config", "import", "--from", "litellm", tmp_path / "none.yaml")
    assert (done.status, "cannot be read: No such file" in done.err) == (1, True)
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe")
    assert "is not UTF-8 text" in run("config", "import", "--from", "litellm", tmp_path / "c.yaml").err


def test_wrong_lines_are_usage_errors(run: Any) -> None:
    done = run("config", "import", "--from", "haproxy")
    assert (done.status, "must be litellm, llama-swap or ollama" in done.err) == (2, True)
    done = run("config", "import", "--from", "litellm")
    assert (done.status, "name the YAML file of litellm" in done.err) == (2, True)
    assert run("config", "import").status == 2
