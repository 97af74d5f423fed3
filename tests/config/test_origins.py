"""Where a setting came from, as told in an error."""

import tomllib
from pathlib import Path as FilePath
from typing import Any

from llmgate.config.environment import EnvironmentValues
from llmgate.config.origins import Origins
from llmgate.config.problems import Path, Problem
from llmgate.config.synonyms import Plain

TEXT = """\
[server]
listen = [
  "a:1",
]
[providers.a]
maxConcurrent = 1
"""


def messages(*paths: Path, environ: dict[str, str] | None = None, overrides: Any = None, text: str = TEXT) -> list[str]:
    plain = Plain(tomllib.loads(text))
    environment = EnvironmentValues(environ or {}, plain.values.get("upstreams", {}))
    file = FilePath("/f.toml") if text else None
    return Origins(file, text, plain, environment, overrides or {}).messages(Problem(path, "is bad") for path in paths)


def test_a_key_of_the_file_is_told_with_its_line_and_as_it_is_written() -> None:
    assert messages(("server", "listen")) == ["llmgate: /f.toml:2: server.listen is bad"]
    assert messages(("server", "listen", 0)) == ["llmgate: /f.toml:3: server.listen[0] is bad"]
    assert messages(("upstreams", "a", "max_concurrent")) == ["llmgate: /f.toml:6: providers.a.maxConcurrent is bad"]


def test_a_key_that_is_not_there_is_told_with_the_line_of_its_table() -> None:
    assert messages(("upstreams", "a", "url")) == ["llmgate: /f.toml:5: providers.a.url is bad"]
    assert messages(("server", "max_body")) == ["llmgate: /f.toml:1: server.max_body is bad"]


def test_what_won_is_told() -> None:
    environ = {"LLMGATE_SERVER__LISTEN": "x"}
    expected = "llmgate: environment variable LLMGATE_SERVER__LISTEN: server.listen is bad"
    assert messages(("server", "listen"), environ=environ) == [expected]
    both = messages(("server", "listen"), environ=environ, overrides={"server": {"listen": 1}})
    assert both == ["llmgate: command line: server.listen is bad"]


def test_a_table_that_no_file_has_is_told_with_what_made_it() -> None:
    path = ("upstreams", "b", "max_concurrent")
    environ = {"LLMGATE_UPSTREAMS__b__URL": "u"}
    expected = "llmgate: environment variable LLMGATE_UPSTREAMS__b__URL: upstreams.b.max_concurrent is bad"
    assert messages(path, environ=environ) == [expected]
    assert messages(path, overrides={"upstreams": {"b": {}}}) == [
        "llmgate: command line: upstreams.b.max_concurrent is bad"
    ]


POOL = """\
[upstreams.a]
endpoints = [
  { url = "http://g", maxConcurrent = 1 },
  { url = "http://h" },
]
"""


def test_what_an_entry_of_a_list_has_is_told_with_its_line() -> None:
    entries = ("upstreams", "a", "endpoints")
    assert messages((*entries, 0, "max_concurrent"), text=POOL) == [
        "llmgate: /f.toml:3: upstreams.a.endpoints[0].maxConcurrent is bad"
    ]
    assert messages((*entries, 1, "url"), (*entries, 1, "max_concurrent"), text=POOL) == [
        "llmgate: /f.toml:4: upstreams.a.endpoints[1].url is bad",
        "llmgate: /f.toml:4: upstreams.a.endpoints[1].max_concurrent is bad",
    ]


def test_what_an_entry_of_a_list_has_is_told_with_what_set_the_list() -> None:
    path = ("upstreams", "a", "endpoints", 1, "url")
    environ = {"LLMGATE_UPSTREAMS__A__ENDPOINTS": "[{}, {}]"}
    assert messages(path, text=POOL, environ=environ) == [
        "llmgate: environment variable LLMGATE_UPSTREAMS__A__ENDPOINTS: upstreams.a.endpoints[1].url is bad"
    ]
    overrides: Any = {"upstreams": {"a": {"endpoints": [{}, {}]}}}
    assert messages(path, text=POOL, environ=environ, overrides=overrides) == [
        "llmgate: command line: upstreams.a.endpoints[1].url is bad"
    ]


def test_what_nobody_wrote_is_told_without_a_place() -> None:
    assert messages(("log", "level"), text="") == ["llmgate: log.level is bad"]
    assert messages(("log",), text="") == ["llmgate: log is bad"]


def test_messages_stand_in_the_order_of_the_file_and_once() -> None:
    environ = {"LLMGATE_X__Y": "1", "LLMGATE_LOG__LEVEL": "1"}
    paths: list[Path] = [("log", "level"), ("upstreams", "a", "url"), ("server", "listen"), ("server", "listen")]
    text = TEXT + "max_concurrent = 1\n"
    found = messages(*paths, environ=environ, text=text)
    assert [message.split(": ")[1] for message in found] == [
        *("/f.toml:2", "/f.toml:5", "/f.toml:6", "environment variable LLMGATE_LOG__LEVEL"),
        found[-1].split(": ")[1],
    ]
    assert found[2].endswith("is there a second time, as max_concurrent")
    assert found[-1].startswith("llmgate: environment variable LLMGATE_X__Y names no section")


def test_the_place_of_a_value_is_told() -> None:
    plain = Plain(tomllib.loads(TEXT))
    environment = EnvironmentValues({"LLMGATE_LOG__LEVEL": "debug"}, ["a"])
    origins = Origins(FilePath("/f.toml"), TEXT, plain, environment, {"upstreams": {"b": {"url": "http://h"}}})
    assert origins.place(("server", "listen")) == "/f.toml:2"
    assert origins.place(("upstreams", "a", "max_concurrent")) == "/f.toml:6"
    assert origins.place(("log", "level")) == "environment variable LLMGATE_LOG__LEVEL"
    assert origins.place(("upstreams", "b", "url")) == "command line"
    assert origins.place(("server", "max_body")) == "default"
