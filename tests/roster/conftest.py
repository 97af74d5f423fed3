"""What the tests of a roster share: an upstream that nobody uses is dropped soon."""

import pytest

from llmgate import roster


@pytest.fixture(autouse=True)
def _no_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roster, "LAST_WORD_SECONDS", 0.001)
