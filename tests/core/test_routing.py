"""Which upstream serves a model: exact name, alias, the other tag, the most specific glob, the default upstream."""

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.core.routing import Route, Routes, Serves, is_glob, other_tag
from llmgate.errors import UnknownModel

ROUTES = Routes(
    {
        "rest": Serves(models=("*",)),
        "small": Serves(models=("qwen2.5:3b", "tiny-?"), aliases={"fast": "qwen2.5:3b", "reasoning": "qwen2.5:3b"}),
        "big": Serves(models=("reasoning", "qwen*", "qwen3-*", "tiny-x*")),
    }
)


@pytest.mark.parametrize(
    ("model", "route"),
    [
        ("reasoning", Route("big", "reasoning")),
        ("qwen2.5:3b", Route("small", "qwen2.5:3b")),
        ("fast", Route("small", "qwen2.5:3b")),
        ("qwen3-30b", Route("big", "qwen3-30b")),
        ("qwen2", Route("big", "qwen2")),
        ("tiny-y", Route("small", "tiny-y")),
        ("tiny-x", Route("big", "tiny-x")),
        ("Reasoning", Route("rest", "Reasoning")),
        ("anything\nelse", Route("rest", "anything\nelse")),
    ],
)
def test_exact_name_then_alias_then_the_most_specific_glob(model, route):
    assert ROUTES.find(model) == route


@pytest.mark.parametrize(
    ("model", "closer", "wider"),
    [
        ("gpt-4o", "gpt-*", "*"),
        ("gpt-4o", "gpt-4*", "gpt-*"),
        ("gpt-4o", "g*", "[a-z]*"),
        ("gpt-4o", "gp*", "*pt-4o"),
        ("gpt-4o", "gpt-*o", "gpt-*"),
        ("gpt-4o", "gpt-[0-9]o", "gpt-[0-9]*"),
        ("gpt-4o", "?*", "*"),
        ("gpt-4o[", "gpt-4o[", "gpt-4*"),
    ],
)
def test_the_more_a_glob_says_before_its_first_wildcard_and_in_all_the_closer_it_is(model, closer, wider):
    either_way = [
        {"closer": Serves((closer,)), "wider": Serves((wider,))},
        {"wider": Serves((wider,)), "closer": Serves((closer,))},
    ]
    assert [Routes(serves).find(model).upstream for serves in either_way] == ["closer", "closer"]


def test_of_two_that_say_the_same_the_first_in_the_settings_serves():
    routes = Routes({"a": Serves(("m", "x*"), {"n": "m"}), "b": Serves(("m", "x*"), {"n": "other"})})
    assert [routes.find(model).upstream for model in ("m", "x1", "n")] == ["a", "a", "a"]


TAGGED = Routes(
    {
        "rest": Serves(("*",)),
        "ollama": Serves(
            ("llama3:latest", "mistral", "qwen2.5:3b", "host:5000/tiny:latest"), {"fast:latest": "mistral"}
        ),
        "both": Serves(("two", "two:latest")),
    },
)


@pytest.mark.parametrize(
    ("model", "route"),
    [
        ("llama3", Route("ollama", "llama3:latest")),
        ("llama3:latest", Route("ollama", "llama3:latest")),
        ("mistral:latest", Route("ollama", "mistral")),
        ("fast", Route("ollama", "mistral")),
        ("host:5000/tiny", Route("ollama", "host:5000/tiny:latest")),
        ("two", Route("both", "two")),
        ("two:latest", Route("both", "two:latest")),
        ("qwen2.5", Route("rest", "qwen2.5")),
        ("qwen2.5:latest", Route("rest", "qwen2.5:latest")),
        ("llama3:8b", Route("rest", "llama3:8b")),
        ("mistral:latest:latest", Route("rest", "mistral:latest:latest")),
        (":latest", Route("rest", ":latest")),
    ],
)
def test_a_name_without_a_tag_is_the_one_with_latest_and_the_server_is_asked_for_what_it_lists(model, route):
    assert TAGGED.find(model) == route


def test_an_alias_goes_before_another_tag():
    routes = Routes({"a": Serves(("m:latest",), {"m": "other"})})
    assert [routes.find(model).model for model in ("m", "m:latest")] == ["other", "m:latest"]


@pytest.mark.parametrize(
    ("model", "other"),
    [
        ("llama3", "llama3:latest"),
        ("llama3:latest", "llama3"),
        ("llama3:8b", ""),
        ("host:5000/a/b", "host:5000/a/b:latest"),
        ("host:5000/a/b:8b", ""),
    ],
)
def test_the_other_way_to_write_a_name(model, other):
    assert other_tag(model) == other


def test_the_default_upstream_gets_the_rest_under_its_own_name():
    routes = Routes({"a": Serves(("m",))}, default_upstream="a")
    assert routes.find("never heard of") == Route("a", "never heard of")


def test_an_unknown_model_is_told_which_are_known():
    routes = Routes({"a": Serves(("m", "x*"), {"fast": "m"})})
    with pytest.raises(UnknownModel) as caught:
        routes.find("gpt-4o")
    assert str(caught.value) == ("llmgate: no upstream serves the model 'gpt-4o'; known are m, fast (UNKNOWN_MODEL)")


def test_not_all_of_many_known_are_told():
    routes = Routes({"a": Serves(tuple(f"m{number}" for number in range(50)))})
    with pytest.raises(UnknownModel, match=r"m18, m19 and more \(UNKNOWN_MODEL\)"):
        routes.find("gpt-4o")


def test_where_none_is_known_the_question_is_whether_the_upstream_is_up():
    with pytest.raises(UnknownModel, match="none is known yet: is the upstream up"):
        Routes({"a": Serves()}).find("gpt-4o")


def test_names_and_aliases_are_listed_globs_are_not():
    routes = Routes({"a": Serves(("m", "x*"), {"fast": "m", "other": "m"}), "b": Serves(("other",))})
    assert routes.models() == [
        ("m", Route("a", "m")),
        ("other", Route("b", "other")),
        ("fast", Route("a", "m")),
    ]


def test_what_an_upstream_lists_is_listed_where_its_glob_is_the_closest_and_no_name_is_closer():
    told = ("own", "qwen", "q-alias", "q-b", "qwen3", "llama", "q-tag:latest")
    a = Serves(("own", "q*"), {"fast": "own"}, told)
    b = Serves(("qwen", "q-b*", "q-tag"), {"q-alias": "qwen"}, ("q-b", "q-bb", "qwen4"))
    routes = Routes({"a": a, "b": b})
    assert dict(routes.models()) == {
        "own": Route("a", "own"),
        "qwen": Route("b", "qwen"),
        "q-tag": Route("b", "q-tag"),
        "qwen3": Route("a", "qwen3"),
        "q-b": Route("b", "q-b"),
        "q-bb": Route("b", "q-bb"),
        "fast": Route("a", "own"),
        "q-alias": Route("b", "qwen"),
    }
    assert len(routes.models()) == 8
    with pytest.raises(UnknownModel, match="known are own, qwen, q-tag, qwen3, q-b, q-bb, fast, q-alias "):
        routes.find("gpt-4o")


def test_what_only_the_default_upstream_would_take_is_not_listed():
    routes = Routes({"a": Serves(("m",), {}, ("m", "other"))}, "a")
    assert routes.models() == [("m", Route("a", "m"))]


def test_of_two_upstreams_with_the_same_glob_the_one_that_serves_is_listed():
    routes = Routes({"a": Serves(("*",), {}, ("x",)), "b": Serves(("*",), {}, ("x", "y"))})
    assert routes.models() == [("x", Route("a", "x"))]
    assert routes.find("y") == Route("a", "y")


@pytest.mark.parametrize(("model", "expected"), [("m", False), ("", False), ("m*", True), ("m?", True), ("[ab]", True)])
def test_what_is_a_glob(model, expected):
    assert is_glob(model) is expected


NAMES = st.text("ab*?[]-", min_size=1, max_size=6)
SERVES = st.dictionaries(
    st.sampled_from(["u1", "u2", "u3"]),
    st.builds(
        Serves,
        st.lists(NAMES, max_size=3).map(tuple),
        st.dictionaries(st.text("ab", max_size=3), NAMES),
        st.lists(NAMES, max_size=3).map(tuple),
    ),
)


@given(serves=SERVES, model=st.text("ab-", max_size=5), default=st.sampled_from(["", "u1"]))
def test_a_route_has_its_reason_in_the_settings(serves, model, default):
    exact = [name for name, served in serves.items() if model in served.models and not is_glob(model)]
    aliases = [name for name, served in serves.items() if model in served.aliases]
    globs = [
        name
        for name, served in serves.items()
        if any(is_glob(glob) and fnmatch.fnmatchcase(model, glob) for glob in served.models)
    ]
    routes = Routes(serves, default)
    if not (exact or aliases or globs or default):
        with pytest.raises(UnknownModel):
            routes.find(model)
        return
    route = routes.find(model)
    if exact:
        assert route == Route(exact[0], model)
    elif aliases:
        assert route == Route(aliases[0], serves[aliases[0]].aliases[model])
    elif globs:
        assert route.upstream in globs
        assert route.model == model
    else:
        assert route == Route(default, model)


@given(serves=SERVES, default=st.sampled_from(["", "u1"]))
def test_whatever_is_listed_is_routed_as_it_is_listed(serves, default):
    routes = Routes(serves, default)
    listed = routes.models()
    assert len(dict(listed)) == len(listed)
    assert all(routes.find(name) == route for name, route in listed)
