"""The bytes of all bodies together."""

from llmgate.core.bodies import Bodies


def test_there_is_room_up_to_the_limit_and_again_after_it() -> None:
    bodies = Bodies(10)
    assert bodies.take(4)
    assert bodies.take(6)
    assert not bodies.take(1)
    bodies.give(1)
    bodies.give(6)
    assert bodies.take(6)
    assert bodies.held == 10


def test_without_a_limit_there_is_always_room() -> None:
    assert Bodies(None).take(1 << 50)
