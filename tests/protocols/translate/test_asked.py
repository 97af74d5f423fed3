"""Asked: what is known where nothing was told."""

from llmgate.protocols.translate.asked import Asked


def test_nothing_told() -> None:
    assert Asked() == Asked(model="", stop_sequences=(), input_estimate=0)
