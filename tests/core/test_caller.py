"""Who asks: a value that nobody can change."""

import pytest

from llmgate.core.caller import Caller


def test_only_the_id_is_needed():
    caller = Caller(id="r1")
    assert (caller.model, caller.session, caller.purpose, caller.stream, caller.body_bytes) == ("", "", "", False, 0)


def test_two_of_the_same_are_one():
    assert {Caller(id="r1", model="m"), Caller(id="r1", model="m"), Caller(id="r2", model="m")} == {
        Caller(id="r1", model="m"),
        Caller(id="r2", model="m"),
    }


def test_it_cannot_be_changed():
    caller = Caller(id="r1")
    with pytest.raises(AttributeError):
        caller.id = "r2"
