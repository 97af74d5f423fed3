"""Settings from a file, the environment and the command line together."""

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_settings import BaseSettings

from llmgate.config.environment import parse_upstream
from llmgate.config.load import Loaded, load, read_text
from llmgate.config.paths import find_file
from llmgate.config.settings import Settings
from llmgate.errors import SettingsError

MINIMAL = '[upstreams.a]\nurl = "http://127.0.0.1:8000"\nmax_concurrent = 1\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "llmgate.toml"


def loaded(file: Path, text: str, environ: dict[str, str] | None = None, **overrides: Any) -> Loaded:
    file.write_text(text)
    return load(file, environ=environ or {}, overrides=overrides)


def refused(file: Path, text: str, environ: dict[str, str] | None = None, **overrides: Any) -> list[str]:
    with pytest.raises(SettingsError) as error:
        loaded(file, text, environ, **overrides)
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__ or error.value.__context__ is None
    return str(error.value).replace(str(file), "FILE").splitlines()


def test_a_file_is_read(file: Path) -> None:
    found = loaded(file, MINIMAL)
    assert found.path == file
    assert found.settings.upstreams["a"].max_concurrent == 1
    assert found.warnings == ()
    assert found.api_keys == {}


def test_without_any_file_the_defaults_hold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("llmgate.config.paths.settings_files", lambda _environ: [tmp_path / "none.toml"])
    assert load(None, environ={}) == Loaded(Settings(), None)


def test_the_process_environment_is_not_looked_at(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LLMGATE_SERVER__MAX_BODY", "SERVER", "server", "log", "upstreams"):
        monkeypatch.setenv(name, "1")
    assert loaded(file, "").settings == Settings()


def test_the_file_is_the_first_that_is_found(tmp_path: Path) -> None:
    own = tmp_path / "c" / "llmgate" / "llmgate.toml"
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "c")}
    assert find_file(environ) != own
    own.parent.mkdir(parents=True)
    own.write_text(MINIMAL)
    assert find_file(environ) == own
    assert load(None, environ=environ).path == own
    named = tmp_path / "named.toml"
    named.write_text("")
    assert load(None, environ={**environ, "LLMGATE_CONFIG": str(named)}).path == named
    assert load(own, environ={"LLMGATE_CONFIG": str(named)}).path == own


def test_a_file_that_is_named_must_exist(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    for path, environ in ((missing, {}), (None, {"LLMGATE_CONFIG": str(missing)})):
        with pytest.raises(
            SettingsError, match=r"^llmgate: .*missing\.toml: cannot be read: No such file or directory$"
        ):
            load(path, environ=environ)


def test_a_broken_link_is_told_and_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "llmgate").mkdir()
    (tmp_path / "llmgate" / "llmgate.toml").symlink_to(tmp_path / "gone")
    with pytest.raises(SettingsError, match="cannot be read"):
        load(None, environ={"XDG_CONFIG_HOME": str(tmp_path)})


def test_what_is_no_readable_file_is_told(file: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        read_text(tmp_path)
    file.write_bytes(b"a = 1\n# caf\xe9\n")
    with pytest.raises(SettingsError, match=r"llmgate\.toml:2: is not UTF-8 text"):
        read_text(file)
    file.write_bytes(b"#" * (1 << 20) + b"\n")
    with pytest.raises(SettingsError, match="is too large"):
        read_text(file)


def test_a_file_of_others_is_told(file: Path, as_nobody: Callable[[], AbstractContextManager[None]]) -> None:
    file.write_text("")
    file.chmod(0)
    with as_nobody(), pytest.raises(SettingsError, match="Permission denied"):
        load(file, environ={})


def test_a_mark_at_the_start_does_not_matter(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode())
    assert load(file, environ={}).settings.upstreams.keys() == {"a"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\n[b\nc = 2\n", "llmgate: FILE:2: not TOML: Expected ']' at the end of a table declaration"),
        ('a = 1\nb = """\n\n', "llmgate: FILE:2: not TOML: Unterminated string"),
        ("a = 1\na = 2\n", "llmgate: FILE:2: a stands there twice"),
        (MINIMAL + "\nmax_concurrent = 2 # again\n", "llmgate: FILE:5: max_concurrent stands there twice"),
        (MINIMAL + "headers = { x = 1, x = 2 }\n", "llmgate: FILE:4: x stands there twice"),
        (MINIMAL + "[upstreams.a]\n", "llmgate: FILE:4: [upstreams.a] stands there twice"),
        ("a = 1\na = [\n]\n", "llmgate: FILE:3: not TOML: Cannot overwrite a value"),
        ("a = " + "1" * 5000, "llmgate: FILE:1: not TOML: Exceeds the limit"),
        ("a = " + "[" * 5000, "llmgate: FILE: not TOML: too many brackets inside each other"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_toml_is_told_with_its_line(file: Path, text: str, message: str) -> None:
    (line,) = refused(file, text)
    assert line.startswith(message)


def test_an_unknown_key_is_told_with_file_line_and_nearest_key(file: Path) -> None:
    text = '[upstreams.reasoning]\nurl = "http://127.0.0.1:8000"\n\nmax_conccurent = 1\n'
    assert refused(file, text) == [
        "llmgate: FILE:4: unknown key upstreams.reasoning.max_conccurent; did you mean max_concurrent?"
    ]


def test_everything_that_is_wrong_is_told_at_once_in_order(file: Path) -> None:
    text = '[log]\nlevel = "loud"\n[server]\nmax_body = 0\nx = 1\n[upstreams.a]\nmax_queued = -1\n[providers.a]\n'
    lines = refused(file, text, {"LLMGATE_WAITING__HEARTBEAT": "x", "LLMGATE_Z__Z": ""}, admin={"history": "x"})
    assert [line.split(": ")[1] for line in lines] == [
        *("FILE:2", "FILE:4", "FILE:5", "FILE:6", "FILE:6", "FILE:7", "FILE:8"),
        "environment variable LLMGATE_WAITING__HEARTBEAT",
        "command line",
        lines[-1].split(": ")[1],
    ]
    assert all(line.startswith("llmgate: ") for line in lines)


def test_checks_between_keys_are_told_with_their_lines(file: Path) -> None:
    text = (
        MINIMAL + 'models = ["m"]\n[upstreams.b]\nurl = "http://localhost:8080"\nmax_concurrent = 0\naliases.m = "x"\n'
    )
    text += '[server]\nlisten = ["0.0.0.0:8080"]\n'
    assert [line.split(" ")[1] for line in refused(file, text)] == ["FILE:6:", "FILE:8:", "FILE:10:"]


def test_the_later_source_wins_key_by_key(file: Path) -> None:
    text = MINIMAL + "max_queued = 1\nqueue_timeout = 1\n[server]\nmax_body = 1\nbody_timeout = 1\n"
    environ = {
        "LLMGATE_UPSTREAMS__A__MAX_QUEUED": "2",
        "LLMGATE_SERVER__MAX_BODY": "2",
        "LLMGATE_SERVER__BODY_TIMEOUT": "2",
    }
    settings = loaded(file, text, environ, server={"body_timeout": 3}).settings
    upstream = settings.upstreams["a"]
    assert (upstream.max_concurrent, upstream.max_queued, upstream.queue_timeout) == (1, 2, 1)
    assert (settings.server.max_body, settings.server.body_timeout) == (2, 3)


def test_reading_again_makes_no_class(file: Path) -> None:
    """One holds some kilobytes with its schema, and goes only with the collector of circles."""
    gc.disable()
    try:
        loaded(file, MINIMAL)
        before = len(BaseSettings.__subclasses__())
        loaded(file, MINIMAL)
        assert len(BaseSettings.__subclasses__()) == before
    finally:
        gc.enable()


def test_an_upstream_may_come_from_the_environment_alone(file: Path) -> None:
    environ = {"LLMGATE_UPSTREAMS__b__URL": "http://b", "LLMGATE_UPSTREAMS__b__MODELS": "m,n"}
    assert refused(file, MINIMAL, environ)[0].startswith(
        "llmgate: environment variable LLMGATE_UPSTREAMS__b__MODELS: upstreams.b.max_concurrent is missing."
    )
    settings = loaded(file, MINIMAL, {**environ, "LLMGATE_UPSTREAMS__b__MAX_CONCURRENT": "auto"}).settings
    assert settings.upstreams["b"].models == ("m", "n")
    assert settings.upstreams.keys() == {"a", "b"}


def test_an_upstream_of_the_command_line_is_auto_unless_somebody_says_otherwise(file: Path) -> None:
    overrides = {
        **parse_upstream("new=http://n"),
        **parse_upstream("a=http://a"),
        **parse_upstream("b=http://b,max_concurrent=3"),
    }
    settings = loaded(file, MINIMAL, upstreams=overrides).settings
    assert {name: upstream.max_concurrent for name, upstream in settings.upstreams.items()} == {
        "a": 1,
        "new": "auto",
        "b": 3,
    }
    assert settings.upstreams["a"].url == "http://a"
    assert "max_concurrent" not in overrides["new"], "what was passed in stays as it is"


def test_a_file_must_say_max_concurrent(file: Path) -> None:
    (line,) = refused(file, '[upstreams.a]\nurl = "http://a"\n')
    assert line.startswith("llmgate: FILE:1: upstreams.a.max_concurrent is missing.")


def test_the_spelling_of_the_plugin_is_read(file: Path) -> None:
    text = '[providers.llamacpp]\nurl = "http://h"\nmaxConcurrent = 2\nmaxQueued = 3\nqueueTimeoutMs = 1500\n'
    upstream = loaded(file, text).settings.upstreams["llamacpp"]
    assert (upstream.max_concurrent, upstream.max_queued, upstream.queue_timeout) == (2, 3, 1.5)


POOL = """\
[upstreams.a]
endpoints = [
  { url = "http://gpu1:8000", max_concurrent = 4 },
  { url = "http://gpu2:8000", maxConcurrent = "auto" },
]
"""
POOL_AS_TABLES = """\
[[upstreams.a.endpoints]]
url = "http://gpu1:8000"
max_concurrent = 4
[[upstreams.a.endpoints]]
url = "http://gpu2:8000"
maxConcurrent = "auto"
"""


def test_an_upstream_may_have_endpoints(file: Path) -> None:
    for text in (POOL, POOL_AS_TABLES):
        upstream = loaded(file, text).settings.upstreams["a"]
        assert [endpoint.max_concurrent for endpoint in upstream.all_endpoints] == [4, "auto"]
        assert upstream.max_concurrent == "auto"
    assert loaded(file, POOL, {"LLMGATE_UPSTREAMS__A__MAX_CONCURRENT": "3"}).settings.upstreams["a"].max_concurrent == 3


def test_endpoints_may_come_from_the_environment(file: Path) -> None:
    name, listed = "LLMGATE_UPSTREAMS__A__ENDPOINTS", '[{"url": "http://g", "max_concurrent": 2}]'
    upstream = loaded(file, POOL, {name: listed}).settings.upstreams["a"]
    assert [endpoint.url for endpoint in upstream.all_endpoints] == ["http://g"]
    (line,) = refused(file, POOL, {name: '[{"url": "http://g", "max_concurrent": 2}, {"url": "http://h"}]'})
    assert line.startswith(f"llmgate: environment variable {name}: upstreams.a.endpoints[1].max_concurrent is missing.")
    (line,) = refused(file, POOL, {name: "http://g,http://h"})
    assert line.endswith("or as JSON in the environment")


def test_a_url_from_elsewhere_does_not_go_with_the_endpoints_of_the_file(file: Path) -> None:
    said = "upstreams.a.url must not be set together with endpoints: one of them says where the servers are"
    assert refused(file, POOL, {"LLMGATE_UPSTREAMS__A__URL": "http://h"}) == [
        f"llmgate: environment variable LLMGATE_UPSTREAMS__A__URL: {said}"
    ]
    assert refused(file, POOL, upstreams=parse_upstream("a=http://h")) == [f"llmgate: command line: {said}"]


def test_neither_url_nor_endpoints_is_told_with_the_line_of_the_table(file: Path) -> None:
    (line,) = refused(file, "\n[upstreams.a]\nmax_concurrent = 1\n")
    assert line.startswith("llmgate: FILE:2: upstreams.a.url is missing. Base URL of the server")
    (line,) = refused(file, "\n[upstreams.a]\nmodels = []\nendpoints = []\n")
    assert line.startswith("llmgate: FILE:4: upstreams.a.endpoints must be a list of at least one table")


BAD_ENDPOINTS = st.sampled_from(
    [
        ('url = "h", max_concurrent = 1', "url must be"),
        ('url = "http://h", max_concurrent = 0', "max_concurrent must be"),
        ('url = "http://h", maxConcurrent = 0', "maxConcurrent must be"),
        ('url = "http://h"', "max_concurrent is missing."),
        ('url = "http://h", max_concurrent = 1, x = 1', "known here are url"),
        ('url = "http://127.0.0.1:8080", max_concurrent = 1', "url points at llmgate itself"),
        ('url = "http://h0", max_concurrent = 1', "url leads where that of endpoints[0] does"),
    ]
)


@given(st.integers(1, 6), st.data(), BAD_ENDPOINTS, st.sampled_from(["upstreams", "providers"]), st.booleans())
def test_an_endpoint_is_told_with_its_line(
    tmp_path_factory: pytest.TempPathFactory, size: int, data: st.DataObject, bad: Any, table: str, inline: bool
) -> None:
    at = data.draw(st.integers(1, size))
    entries = [f'url = "http://h{index}", max_concurrent = 1' for index in range(size)]
    entries.insert(at, bad[0])
    if inline:
        text = "".join(["endpoints = [ # all\n", *(f"  {{ {entry} }}, # ]\n" for entry in entries), "]\n"])
    else:
        text = "".join(f"[[{table}.a.endpoints]]\n" + entry.replace(", ", "\n") + "\n" for entry in entries)
    text = f"[{table}.a]\nmodels = []\n{text}"
    (line,) = refused(tmp_path_factory.getbasetemp() / "endpoints.toml", text)
    told = int(line.split(":")[2])
    assert bad[1] in line
    assert f"{table}.a.endpoints[{at}]" in line
    if inline:
        assert told == 4 + at
    else:
        headers = [number for number, row in enumerate(text.splitlines(), 1) if row.startswith("[[")]
        assert headers[at] <= told <= headers[at] + 3


def test_keys_are_read_and_not_shown(file: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("hunter2")
    (tmp_path / "key").chmod(0o644)
    found = loaded(file, MINIMAL + f'api_key_file = "{tmp_path}/key"\n')
    assert found.api_keys["a"].get_secret_value() == "hunter2"
    assert "hunter2" not in repr(found)
    (warning,) = found.warnings
    assert warning.startswith(f"llmgate: {file}:4: upstreams.a.api_key_file can be read by every user")
    assert refused(file, MINIMAL + 'api_key_env = "K"\n')[0].startswith(
        "llmgate: FILE:4: upstreams.a.api_key_env names"
    )


@pytest.mark.parametrize("key", ["__pydantic_self__", "self", "model_config", "model_fields", "_x", "cls", "values"])
def test_a_name_that_pydantic_uses_is_an_unknown_key_like_any_other(file: Path, key: str) -> None:
    assert refused(file, f"{key} = 1\n")[0].startswith(f"llmgate: FILE:1: unknown key {key}; known here are")


def test_a_secret_in_a_wrong_place_is_not_told(file: Path) -> None:
    keys = [*Settings.model_fields["server"].default.__class__.model_fields, "unknown"]
    text = "[server]\n" + "".join(f'{key} = "hunter2\\u0000"\n' for key in keys)
    text += '[upstreams.a]\nurl = "http://u:hunter2@h"\nheaders = { a = "hunter2\\n" }\nmax_concurrent = "hunter2"\n'
    lines = refused(file, text, {"LLMGATE_ADMIN__MODE": "hunter2", "LLMGATE_X__Y": "hunter2"}, log={"level": "hunter2"})
    assert len(lines) >= len(keys) + 5
    assert "hunter2" not in "".join(lines)


WORDS = st.sampled_from(
    ["server", "upstreams", "providers", "a", "url", "listen", "max_concurrent", "maxConcurrent", "endpoints", "x"]
)
TREES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["auto", "http://h"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@given(
    st.dictionaries(WORDS, TREES, max_size=3),
    st.dictionaries(st.sampled_from(["a", "b", "server"]), st.text(), max_size=3),
)
def test_any_values_are_used_or_refused_with_words(overrides: dict[str, Any], texts: dict[str, str]) -> None:
    environ = {f"LLMGATE_{name.upper()}__{key}": text for name, text in texts.items() for key in ("LISTEN", "a__URL")}
    environ["XDG_CONFIG_HOME"] = "/nonexistent"
    try:
        assert isinstance(load(None, environ=environ, overrides=overrides).settings, Settings)
    except SettingsError as error:
        lines = str(error).splitlines()
        assert lines
        assert all(line.startswith("llmgate: ") for line in lines)


def test_a_variable_that_sets_nothing_is_a_warning_only(file: Path) -> None:
    found = loaded(file, MINIMAL, {"LLMGATE_LISTEN": "127.0.0.1:9000", "LLMGATE_CONFIG": "/x"})
    assert found.warnings == (
        "llmgate: environment variable LLMGATE_LISTEN is no setting; did you mean LLMGATE_SERVER__LISTEN?",
    )
