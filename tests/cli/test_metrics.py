"""`llmgate metrics`; against a real daemon: tests/e2e/cli."""

import json

from tests.cli.conftest import FakeDaemon, Run

TEXT = '# HELP llmgate_slots Slots.\nllmgate_slots{upstream="a"} 1.0\n'


def test_the_text_goes_out_as_it_is(run: Run, daemon: FakeDaemon) -> None:
    daemon.answers["/metrics"] = TEXT.encode()
    assert run("metrics", "--socket", daemon.socket) == (0, TEXT, "")


def test_as_json(run: Run, daemon: FakeDaemon) -> None:
    daemon.answers["/metrics"] = TEXT.encode()
    told = json.loads(run("metrics", "--json", "--socket", daemon.socket).out)
    assert told == {"schema": 1, "metrics": TEXT}
