"""What is said of a name that is not known."""

import pytest

from llmgate.names import meant, nearest, unknown, unknown_upstream


def test_the_nearest_is_named_then_all() -> None:
    known = ["ollama", "reasoning"]
    assert nearest("resoning", known) == "reasoning"
    assert nearest("x", known) is None
    assert (meant("resoning", known), meant("x", known)) == ("did you mean reasoning? ", "")
    assert (
        unknown("upstream", "resoning", known)
        == "there is no upstream 'resoning'; did you mean reasoning? there are: ollama, reasoning"
    )


@pytest.mark.parametrize(("known", "end"), [((), "there are: none"), (("one",), "'x'; there are: one")])
def test_where_none_is_near(known: tuple[str, ...], end: str) -> None:
    error = unknown_upstream("x", known)
    assert (str(error).endswith(end), error.code) == (True, "UNKNOWN_UPSTREAM")
