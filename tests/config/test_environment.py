"""Settings as environment variables and as `--upstream`."""

from collections.abc import Collection
from typing import Any

import pytest

from llmgate.config.environment import EnvironmentValues, from_text, parse_upstream
from llmgate.config.settings import Admin, Log, Server, UpstreamSettings
from llmgate.errors import SettingsError


def read(environ: dict[str, str], upstreams: Collection[str] = ()) -> dict[str, Any]:
    found = EnvironmentValues(environ, upstreams)
    assert found.problems == []
    return found.values


def test_a_section_and_a_key_in_any_case() -> None:
    environ = {"LLMGATE_SERVER__LISTEN": "a:1,b:2", "LLMGATE_log__Level": "debug", "LLMGATE_SERVER__MAX_BODY": "1MiB"}
    assert read(environ) == {"server": {"listen": ["a:1", "b:2"], "max_body": "1MiB"}, "log": {"level": "debug"}}
    assert EnvironmentValues(environ, ()).names["server", "listen"] == "LLMGATE_SERVER__LISTEN"


def test_other_variables_are_left_alone() -> None:
    assert (
        read({"LLMGATE_CONFIG": "/x", "LLMGATE_SOCKET": "/y", "PATH": "/z", "XLLMGATE_A__B": "1", "llmgate_a__b": ""})
        == {}
    )


@pytest.mark.parametrize(
    ("written", "upstream"),
    [
        ("reasoning", "reasoning"),
        ("Reasoning", "Reasoning"),
        ("REASONING", "REASONING"),
        ("VLLM_A100", "vllm-a100"),
        ("vllm_a100", "vllm-a100"),
        ("vllm-a100", "vllm-a100"),
        ("QWEN2_5", "qwen2.5"),
        ("a__b", "a__b"),
        ("new", "new"),
        ("NEW", "NEW"),
    ],
)
def test_an_upstreams_name_keeps_its_case_or_is_one_that_is_alike(written: str, upstream: str) -> None:
    names = ("reasoning", "Reasoning", "REASONING", "vllm-a100", "qwen2.5", "a__b")
    assert read({f"LLMGATE_UPSTREAMS__{written}__MAX_CONCURRENT": "2"}, names) == {
        "upstreams": {upstream: {"max_concurrent": 2}}
    }


def test_a_name_that_may_mean_two_upstreams_is_a_problem() -> None:
    found = EnvironmentValues({"LLMGATE_UPSTREAMS__A_B__URL": "u"}, ("a-b", "a.b"))
    assert [str(problem) for problem in found.problems] == [
        "LLMGATE_UPSTREAMS__A_B__URL may mean each of the upstreams a-b, a.b"
    ]


@pytest.mark.parametrize(
    "name", ["LLMGATE_SRVER__LISTEN", "LLMGATE_UPSTREAMS__URL", "LLMGATE_SERVER__", "LLMGATE___A", "LLMGATE___"]
)
def test_a_variable_that_sets_nothing_is_a_problem(name: str) -> None:
    found = EnvironmentValues({name: "hunter2"}, ())
    assert [problem.path for problem in found.problems] == [(name,)]
    assert found.values == {}
    assert "hunter2" not in str(found.problems)


def test_two_variables_for_one_key_are_a_problem() -> None:
    found = EnvironmentValues({"LLMGATE_LOG__LEVEL": "info", "LLMGATE_LOG__level": "debug"}, ())
    assert [problem.text for problem in found.problems] == ["sets the same key as LLMGATE_LOG__LEVEL"]


def test_an_unknown_key_is_passed_on_for_the_models_to_refuse() -> None:
    assert read({"LLMGATE_SERVER__LISTNE": "1"}) == {"server": {"listne": "1"}}


@pytest.mark.parametrize(
    ("model", "key", "text", "value"),
    [
        (Server, "listen", '["a:1", "b:2"]', ["a:1", "b:2"]),
        (Server, "listen", " a:1 , b:2 ", ["a:1", "b:2"]),
        (Server, "listen", "[::1]:80", ["[::1]:80"]),
        (Server, "listen", "127.0.0.1:80,[::1]:80", ["127.0.0.1:80", "[::1]:80"]),
        (Server, "path_prefix", "/llm,", ["/llm", ""]),
        (Server, "listen", "", []),
        (Server, "allow_open", "Yes", True),
        (Server, "allow_open", "0", False),
        (Server, "allow_open", "perhaps", "perhaps"),
        (Server, "body_timeout", "5", "5"),
        (Admin, "history", "10", 10),
        (Admin, "history", "-1", "-1"),
        (Admin, "mode", "0660", "0660"),
        (Log, "level", "debug", "debug"),
        (UpstreamSettings, "max_concurrent", "auto", "auto"),
        (UpstreamSettings, "max_concurrent", " 4 ", 4),
        (UpstreamSettings, "max_queued", "0", 0),
        (UpstreamSettings, "aliases", "a=b, c=d", {"a": "b", "c": "d"}),
        (UpstreamSettings, "aliases", '{"a": "b"}', {"a": "b"}),
        (UpstreamSettings, "aliases", "", {}),
        (UpstreamSettings, "aliases", "a", "a"),
        (UpstreamSettings, "endpoints", '[{"url": "u", "max_concurrent": 2}]', [{"url": "u", "max_concurrent": 2}]),
        (UpstreamSettings, "endpoints", "http://a,http://b", ["http://a", "http://b"]),
        (UpstreamSettings, "force_stream", "off", False),
        (UpstreamSettings, "stall_alarm", "5m", "5m"),
        (UpstreamSettings, "headers", "{not json", "{not json"),
        (UpstreamSettings, "unknown", "1", "1"),
    ],
)
def test_text_takes_the_shape_of_its_key(model: Any, key: str, text: str, value: object) -> None:
    assert from_text(model, key, text) == value


@pytest.mark.parametrize("key", ["headers", "models"])
def test_json_without_end_is_no_crash(key: str) -> None:
    for letter in "[{":
        assert letter in str(from_text(UpstreamSettings, key, letter * 100_000))


def test_an_upstream_of_the_command_line() -> None:
    assert parse_upstream("reasoning=http://h:8000") == {"reasoning": {"url": "http://h:8000"}}
    text = "a=http://h/b?x=1,max_concurrent=2,models=m|n*,aliases=x=m|y=n,queue_timeout=1h,forward_auth=true"
    assert parse_upstream(text) == {
        "a": {
            "url": "http://h/b?x=1",
            "max_concurrent": 2,
            "models": ["m", "n*"],
            "aliases": {"x": "m", "y": "n"},
            "queue_timeout": "1h",
            "forward_auth": True,
        }
    }


@pytest.mark.parametrize("text", ["", "http://h", "a", "a=", "=http://h", "a=,max_concurrent=1"])
def test_an_upstream_needs_name_and_url(text: str) -> None:
    with pytest.raises(SettingsError, match="must be NAME=URL"):
        parse_upstream(text)


@pytest.mark.parametrize("rest", ["max_concurrent", "", "url=x", "max_queued=1,max_queued=2"])
def test_after_the_url_come_keys_with_values(rest: str) -> None:
    with pytest.raises(SettingsError, match=r"--upstream a: after the URL comes KEY=VALUE.*max_concurrent"):
        parse_upstream(f"a=http://h,{rest}")


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("max-concurent=1", "unknown key max-concurent; did you mean max_concurrent?"),
        ("foo=1", "unknown key foo; known here are kind, models, "),
        ("ur=x", "unknown key ur; known here are "),
        ("endpoint=x", "unknown key endpoint; known here are "),
        ("=1", "unknown key ; known here are "),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest(pair: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse_upstream(f"a=http://h,{pair}")
    assert str(refused.value).startswith(f"llmgate: --upstream a: {said}")


def test_endpoints_are_for_a_file() -> None:
    message = r"--upstream a: endpoints need a settings file, see llmgate\.toml\(5\)$"
    with pytest.raises(SettingsError, match=message):
        parse_upstream('a=http://h,endpoints=[{"url":"http://g","max_concurrent":1}]')
    with pytest.raises(SettingsError) as refused:
        parse_upstream("a=http://h,x=1")
    assert "endpoints" not in str(refused.value), "it is not offered"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("LLMGATE_MAX_BODY", "is no setting; did you mean LLMGATE_SERVER__MAX_BODY?"),
        ("LLMGATE_LOG_LEVEL", "is no setting; did you mean LLMGATE_LOG__LEVEL?"),
        ("LLMGATE_CONFG", "is no setting; did you mean LLMGATE_CONFIG?"),
        ("LLMGATE_PORT", "is no setting: settings are LLMGATE_SECTION__KEY, see llmgate.toml(5)"),
        ("LLMGATE_FOO", "is no setting: settings are LLMGATE_SECTION__KEY, see llmgate.toml(5)"),
    ],
)
def test_a_variable_without_a_section_is_odd(name: str, said: str) -> None:
    found = EnvironmentValues({name: "hunter2"}, ())
    assert [(problem.path, problem.text) for problem in found.oddities] == [((name,), said)]
    assert (found.problems, found.values) == ([], {})


def test_variables_of_others_that_begin_alike_are_not() -> None:
    environ = {"LLMGATE_CONFIG": "/x", "LLMGATE_TEST_LLAMA": "1", "LLMGATE_PORT": "tcp://10.0.0.1:80", "LLMGATER": "1"}
    environ |= {"LLMGATE_SERVICE_HOST": "10.0.0.1", "LLMGATE_PORT_80_TCP_ADDR": "10.0.0.1", "LLMGATE_SERVER__X": "1"}
    assert EnvironmentValues(environ, ()).oddities == []


def test_a_section_inside_a_section() -> None:
    """LLMGATE_SERVER__CORS__ORIGINS is [server.cors] origins."""
    environ = {
        "LLMGATE_SERVER__CORS__ORIGINS": "https://a.example,http://localhost:3000",
        "LLMGATE_SERVER__LISTEN": "a:1",
    }
    assert read(environ) == {
        "server": {"cors": {"origins": ["https://a.example", "http://localhost:3000"]}, "listen": ["a:1"]}
    }
    assert EnvironmentValues(environ, ()).names["server", "cors", "origins"] == "LLMGATE_SERVER__CORS__ORIGINS"
    assert read({"LLMGATE_SERVER__CORS__ORIGIN": "x"}) == {"server": {"cors": {"origin": "x"}}}
    assert read({"LLMGATE_SERVER__LISTEN__X": "1"}) == {"server": {"listen__x": "1"}}


@pytest.mark.parametrize("name", ["LLMGATE_SERVER__CORS", "LLMGATE_SERVER__CORS__"])
def test_a_whole_section_is_no_key(name: str) -> None:
    found = EnvironmentValues({name: "x", "LLMGATE_SERVER__CORS__ORIGINS": "http://a"}, ())
    assert len(found.problems) == 1
    assert found.values == {"server": {"cors": {"origins": ["http://a"]}}}


def test_a_key_of_an_inner_section_is_meant() -> None:
    (odd,) = EnvironmentValues({"LLMGATE_ORIGINS": "x"}, ()).oddities
    assert str(odd) == "LLMGATE_ORIGINS is no setting; did you mean LLMGATE_SERVER__CORS__ORIGINS?"
