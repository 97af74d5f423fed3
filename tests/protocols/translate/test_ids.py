"""Ids: unique where the request's is, and of the letters that Anthropic's have."""

import re

from llmgate.protocols.translate.ids import call_id, message_id


def test_ids() -> None:
    assert message_id("req_0f") == "msg_0f"
    assert message_id("0f") == "msg_0f"
    assert call_id("req_0f", 2) == "toolu_0f_2"
    assert re.fullmatch(r"[a-zA-Z0-9_-]+", call_id("req_0f", 2))
