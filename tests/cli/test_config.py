"""`llmgate config check`."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from llmgate.cli.config import app
from llmgate.cli.context import Context

TEXT = """\
[admin]
socket = "/run/x/admin.sock"
[upstreams.llama]
url = "http://127.0.0.1:8000"
max_concurrent = 1
max_queued = 0
queue_timeout = "1h"
[upstreams.vllm-a100]
url = "http://10.0.0.7:8000/base"
max_concurrent = 0
models = ["reasoning", "r*"]
aliases = { fast = "reasoning" }
forward_auth = true
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("LLMGATE_CONFIG", "LLMGATE_SERVER__LISTEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    return tmp_path / "llmgate.toml"


def check(*arguments: str, context: Context | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["check", *arguments], obj=context)
    return result.exit_code, result.stdout, result.stderr


def test_good_settings_are_told_with_a_line_for_each_upstream(file: Path) -> None:
    file.write_text(TEXT)
    status, out, err = check(str(file))
    unlisted = "models as the server lists them"
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        f"file        {file}",
        "listen      127.0.0.1:8080",
        "admin       /run/x/admin.sock",
        "upstreams   2",
        "  llama      http://127.0.0.1:8000  max_concurrent 1, max_queued 0, queue_timeout 1h, " + unlisted,
        "  vllm-a100  http://10.0.0.7:8000/base  not gated, models reasoning r*, aliases fast",
    ]


def test_bad_settings_are_told_all_at_once_with_status_78(file: Path) -> None:
    file.write_text(TEXT + "max_quued = 1\n[log]\nlevel = 1\n")
    status, out, err = check(str(file))
    assert (status, out) == (78, "")
    assert err.splitlines() == [
        f"llmgate: {file}:14: unknown key upstreams.vllm-a100.max_quued; did you mean max_queued?",
        f'llmgate: {file}:16: log.level must be "debug", "info", "warning" or "error"',
    ]


def test_a_missing_file_is_bad_settings(file: Path) -> None:
    status, _, err = check(str(file))
    assert status == 78
    assert err == f"llmgate: {file}: cannot be read: No such file or directory\n"


def test_the_file_may_come_from_the_global_option_or_the_environment(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(TEXT)
    other = file.with_name("other.toml")
    other.write_text(TEXT)
    assert f"file        {file}\n" in check(context=Context(config=file))[1]
    assert f"file        {other}\n" in check(str(other), context=Context(config=file))[1]
    monkeypatch.setenv("LLMGATE_CONFIG", str(other))
    assert f"file        {other}\n" in check()[1]
    monkeypatch.setenv("LLMGATE_SERVER__LISTEN", "[::1]:9")
    assert "listen      [::1]:9\n" in check()[1]


def test_settings_without_upstreams_are_told_how_to_get_some(file: Path) -> None:
    file.write_text("")
    status, out, err = check(str(file))
    assert status == 78
    assert "upstreams   none: add one with [upstreams.NAME]" in out
    assert "admin.sock" in out
    assert err == "llmgate: no upstream: serve would refuse to start\n"
    status, out, err = check(str(file), context=Context(json=True))
    told = json.loads(out)
    assert (status, err, told["valid"], told["upstreams"]) == (78, "", False, {})
    assert told["errors"] == ["llmgate: no upstream: serve would refuse to start"]


def test_warnings_go_beside_the_data(file: Path) -> None:
    file.write_text(TEXT.replace("/base", "/v1"))
    status, out, err = check(str(file))
    assert status == 0
    assert err.startswith(f"llmgate: {file}:9: upstreams.vllm-a100.url ends with /v1, which ")
    assert "ends with" not in out


def test_json_tells_the_same(file: Path) -> None:
    file.write_text(TEXT.replace("/base", "/v1"))
    status, out, _ = check(str(file), context=Context(json=True))
    good = json.loads(out)
    assert (status, good["schema"], good["valid"], good["config"]) == (0, 1, True, str(file))
    assert len(good["warnings"]) == 1
    assert (good["listen"], good["admin_socket"]) == (["127.0.0.1:8080"], "/run/x/admin.sock")
    assert good["upstreams"]["llama"] == {
        "url": "http://127.0.0.1:8000",
        "endpoints": [{"url": "http://127.0.0.1:8000", "max_concurrent": 1}],
        "models": [],
        "aliases": {},
        "max_concurrent": 1,
        "max_queued": 0,
        "queue_timeout": 3600.0,
        "queue_timeout_nonstream": 270.0,
    }
    assert good["upstreams"]["vllm-a100"]["models"] == ["reasoning", "r*"]
    file.write_text("x = 1\ny = 1\n")
    status, out, err = check(str(file), context=Context(json=True))
    bad = json.loads(out)
    assert (status, err, bad["schema"], bad["valid"], len(bad["errors"])) == (78, "", 1, False, 2)


POOL = """\
[upstreams.pool]
endpoints = [
  { url = "http://gpu1:8000", max_concurrent = 4 },
  { url = "http://gpu2:8000", max_concurrent = "auto" },
]
models = ["m"]
"""


def test_endpoints_are_told_each_with_its_limit(file: Path) -> None:
    file.write_text(POOL)
    servers = "http://gpu1:8000 (max_concurrent 4), http://gpu2:8000 (max_concurrent auto)"
    assert check(str(file))[1].splitlines()[-1] == f"  pool  {servers}  models m"
    file.write_text(POOL + "max_concurrent = 6\n")
    assert check(str(file))[1].splitlines()[-1] == f"  pool  {servers}  max_concurrent 6, models m"
    told = json.loads(check(str(file), context=Context(json=True))[1])["upstreams"]["pool"]
    assert told["url"] == "http://gpu1:8000, http://gpu2:8000"
    assert [endpoint["max_concurrent"] for endpoint in told["endpoints"]] == [4, "auto"]
    assert told["max_concurrent"] == 6


def test_a_bad_endpoint_is_told_with_its_line(file: Path) -> None:
    file.write_text(POOL.replace('"auto"', "0"))
    status, _, err = check(str(file))
    assert status == 78
    assert err.startswith(f"llmgate: {file}:4: upstreams.pool.endpoints[1].max_concurrent must be a whole number, 1")


def test_header_values_are_not_told(file: Path) -> None:
    file.write_text(TEXT + 'headers = { x = "hunter2" }\n')
    assert "hunter2" not in "".join(map(str, check(str(file))))
    assert "hunter2" not in "".join(map(str, check(str(file), context=Context(json=True))))


def test_it_can_be_mounted() -> None:
    root = typer.Typer()
    root.add_typer(app, name="config")
    result = CliRunner().invoke(root, ["config", "--help"])
    assert result.exit_code == 0
    assert "check" in result.stdout
