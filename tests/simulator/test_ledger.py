"""The simulated server's account: the highest concurrency and the order are kept, and memory is bounded."""

import json

from llmgate.simulator.ledger import HISTORY, Ledger


def test_the_highest_concurrency_is_remembered() -> None:
    ledger = Ledger()
    ledger.start("a")
    ledger.start("b")
    ledger.running -= 2
    ledger.start("c")
    assert (ledger.running, ledger.highest, list(ledger.started)) == (1, 2, ["a", "b", "c"])


def test_the_ids_are_bounded_and_the_newest_stay() -> None:
    ledger = Ledger()
    for number in range(HISTORY + 5):
        ledger.start(str(number))
        ledger.abort(str(number))
    assert len(ledger.started) == len(ledger.left) == HISTORY
    assert ledger.started[-1] == str(HISTORY + 4)
    assert ledger.aborted == HISTORY + 5


def test_it_goes_out_as_json() -> None:
    ledger = Ledger()
    ledger.start("a")
    assert json.loads(json.dumps(ledger.as_plain()))["started"] == ["a"]
