"""What is said of a name that is not known."""

import pytest

from llmgate.config.settings import UpstreamSettings
from llmgate.names import ambiguous, meant, nearest, no_upstream, unknown, unknown_upstream, whole_ids


def test_the_nearest_is_named_then_all() -> None:
    known = ["ollama", "reasoning"]
    assert nearest("resoning", known) == "reasoning"
    assert nearest("x", known) is None
    assert nearest("oen", ["one", "two"]) == "one"
    assert (meant("resoning", known), meant("x", known)) == ("did you mean reasoning? ", "")
    assert (
        unknown("upstream", "resoning", known)
        == "there is no upstream 'resoning'; did you mean reasoning? there are: ollama, reasoning"
    )


@pytest.mark.parametrize(
    ("written", "key"),
    [
        *(("max_conccurent", "max_concurrent"), ("maxConcurrent", "max_concurrent"), ("max-queued", "max_queued")),
        *(("URL", "url"), ("queue_timout", "queue_timeout"), ("model", "models"), ("header", "headers")),
    ],
)
def test_case_dashes_and_underscores_do_not_count(written: str, key: str) -> None:
    assert nearest(written, UpstreamSettings.model_fields) == key


@pytest.mark.parametrize("written", ["", "x", "colour", "temperature", "🦙"])
def test_nothing_is_near_to_what_is_quite_different(written: str) -> None:
    assert nearest(written, UpstreamSettings.model_fields) is None


def test_every_name_is_nearest_to_itself() -> None:
    for key in UpstreamSettings.model_fields:
        assert nearest(key, UpstreamSettings.model_fields) == key


@pytest.mark.parametrize(("known", "end"), [((), "there are: none"), (("one",), "'x'; there are: one")])
def test_where_none_is_near(known: tuple[str, ...], end: str) -> None:
    error = unknown_upstream("x", known, {})
    assert (str(error).endswith(end), error.code) == (True, "UNKNOWN_UPSTREAM")


def test_one_that_a_reload_calls_otherwise() -> None:
    said = "there is no upstream 'one' any more: a reload calls it uno"
    assert no_upstream("one", ["uno", "on"], {"one": "uno"}) == said
    assert str(unknown_upstream("one", ["uno", "on"], {"one": "uno"})) == said


def test_an_id_as_it_is_typed() -> None:
    known = ["a1", "a12", "a2", "b"]
    assert whole_ids("a1", known) == ["a1"]
    assert whole_ids("a", known) == ["a1", "a12", "a2"]
    assert whole_ids("", known) == whole_ids("c", known) == []
    assert ambiguous("a", ["a1", "a2"]) == "a is the beginning of a1, a2: say more of it"
    assert (
        ambiguous("a", [f"a{n}" for n in range(7)])
        == "a is the beginning of a0, a1, a2, a3, a4 and 2 more: say more of it"
    )
