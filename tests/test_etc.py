"""etc/llmgate.toml and man/llmgate.toml.5 against the settings model: every key, no other, its default."""

import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from llmgate.config.load import load
from llmgate.config.settings import EndpointSettings, Settings, UpstreamSettings, tables

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "etc" / "llmgate.toml"
MINIMAL = ROOT / "etc" / "llmgate-minimal.toml"
PAGE = ROOT / "man" / "llmgate.toml.5"

# A comment of prose has a blank after its "#"; a commented key has none.
_KEY_COMMENT = re.compile(r"^#(?=[^ #\n])|^#(?=  [\"{])", re.MULTILINE)

# man-pages(7), "Sections within a manual page".
_HEADINGS = [
    *("NAME", "SYNOPSIS", "CONFIGURATION", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "RETURN VALUE", "ERRORS"),
    *("ENVIRONMENT", "FILES", "ATTRIBUTES", "VERSIONS", "STANDARDS", "HISTORY", "NOTES", "CAVEATS", "BUGS", "EXAMPLES"),
    *("AUTHORS", "REPORTING BUGS", "COPYRIGHT", "SEE ALSO"),
]


def model_keys() -> dict[tuple[str, str], Any]:
    """Every key by section, with its default."""
    models = {".".join(path): model for path, model in tables().items()} | {"upstreams": UpstreamSettings}
    found = {
        (section, key): field.default for section, model in models.items() for key, field in model.model_fields.items()
    }
    return {place: default for place, default in found.items() if ".".join(place) not in models}


def missing_keys(upstream: dict[str, Any]) -> set[tuple[str, str]]:
    """The keys that this upstream lacks."""
    try:
        Settings.model_validate({"upstreams": {"a": upstream}})
    except ValidationError as error:
        return {("upstreams", str(each["loc"][-1])) for each in error.errors() if each["type"] == "missing"}
    return set()


KEYS = model_keys()
REQUIRED = missing_keys({})
# What one of two must say has no default to be shown.
SHOWN = {key: default for key, default in KEYS.items() if key not in REQUIRED | {("upstreams", "endpoints")}}


def file_keys(text: str) -> dict[tuple[str, str], Any]:
    """The keys of a settings file by section, all upstreams as one."""
    read: dict[str, Any] = tomllib.loads(text)
    read["upstreams"] = {key: value for table in read.get("upstreams", {}).values() for key, value in table.items()}
    read["server.cors"] = read.get("server", {}).pop("cors", {})
    return {(section, key): value for section, table in read.items() for key, value in table.items()}


def as_model(written: dict[tuple[str, str], Any]) -> dict[tuple[str, str], Any]:
    """The same keys with their values as the model takes them."""
    values: dict[str, Any] = {section: {} for section, _ in KEYS}
    for (section, key), value in written.items():
        values[section][key] = value
    upstream = {"url": "http://h", "max_concurrent": 1, **values.pop("upstreams")}
    values["server"]["cors"] = values.pop("server.cors")
    settings = Settings.model_validate({**values, "upstreams": {"a": upstream}})
    models = {"upstreams": settings.upstreams["a"], "server.cors": settings.server.cors}
    return {(section, key): getattr(models.get(section) or getattr(settings, section), key) for section, key in written}


def page_keys(source: str) -> dict[tuple[str, str], str]:
    """What the page says of each key's default: TOML, "required", or the header names line by line."""
    found: dict[tuple[str, str], str] = {}
    for section, part in re.findall(
        r"^\.Ss \[([a-z.]+?)(?:\.NAME)?\].*\n((?:(?!^\.S[sh] ).*\n)*)", source, re.MULTILINE
    ):
        for key, item in re.findall(r"^\.It Cm (\w+)\n((?:(?!^\.It ).*\n)*)", part, re.MULTILINE):
            assert (section, key) not in found
            found[section, key] = _default(item)
    return found


def _default(item: str) -> str:
    if re.search(r"^Required[.,]", item, re.MULTILINE):
        return "required"
    listed = re.search(r"^Default:\n\.Bd -literal -compact\n((?:[a-z_-]+\n)+)\.Ed$", item, re.MULTILINE)
    if listed:
        return repr(listed[1].split()).replace("'", '"')
    given = re.search(r"^Default:\n\.Ql (.*) \.$", item, re.MULTILINE)
    assert given, item
    return given[1].replace(r"\(dq", '"')


def test_the_example_as_it_is_changes_nothing() -> None:
    assert load(EXAMPLE, environ={}).settings == Settings()


def test_the_example_names_every_key_and_no_other() -> None:
    assert file_keys(_KEY_COMMENT.sub("", EXAMPLE.read_text())).keys() == KEYS.keys()


def test_the_example_shows_the_defaults() -> None:
    written = as_model(file_keys(_KEY_COMMENT.sub("", EXAMPLE.read_text())))
    assert {key: value for key, value in written.items() if key in SHOWN} == SHOWN


def test_the_example_can_be_used_with_every_key_in_force(tmp_path: Path) -> None:
    file = tmp_path / "llmgate.toml"
    file.write_text(_KEY_COMMENT.sub("", EXAMPLE.read_text()))
    found = load(file, environ={})
    assert found.settings.upstreams.keys() == {"reasoning", "pool"}
    assert len(found.settings.upstreams["pool"].all_endpoints) == 2
    assert found.warnings == ()


def test_every_key_of_the_example_has_a_sentence_before_it() -> None:
    blocks = EXAMPLE.read_text().split("\n\n")
    keyed = [block for block in blocks if re.search(r"^#\w+ = ", block, re.MULTILINE)]
    assert sum(len(re.findall(r"^#\w+ = ", block, re.MULTILINE)) for block in keyed) == len(KEYS)
    for block in keyed:
        assert re.match(r"\n*# \S.*", block), block
    assert max(map(len, EXAMPLE.read_text().splitlines())) <= 120


def test_the_minimal_example_is_enough() -> None:
    found = load(MINIMAL, environ={})
    assert [upstream.max_concurrent for upstream in found.settings.upstreams.values()] == [1]
    assert found.warnings == ()
    assert file_keys(MINIMAL.read_text()).keys() == REQUIRED


def test_the_page_names_every_key_and_no_other() -> None:
    assert page_keys(PAGE.read_text()).keys() == KEYS.keys()


def test_the_page_tells_the_defaults() -> None:
    told = page_keys(PAGE.read_text())
    assert {key for key, default in told.items() if default == "required"} == KEYS.keys() - SHOWN.keys()
    written = {key: tomllib.loads(f"x = {text}")["x"] for key, text in told.items() if key in SHOWN}
    assert as_model(written) == SHOWN


def test_with_endpoints_nothing_else_is_required() -> None:
    assert {key for _, key in REQUIRED} == {"url", "max_concurrent"}
    assert missing_keys({"endpoints": [{"url": "http://h", "max_concurrent": 1}]}) == set()


def test_file_and_page_name_every_key_of_an_endpoint() -> None:
    (shown,) = re.findall(r"^#endpoints = \[\n((?:#  .*\n)+)#\]$", EXAMPLE.read_text(), re.MULTILINE)
    (told,) = re.findall(r"^endpoints = \[\n((?:  .*\n)+)\]$", PAGE.read_text(), re.MULTILINE)
    for text in (shown.replace("#", ""), told):
        endpoints = tomllib.loads(f"endpoints = [{text}]")["endpoints"]
        assert [endpoint.keys() for endpoint in endpoints] == [EndpointSettings.model_fields.keys()] * 2
        assert UpstreamSettings.model_validate({"endpoints": endpoints}).all_endpoints[0].max_concurrent == 4


def test_what_the_page_calls_a_key_is_one() -> None:
    known = {key for _, key in KEYS} | {"maxConcurrent", "maxQueued", "queueTimeoutMs"}
    assert set(re.findall(r"^\.Cm (\w+)", PAGE.read_text(), re.MULTILINE)) <= known


def test_the_examples_of_the_page_can_be_used(tmp_path: Path) -> None:
    file = tmp_path / "llmgate.toml"
    (text,) = re.findall(r"^\.Sh EXAMPLES\n(?:.*\n)*?\.Bd .*\n((?:.*\n)*?)\.Ed$", PAGE.read_text(), re.MULTILINE)
    file.write_text(text)
    assert load(file, environ={}).settings.upstreams.keys() == {"llama", "reasoning"}


def test_the_headings_of_the_page_are_in_the_order_of_man_pages() -> None:
    headings = re.findall(r"^\.Sh (.*)$", PAGE.read_text(), re.MULTILINE)
    assert headings == sorted(set(headings), key=_HEADINGS.index)
    assert headings[:3] == ["NAME", "SYNOPSIS", "DESCRIPTION"]
