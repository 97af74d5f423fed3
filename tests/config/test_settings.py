"""The models: frozen, described, comparable, and silent about secrets."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from llmgate.config.settings import EndpointSettings, Identify, Server, Settings, UpstreamSettings, tables


def fields() -> Iterator[tuple[str, FieldInfo]]:
    """Every key that a file may set."""
    for path, model in {**tables(), ("upstreams",): UpstreamSettings}.items():
        yield from ((".".join((*path, key)), inner) for key, inner in model.model_fields.items())
    yield from ((f"upstreams.endpoints.{key}", inner) for key, inner in EndpointSettings.model_fields.items())


FIELDS = dict(fields())
DURATIONS = [
    name for name in FIELDS if name.endswith(("timeout", "_nonstream", ".heartbeat", "retry_after_max", "alarm"))
]


@pytest.mark.parametrize("name", FIELDS)
def test_every_key_says_what_it_is_and_whether_a_reload_takes_it(name: str) -> None:
    field = FIELDS[name]
    assert field.description
    assert field.description.endswith(".")
    assert len(field.description) > 25
    assert isinstance(field.json_schema_extra, dict)
    assert field.json_schema_extra["reload"] in ("live", "restart")


@pytest.mark.parametrize("name", DURATIONS)
def test_durations_name_their_unit(name: str) -> None:
    assert "econds" in str(FIELDS[name].description)


def upstream(**changes: Any) -> UpstreamSettings:
    return UpstreamSettings.model_validate({"url": "http://h", "max_concurrent": 1, **changes})


def test_the_defaults_of_an_upstream() -> None:
    made = upstream()
    assert made.max_queued is None
    assert made.queue_timeout is None
    assert (made.connect_timeout, made.release_timeout, made.queue_timeout_nonstream) == (5.0, 1.0, 270.0)
    assert (made.first_byte_timeout, made.idle_timeout, made.total_timeout) == (None, None, None)
    assert (made.on_down, made.stall_alarm, made.force_stream, made.endpoints) == ("hold", 600.0, True, None)


def test_a_stall_alarm_may_be_none() -> None:
    assert upstream(stall_alarm=0).stall_alarm is None
    assert upstream(stall_alarm="90s").stall_alarm == 90.0


TWO: list[dict[str, Any]] = [
    {"url": "http://gpu1:8000/", "max_concurrent": 4},
    {"url": "http://gpu2:8000", "max_concurrent": "auto"},
]


def pool(**changes: Any) -> UpstreamSettings:
    return UpstreamSettings.model_validate({"endpoints": TWO, **changes})


def test_an_upstream_may_have_endpoints_instead() -> None:
    made = pool()
    assert [(each.url, each.max_concurrent) for each in made.all_endpoints] == [
        ("http://gpu1:8000", 4),
        ("http://gpu2:8000", "auto"),
    ]
    assert (made.url, made.max_concurrent) == ("", "auto")
    assert pool(max_concurrent=6).max_concurrent == 6
    assert made.display_url == "http://gpu1:8000, http://gpu2:8000"


@pytest.mark.parametrize("limit", [0, 1, 8, "auto"])
def test_a_single_url_is_one_endpoint_with_the_limit_of_the_upstream(limit: Any) -> None:
    made = upstream(max_concurrent=limit)
    assert [(each.url, each.max_concurrent) for each in made.all_endpoints] == [("http://h", limit)]
    assert made.display_url == "http://h"
    assert made.all_endpoints == made.all_endpoints


def missing(**data: Any) -> set[str]:
    with pytest.raises(ValidationError) as refused:
        UpstreamSettings.model_validate(data)
    return {str(each["loc"][-1]) for each in refused.value.errors() if each["type"] == "missing"}


def test_what_is_missing_beside_what() -> None:
    assert missing() == missing(endpoints=None, url="") == {"url", "max_concurrent"}
    assert missing(endpoints=[]) == set(), "the list is refused, and that is enough"
    assert missing(endpoints=[{}]) == {"url", "max_concurrent"}, "those of the endpoint"
    assert missing(url="http://h", max_queued=-1) == {"max_concurrent"}, "whatever else is wrong"


@pytest.mark.parametrize("key", ["url", "max_concurrent"])
def test_url_and_max_concurrent_are_required(key: str) -> None:
    data = {"url": "http://h", "max_concurrent": 1}
    del data[key]
    with pytest.raises(ValidationError, match=rf"(?s){key}.*missing"):
        UpstreamSettings.model_validate(data)


@pytest.mark.parametrize(
    ("own", "nonstream", "limit"),
    [(0, "270s", 270), ("1h", "270s", 270), ("5s", "270s", 5), ("1h", 0, 3600), (0, 0, None)],
)
def test_a_request_that_does_not_stream_waits_for_the_shorter_of_the_two(own: Any, nonstream: Any, limit: Any) -> None:
    assert upstream(queue_timeout=own, queue_timeout_nonstream=nonstream).nonstream_queue_timeout == limit


def everything() -> Settings:
    return Settings.model_validate(
        {
            "server": {"listen": ["127.0.0.1:1"], "max_body": "1MiB"},
            "upstreams": {
                "a": {
                    "url": "http://h/",
                    "max_concurrent": "auto",
                    "models": ["m*"],
                    "aliases": {"x": "y"},
                    "headers": {"Authorization": "Bearer hunter2"},
                    "api_key_file": "/k",
                },
                "b": {"endpoints": TWO, "max_concurrent": 6, "on_down": "fail"},
                "c": {"endpoints": TWO},
            },
        }
    )


def test_equal_settings_are_equal_and_hash_alike() -> None:
    one, other = everything(), everything()
    assert one == other
    assert hash(one) == hash(other)
    changed = one.model_copy(update={"server": Server(max_body=1)})
    assert changed != one
    assert hash(changed) != hash(one)
    assert changed.upstreams["a"] == one.upstreams["a"]


def test_a_changed_header_is_a_change_although_it_is_hidden() -> None:
    assert upstream(headers={"x": "1"}) != upstream(headers={"x": "2"})


def test_settings_made_from_settings_are_the_same() -> None:
    assert Settings.model_validate(everything().model_dump()) == everything()


def test_nothing_can_be_changed() -> None:
    settings = everything()
    with pytest.raises(ValidationError):
        settings.server.allow_open = True
    with pytest.raises(ValidationError):
        settings.upstreams["b"].all_endpoints[0].max_concurrent = 5
    with pytest.raises(TypeError):
        settings.upstreams["b"] = upstream()
    with pytest.raises(TypeError):
        settings.upstreams["a"].headers.clear()


def test_header_values_are_not_shown() -> None:
    settings = everything()
    assert "hunter2" not in repr(settings) + str(settings) + repr(settings.model_dump()) + settings.model_dump_json()
    assert settings.upstreams["a"].headers["authorization"].get_secret_value() == "Bearer hunter2"


def test_no_refusal_shows_its_value() -> None:
    with pytest.raises(ValidationError) as refused:
        upstream(url="http://u:hunter2@h", headers={"x": "hunter2\n"}, max_concurrent="hunter2", hunter=1)
    assert "hunter2" not in str(refused.value)


def test_unknown_keys_are_refused_everywhere() -> None:
    for data in (
        {"x": 1},
        {"server": {"x": 1}},
        {"upstreams": {"a": {"url": "http://h", "max_concurrent": 1, "x": 1}}},
        {"upstreams": {"a": {"endpoints": [{**TWO[0], "ca_file": "/c"}]}}},
    ):
        with pytest.raises(ValidationError, match="extra_forbidden"):
            Settings.model_validate(data)


def test_the_default_headers_end_with_what_is_new_in_every_request() -> None:
    assert Identify().session[0] == "llmgate-session"
    assert Identify().session[-1] == "x-client-request-id"
    assert Identify().purpose[0] == "llmgate-purpose"
    assert all(name == name.lower() for name in (*Identify().session, *Identify().purpose))


def test_defaults_are_what_their_own_keys_would_allow() -> None:
    assert Settings.model_validate(Settings().model_dump()) == Settings()
