"""What a reload changes, told key by key; what needs a new start stays as it was; no secret is shown."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from llmgate.config.reload import Change, differences, in_force, secret_differences
from llmgate.config.settings import Settings
from llmgate.config.written import HIDDEN


def settings(upstream: dict[str, Any] | None = None, **sections: Any) -> Settings:
    one = {"url": "http://h", "max_concurrent": 1, **(upstream or {})}
    return Settings.model_validate({"upstreams": {"a": one}, **sections})


def test_nothing_changed() -> None:
    assert differences(settings(), settings()) == []
    assert in_force(settings(), settings()) == settings()


def test_a_live_key_is_taken_on() -> None:
    old, new = settings(), settings({"max_concurrent": 3, "queue_timeout": "90s"})
    assert differences(old, new) == [
        Change("upstreams.a.max_concurrent", 1, 3, "live"),
        Change("upstreams.a.queue_timeout", 0, "90s", "live"),
    ]
    assert in_force(old, new) == new


def test_a_key_that_needs_a_start_stays() -> None:
    old, new = settings(), settings(server={"listen": ["127.0.0.1:9"], "max_body": "1MiB"}, admin={"history": 7})
    assert [(change.key, change.reload) for change in differences(old, new)] == [
        ("server.listen", "restart"),
        ("server.max_body", "live"),
        ("admin.history", "restart"),
    ]
    kept = in_force(old, new)
    assert (kept.server.listen, kept.server.max_body, kept.admin) == (old.server.listen, 1 << 20, old.admin)
    assert [change.key for change in differences(kept, new)] == ["server.listen", "admin.history"]


def test_a_table_in_a_section() -> None:
    old, new = settings(), settings(server={"cors": {"origins": ["https://a"]}, "listen": ["127.0.0.1:9"]})
    assert "server.cors.origins" in {change.key for change in differences(old, new)}
    kept = in_force(old, new)
    assert (kept.server.cors, kept.server.listen) == (new.server.cors, old.server.listen)


def test_upstreams_come_and_go() -> None:
    one = {"url": "http://h", "max_concurrent": 1}
    old = Settings.model_validate({"upstreams": {"a": one, "b.c": one}})
    new = Settings.model_validate({"upstreams": {"a": one, "d": {**one, "url": "http://d"}}})
    assert differences(old, new) == [
        Change('upstreams."b.c"', "http://h", None, "live"),
        Change("upstreams.d", None, "http://d", "live"),
    ]
    assert in_force(old, new).upstreams == new.upstreams


def test_header_values_are_never_shown() -> None:
    (change,) = differences(settings({"headers": {"x": "secret-1"}}), settings({"headers": {"x": "secret-2"}}))
    assert (change.old, change.new) == ({"x": HIDDEN}, {"x": HIDDEN})
    assert "secret" not in str(change)
    assert "not shown" in str(change)


def test_keys_are_told_by_their_places() -> None:
    old = {("keys", "laptop"): "1", ("keys", "gone"): "1", ("upstreams", "a", "api_key_file"): "1"}
    new = {("keys", "laptop"): "2", ("keys", "new"): "1", ("upstreams", "a", "api_key_file"): "2"}
    assert list(secret_differences(old, new, {"upstreams.a.api_key_file"})) == [
        Change("keys.laptop", HIDDEN, HIDDEN, "live"),
        Change("keys.gone", HIDDEN, None, "live"),
        Change("keys.new", None, HIDDEN, "live"),
    ]


def test_changes_in_words() -> None:
    assert str(Change("a.b", 1, 2, "live")) == "a.b = 2 (was 1)"
    assert str(Change("a.b", 1, 2, "restart")) == "a.b = 2 (was 1): needs a restart"
    assert str(Change("upstreams.b", None, "http://b", "live")) == "upstreams.b is new: http://b"
    assert str(Change("upstreams.b", "http://b", None, "live")) == "upstreams.b is gone"


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "server": st.fixed_dictionaries({}, optional={"max_body": st.integers(1, 9), "path_prefix": st.just(["/x"])}),
        "log": st.fixed_dictionaries({}, optional={"level": st.just("error"), "format": st.just("json")}),
        "waiting": st.fixed_dictionaries({}, optional={"heartbeat": st.integers(1, 9)}),
    },
)


@given(CHANGES, CHANGES)
def test_what_is_in_force_differs_from_the_new_by_what_needs_a_start_only(old: Any, new: Any) -> None:
    before, after = settings(**old), settings(**new)
    kept = in_force(before, after)
    all_changes = differences(before, after)
    assert differences(before, kept) == [change for change in all_changes if change.reload == "live"]
    assert differences(kept, after) == [change for change in all_changes if change.reload == "restart"]
