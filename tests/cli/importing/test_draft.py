"""A draft of settings is always a file that llmgate takes, whatever names it was made of."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from llmgate.cli.importing.draft import AUTO, Draft
from llmgate.config.load import Loaded, load


def loaded(text: str, environ: dict[str, str] | None = None) -> Loaded:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "l.toml"
        file.write_text(text)
        return load(file, environ=environ or {})


names = st.text(max_size=12) | st.sampled_from(["a", "b", "qwen2.5:3b", "*", "\n[server]\nx = 1"])
urls = names | st.sampled_from(["http://h:1", "http://h:1/v1", "http://g", "http://localhost:8080", "http://u:p@h"])


@given(st.lists(st.tuples(names, urls, st.dictionaries(names, names, max_size=3), st.integers()), max_size=5), names)
def test_it_can_be_used_whatever_it_is_made_of(entries: list[tuple[str, str, dict[str, str], int]], key: str) -> None:
    draft = Draft("X")
    for name, url, models, limit in entries:
        server = draft.server(name, url)
        if server is not None:
            server.models |= models
            server.raise_limit(limit)
            server.key_variable = key
            server.remarks.append(name)
    draft.gather_equals()
    settings = loaded(draft.text()).settings
    assert len(settings.upstreams) == len(draft.servers)


def test_one_url_is_one_server_and_v1_goes_away() -> None:
    draft = Draft("X")
    first = draft.server("a", "http://h:1/v1/")
    assert draft.server("b", "http://h:1") is first
    assert draft.server("a", "http://h:2") is not first
    assert [*loaded(draft.text()).settings.upstreams] == ["a", "a-2"]


def test_a_url_that_cannot_be_used_is_a_remark_that_does_not_show_it() -> None:
    draft = Draft("X")
    assert draft.server("a", "http://user:hunter2@h") is None
    assert "# NOT CARRIED OVER: a is left out: its URL must not hold a user or password" in draft.text()
    assert "hunter2" not in draft.text()
    assert "No server was found" in draft.text()


def test_servers_of_the_same_models_become_endpoints() -> None:
    draft = Draft("X")
    for number, url in enumerate(("http://h:1", "http://h:2", "http://h:3")):
        server = draft.server("pool", url)
        assert server is not None
        server.models["m" if number < 2 else "other"] = "real"
        server.raise_limit(number)
    draft.gather_equals()
    upstreams = loaded(draft.text()).settings.upstreams
    assert [endpoint.max_concurrent for endpoint in upstreams["pool"].all_endpoints] == ["auto", 1]
    assert upstreams["pool"].aliases == {"m": "real"}


def test_a_model_of_two_different_servers_stays_with_the_first() -> None:
    draft = Draft("X")
    for url, models in (("http://h:1", {"m": "m"}), ("http://h:2", {"m": "m", "n": "n"})):
        server = draft.server("s", url)
        assert server is not None
        server.models |= models
    text = draft.text()
    assert "# NOT CARRIED OVER: the model 'm': s has it too, with other models beside it" in text
    assert [upstream.models for upstream in loaded(text).settings.upstreams.values()] == [("m",), ("n",)]


def test_a_server_on_our_own_port_keeps_it() -> None:
    draft = Draft("X")
    draft.server("s", "http://localhost:8080")
    assert loaded(draft.text()).settings.server.listen == ("127.0.0.1:8081",)


def test_a_key_is_named_only_where_its_variable_is_set() -> None:
    draft = Draft("X")
    server = draft.server("s", "http://h")
    assert server is not None
    server.key_variable = "THE_KEY"
    assert '#api_key_env = "THE_KEY"' in draft.text()
    assert loaded(draft.text()).settings.upstreams["s"].api_key_env == ""
    text = draft.text({"THE_KEY"})
    assert loaded(text, {"THE_KEY": "x"}).settings.upstreams["s"].api_key_env == "THE_KEY"


def test_what_auto_means_is_told_where_it_stands() -> None:
    draft = Draft("X")
    server = draft.server("s", "http://h")
    assert AUTO in draft.text()
    assert server is not None
    server.raise_limit(2)
    server.raise_limit(True)
    server.raise_limit("5")
    assert AUTO not in draft.text()
    assert loaded(draft.text()).settings.upstreams["s"].max_concurrent == 2
