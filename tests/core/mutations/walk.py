"""Random walks through the rules of a state machine, each step at a quarter of what it costs hypothesis.

They keep to its rules, preconditions and invariants, and as in hypothesis each walk does without some of the rules, so
that what the others do can add up. Nothing is shrunk: who wants a short story runs hypothesis.
"""

import functools
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.stateful import Rule, RuleBasedStateMachine
from hypothesis.strategies import SearchStrategy

STEPS = 50
VALUES = 300


def walk(machine: type[RuleBasedStateMachine], *, walks: int) -> None:
    """The same walks each time; whatever the machine raises ends them."""
    for number in range(walks):
        walk_once(machine(), Random(number))


def walk_once(machine: RuleBasedStateMachine, chance: Random) -> None:
    for opening in machine.setup_state().initializers:
        take(opening, machine, chance)
    share = chance.random()
    rules = [rule for rule in machine.rules if chance.random() >= share]
    for _ in range(STEPS):
        shuffled = chance.sample(rules, len(rules))
        possible = next((rule for rule in shuffled if all(holds(machine) for holds in rule.preconditions)), None)
        if possible is None:
            return
        take(possible, machine, chance)


def take(rule: Rule, machine: RuleBasedStateMachine, chance: Random) -> None:
    arguments = {name: chance.choice(values_of(strategy)) for name, strategy in rule.arguments.items()}
    rule.function(machine, **arguments)
    for invariant in machine.invariants:
        invariant.function(machine)


@functools.cache
def values_of(strategy: SearchStrategy[Any]) -> list[Any]:
    """All of its values, or many; the likely ones are there more than once."""
    values = []

    @settings(
        max_examples=VALUES,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def keep(value: Any) -> None:
        values.append(value)

    keep()
    return values
