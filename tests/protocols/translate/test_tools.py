"""Tools, as JSON. The rows of the mapping: see test_request."""

import msgspec

from llmgate.protocols.translate.tools import Tool, functions


def test_a_schema_passes_as_it_came() -> None:
    tool = Tool(name="f", input_schema=msgspec.Raw(b'{"a": 1.0, "cache_control": {}}'))
    assert msgspec.json.encode(functions([tool], "reject")) == (
        b'[{"type":"function","function":{"name":"f","parameters":{"a": 1.0, "cache_control": {}}}}]'
    )
