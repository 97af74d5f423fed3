"""What the models refuse, in words."""

from typing import Any

import pytest
from pydantic import ValidationError

from llmgate.config.refusals import find_refusals
from llmgate.config.settings import Settings, UpstreamSettings


def refusals(**data: Any) -> list[str]:
    with pytest.raises(ValidationError) as refused:
        Settings.model_validate(data)
    return [str(problem) for problem in find_refusals(refused.value)]


def upstream(**changes: Any) -> dict[str, Any]:
    return {"a": {"url": "http://h", "max_concurrent": 1, **changes}}


def test_an_unknown_key_is_told_with_the_nearest_the_place_or_all() -> None:
    assert refusals(server={"lisen": 1}) == ["unknown key server.lisen; did you mean listen?"]
    assert refusals(upstream={}) == ["unknown key upstream; did you mean upstreams?"]
    assert refusals(heartbeat=1) == ["unknown key heartbeat; there is waiting.heartbeat"]
    assert refusals(server={"url": 1}) == ["unknown key server.url; there is upstreams.NAME.url"]
    assert refusals(upstreams=upstream(allow_open=True)) == [
        "unknown key upstreams.a.allow_open; there is server.allow_open"
    ]
    assert refusals(log={"colour": 1}) == ["unknown key log.colour; known here are level, format"]


def test_a_misspelt_key_is_not_told_as_missing_too() -> None:
    assert refusals(upstreams={"a": {"url": "http://h", "max_conccurent": 1}}) == [
        "unknown key upstreams.a.max_conccurent; did you mean max_concurrent?"
    ]


def test_a_missing_key_is_told_with_what_it_is() -> None:
    (text,) = refusals(upstreams={"a": {"url": "http://h"}})
    assert text.startswith("upstreams.a.max_concurrent is missing. Requests at the server at once")


def test_what_is_wrong_with_an_endpoint_is_told_with_its_place() -> None:
    good = {"url": "http://g", "max_concurrent": 1}
    told = refusals(upstreams={"a": {"endpoints": [good, {"url": "h", "max_concurrent": 0}, {"url": "http://i"}, 1]}})
    assert told[0].startswith("upstreams.a.endpoints[1].url must be an http or https URL")
    assert told[1].startswith("upstreams.a.endpoints[1].max_concurrent must be a whole number, 1 or more")
    assert told[2].startswith("upstreams.a.endpoints[2].max_concurrent is missing. Requests at this server at once")
    assert told[3:] == ["upstreams.a.endpoints[3] must be a table"]


def test_an_unknown_key_of_an_endpoint_is_told_with_the_nearest_the_place_or_all() -> None:
    def told(**changes: Any) -> list[str]:
        return refusals(upstreams={"a": {"endpoints": [{"url": "http://g", "max_concurrent": 1, **changes}]}})

    assert told(urls=1) == ["unknown key upstreams.a.endpoints[0].urls; did you mean url?"]
    assert told(ca_file="/c") == ["unknown key upstreams.a.endpoints[0].ca_file; there is upstreams.NAME.ca_file"]
    assert told(weight=1) == ["unknown key upstreams.a.endpoints[0].weight; known here are url, max_concurrent"]


def test_misspelt_endpoints_are_not_told_as_a_missing_url() -> None:
    assert refusals(upstreams={"a": {"endpoint": []}}) == ["unknown key upstreams.a.endpoint; did you mean endpoints?"]


def test_endpoints_that_are_refused_are_not_told_as_a_missing_url() -> None:
    (text,) = refusals(upstreams={"a": {"endpoints": []}})
    assert text.startswith("upstreams.a.endpoints must be a list of at least one table, such as [{ url = ")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"server": {"allow_open": "yes"}}, "server.allow_open must be true or false"),
        ({"log": {"level": "loud"}}, 'log.level must be "debug", "info", "warning" or "error"'),
        ({"upstreams": upstream(transport=1)}, 'upstreams.a.transport must be "native" or "httpx"'),
        ({"upstreams": upstream(on_down="wait")}, 'upstreams.a.on_down must be "hold" or "fail"'),
        ({"upstreams": upstream(force_stream=1)}, "upstreams.a.force_stream must be true or false"),
        ({"server": 1}, "server must be a table"),
        ({"upstreams": []}, "upstreams must be a table"),
        ({"upstreams": {"a": 1}}, "upstreams.a must be a table"),
        ({"waiting": {"heartbeat": 0}}, "waiting.heartbeat must be at least 10ms"),
        (
            {"upstreams": {"a b": upstream()["a"]}},
            'upstreams."a b" must be named with 1 to 64 letters, digits, dots, dashes or underscores',
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_is_told_with_what_is_allowed(data: Any, text: str) -> None:
    assert refusals(**data) == [text]


def test_everything_is_told_at_once() -> None:
    told = refusals(server={"lisen": 1, "max_body": 0}, log={"format": 1}, upstreams={"a": {}, "b": {}})
    assert len(told) == 7


@pytest.mark.parametrize(
    "value",
    ["hunter2", ["hunter2"], {"hunter2": 1}, {"x": "hunter2\n"}, b"hunter2", object()],
    ids=["text", "list", "key", "table", "bytes", "object"],
)
def test_no_value_is_ever_told(value: Any) -> None:
    data: dict[str, Any] = dict.fromkeys(UpstreamSettings.model_fields, value)
    told = [text for text in refusals(upstreams={"a": data}) if "unknown key" not in text]
    assert told
    assert "hunter2" not in "".join(told)
    assert "not allowed here" not in "".join(told), "each kind of refusal has its own words"
