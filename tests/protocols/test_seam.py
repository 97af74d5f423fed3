"""Seam: pieces of text, cut anywhere between UTF-16 code units."""

from hypothesis import given
from hypothesis import strategies as st

from llmgate.protocols.seam import Seam, whole


def units(text: str) -> list[str]:
    """The text's code units, as JavaScript has them."""
    data = text.encode("utf-16-le", "surrogatepass")
    return [data[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(data), 2)]


@given(st.text())
def test_text_that_was_cut_within_characters_is_whole_again(text: str) -> None:
    seam = Seam()
    assert "".join(map(seam.join, units(text))) + seam.rest() == text
    assert seam.rest() == ""


@given(st.lists(st.text(st.characters(codec=None), max_size=5)))
def test_what_comes_out_is_valid(pieces: list[str]) -> None:
    seam = Seam()
    text = "".join(map(seam.join, pieces)) + seam.rest()
    text.encode()
    assert text == whole("".join(pieces))


def test_halves() -> None:
    assert whole("a\ud83d\ude00") == "a\U0001f600"
    assert whole("\ude00\ud83d") == "\ufffd\ufffd"
    seam = Seam()
    assert [seam.join("a\ud83d"), seam.join(""), seam.join("\ude00"), seam.rest()] == ["a", "", "\U0001f600", ""]
