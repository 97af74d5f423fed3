"""The line finder against tomllib: the same paths, and each on the line where the text was generated."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.config.lines import Path, find_lines

KITCHEN_SINK = '''\
# a comment with = and [brackets]
top = "a # no comment"
"quoted key" = 1
'literal "key"' = 2
"with \\"escape\\" \\u00e9" = 3
a . b . "c.d" = 4
site."google.com" = true

[server] # trailing
listen = [
  "127.0.0.1:8080", # first
  [1, 2],
  { host = "a", port = 1 },
]
text = """
[not.a.table]
not_a_key = 1 \\""" still \\\\"""
quotes = """x"""""
raw = @@@
key = 'value' '@@@
empty = """"""
one = ''
when = 1979-05-27 07:32:00Z
inline = { a.b = 1, "c" = { d = [ { e = 1 } ] } }

[ a . deep . er ]
x = 1
[a.deep]
y = 2
[[fruit]]
name = "apple"
[fruit.physical]
color = "red"
[[fruit.variety]]
name = "red delicious"
[[fruit.variety]]
name = "granny smith"
[[fruit]]
name = "banana"
[[fruit.variety]]
name = "plantain"
'''.replace("@@@", "'''")


def paths(value: Any, path: Path = ()) -> set[Path]:
    """Every path in a parsed text."""
    below: set[Path] = set()
    if isinstance(value, dict):
        below = set().union(*(paths(item, (*path, key)) for key, item in value.items()))
    elif isinstance(value, list):
        below = set().union(*(paths(item, (*path, index)) for index, item in enumerate(value)))
    return below | ({path} if path else set())


def test_every_kind_of_key_is_found_on_its_line() -> None:
    lines = find_lines(KITCHEN_SINK)
    rows = KITCHEN_SINK.splitlines()
    assert set(lines) == paths(tomllib.loads(KITCHEN_SINK))

    def row(*path: str | int) -> str:
        return rows[lines[path] - 1]

    assert row("quoted key") == '"quoted key" = 1'
    assert row('with "escape" é').endswith("= 3")
    assert row("a", "b", "c.d") == row("a") == row("a", "b") == 'a . b . "c.d" = 4'
    assert row("server") == "[server] # trailing"
    assert row("server", "listen", 0).strip().startswith('"127')
    assert row("server", "listen", 2, "port").strip().startswith("{ host")
    assert row("server", "quotes").startswith("quotes")
    assert row("server", "when").startswith("when")
    assert row("server", "inline", "c", "d", 0, "e").startswith("inline")
    assert row("a", "deep") == "[a.deep]"
    assert row("a", "deep", "er") == "[ a . deep . er ]"
    assert row("fruit", 1, "variety", 0, "name") == 'name = "plantain"'
    assert row("fruit", 0, "physical") == "[fruit.physical]"
    assert lines["fruit", 0, "variety", 1] < lines["fruit", 1]


@pytest.mark.parametrize(
    "text",
    [KITCHEN_SINK, "", "\n\n# only\n", "a=1", "[t]", "[[t]]", "a={}\nb=[]\n", "a=[[],[{}]]"],
    ids=lambda text: repr(text[:30]),
)
def test_line_ends_do_not_matter(text: str) -> None:
    assert find_lines(text.replace("\n", "\r\n")) == find_lines(text)
    assert set(find_lines(text)) == paths(tomllib.loads(text))


KEY_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=6)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@st.composite
def key_parts(draw: st.DrawFn) -> tuple[str, str]:
    """A key, and one way to write it."""
    if draw(st.booleans()):
        bare = draw(st.text("abcXYZ019_-", min_size=1, max_size=5))
        return bare, bare
    text = draw(KEY_TEXT)
    return (text, f"'{text}'") if "'" not in text and draw(st.booleans()) else (text, quoted(text))


SCALARS = st.one_of(
    st.integers(-99, 99).map(str),
    st.sampled_from(["true", "1.5", "inf", "1979-05-27", "07:32:00", "1979-05-27 07:32:00", "0x1F"]),
    KEY_TEXT.map(quoted),
    st.sampled_from(["'a # b'", '"""\n[x]\ny = 1\n"""', "'''\n] } ,\n'''", '"""a""""', "''''b'''", '"""\\"""\n"""']),
)
GAPS = st.sampled_from(["", " ", "\n", " # ], } x = 1\n", "\r\n  "])


@st.composite
def values(draw: st.DrawFn, depth: int = 2) -> str:
    kind = draw(st.sampled_from(["scalar", "array", "table"])) if depth else "scalar"
    if kind == "scalar":
        return draw(SCALARS)
    if kind == "array":
        items = draw(st.lists(values(depth=depth - 1), max_size=3))
        return "[" + ",".join(draw(GAPS) + item + draw(GAPS) for item in items) + draw(GAPS) + "]"
    keys = draw(st.lists(key_parts(), max_size=3, unique_by=lambda part: part[0]))
    return "{ " + ", ".join(f"{written} = {draw(values(depth=depth - 1))}" for _, written in keys) + " }"


@st.composite
def statements(draw: st.DrawFn) -> str:
    parts = draw(st.lists(key_parts(), min_size=1, max_size=3))
    key = draw(st.sampled_from([".", " . "])).join(written for _, written in parts)
    shape = draw(st.sampled_from(["{} = ", "{} = ", "{}=", "[{}]", "[[{}]]", "# {}", ""]))
    return shape.format(key) + (draw(values()) if "=" in shape else "")


@given(st.lists(statements(), max_size=8))
def test_paths_are_those_of_tomllib_and_lines_those_of_their_statements(rows: list[str]) -> None:
    kept: list[str] = []
    for row in rows:
        try:
            tomllib.loads("\n".join([*kept, row]))
        except tomllib.TOMLDecodeError:
            continue
        kept.append(row)
    text = "\n".join(kept)
    lines = find_lines(text)
    assert set(lines) == paths(tomllib.loads(text))
    for path, line in lines.items():
        # The statement that the line lies in: with all before it, but not it, the path does not exist as it is.
        starts = [1 + "\n".join(kept[:index]).count("\n") + bool(index) for index in range(len(kept))]
        inside = max(index for index, start in enumerate(starts) if start <= line)
        assert path in paths(tomllib.loads("\n".join(kept[: inside + 1])))
        first = min(index for index in range(len(kept)) if path in paths(tomllib.loads("\n".join(kept[: index + 1]))))
        assert inside == first or kept[inside].startswith("[")


@given(st.lists(st.tuples(st.integers(0, 3), key_parts()), min_size=1, max_size=12, unique_by=lambda row: row[1][0]))
def test_each_key_is_on_the_line_where_it_was_written(rows: list[tuple[int, tuple[str, str]]]) -> None:
    written: list[str] = []
    expected = {}
    for blanks, (key, text) in rows:
        written += ["# comment = 1"] * blanks + [f"{text} = 1"]
        expected[(key,)] = len(written)
    assert find_lines("\n".join(written)) == expected


@pytest.mark.parametrize("text", ["= 1", "a b = 1", "[a", "[[a]"])
def test_what_is_no_toml_ends_with_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a TOML text"):
        find_lines(text)
