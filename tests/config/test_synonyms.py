"""The spellings of the plugin that llmgate grew from."""

from typing import Any

import pytest

from llmgate.config.synonyms import Plain


def texts(plain: Plain) -> list[str]:
    return [str(problem) for problem in plain.problems]


def test_the_other_spellings_mean_the_same() -> None:
    raw = {"providers": {"a": {"url": "u", "maxConcurrent": 1, "maxQueued": 2, "queueTimeoutMs": 1500}}, "log": {}}
    plain = Plain(raw)
    table = {"url": "u", "max_concurrent": 1, "max_queued": 2, "queue_timeout": 1.5}
    assert plain.values == {"upstreams": {"a": table}, "log": {}}
    assert plain.problems == []
    assert "providers" in raw, "what was read stays as it is"
    assert "maxConcurrent" in raw["providers"]["a"]


def test_a_path_leads_back_to_what_was_written() -> None:
    plain = Plain({"providers": {"a": {"maxConcurrent": 1}}, "upstreams": {"b": {"maxQueued": 1, "url": "u"}}})
    assert plain.as_written(("upstreams", "a")) == ("providers", "a")
    assert plain.as_written(("upstreams", "a", "max_concurrent")) == ("providers", "a", "maxConcurrent")
    assert plain.as_written(("upstreams", "a", "models", 1)) == ("providers", "a", "models", 1)
    assert plain.as_written(("upstreams", "b", "max_queued")) == ("upstreams", "b", "maxQueued")
    assert plain.as_written(("upstreams", "b", "url")) == ("upstreams", "b", "url")
    assert plain.as_written(("server", "listen")) == ("server", "listen")


def test_endpoints_may_have_the_other_spellings_too() -> None:
    endpoints = [{"url": "u", "maxConcurrent": 1}, {"max_concurrent": 2}, 3]
    plain = Plain({"providers": {"a": {"endpoints": endpoints, "maxConcurrent": 3}}})
    assert plain.values["upstreams"]["a"] == {
        "endpoints": [{"url": "u", "max_concurrent": 1}, {"max_concurrent": 2}, 3],
        "max_concurrent": 3,
    }
    assert plain.problems == []
    assert endpoints[0] == {"url": "u", "maxConcurrent": 1}, "what was read stays as it is"
    written = ("providers", "a", "endpoints", 0, "maxConcurrent")
    assert plain.as_written(("upstreams", "a", "endpoints", 0, "max_concurrent")) == written
    assert plain.as_written(("upstreams", "a", "endpoints", 1, "url")) == ("providers", "a", "endpoints", 1, "url")
    twice = Plain({"upstreams": {"a": {"endpoints": [{}, {"maxConcurrent": 1, "max_concurrent": 2}]}}})
    assert texts(twice) == ["upstreams.a.endpoints[1].maxConcurrent is there a second time, as max_concurrent"]


def test_both_kinds_of_table_may_stand_side_by_side() -> None:
    plain = Plain({"providers": {"a": {"x": 1}}, "upstreams": {"b": {"y": 2}}})
    assert plain.values == {"upstreams": {"a": {"x": 1}, "b": {"y": 2}}}


def test_the_same_name_twice_is_a_problem() -> None:
    plain = Plain({"providers": {"a": {"url": "1"}, "b": {}}, "upstreams": {"a": {"url": "2"}}})
    assert texts(plain) == ["providers.a is there a second time, as upstreams.a"]
    assert plain.values["upstreams"]["a"] == {"url": "2"}


@pytest.mark.parametrize(("camel", "snake"), [("maxConcurrent", "max_concurrent"), ("queueTimeoutMs", "queue_timeout")])
def test_the_same_key_twice_is_a_problem(camel: str, snake: str) -> None:
    for table in ({camel: 1, snake: 2}, {snake: 2, camel: 1}):
        plain = Plain({"upstreams": {"a": table}})
        assert texts(plain) == [f"upstreams.a.{camel} is there a second time, as {snake}"]
        assert plain.values["upstreams"]["a"] == {snake: 2}


@pytest.mark.parametrize("value", [-1, 1.5, "1s", True, None])
def test_milliseconds_are_whole_numbers(value: Any) -> None:
    plain = Plain({"providers": {"a": {"queueTimeoutMs": value}}})
    assert texts(plain) == ["providers.a.queueTimeoutMs must be a whole number of milliseconds, 0 or more"]


@pytest.mark.parametrize(
    "raw", [{"upstreams": 1}, {"upstreams": {"a": 1}}, {"upstreams": {"a": {"endpoints": 1}}}, {"server": 1}, {}]
)
def test_what_has_another_shape_is_left_for_the_models_to_refuse(raw: dict[str, Any]) -> None:
    plain = Plain(raw)
    assert plain.values == raw
    assert plain.problems == []


def test_providers_must_be_tables() -> None:
    assert "must be tables" in texts(Plain({"providers": 1}))[0]
    assert Plain({"providers": {"a": {}}, "upstreams": 1}).values == {"upstreams": 1}
