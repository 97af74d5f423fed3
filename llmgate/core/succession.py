"""Which upstream is only another name for one that the settings do not name any more, and who had which name."""

from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from collections.abc import Set as AbstractSet


def find_successors(
    gone: Mapping[str, AbstractSet[Hashable]], new: Mapping[str, AbstractSet[Hashable]]
) -> dict[str, str]:
    """The old name of each new upstream that goes on with who waits and runs at the old one.

    Both are given by name with their servers. It is the only new one that has any server of the old one, which in turn
    is the only one gone that had any of its servers: where it could be another one as well, nobody is moved.
    """
    heirs = {old: [name for name, servers in new.items() if servers & those] for old, those in gone.items()}
    times = Counter(name for names in heirs.values() for name in names)
    return {names[0]: old for old, names in heirs.items() if len(names) == 1 and times[names[0]] == 1}


def names_known(known: Mapping[str, str], renamed: Mapping[str, str], now: Collection[str]) -> dict[str, str]:
    """The new name of each upstream by every name that it had before, after one more change.

    `known` are those from before, `renamed` is the old name by the new one, `now` are all names that are in use:
    nothing else is meant by them, and what is gone has no name.
    """
    step = {old: new for new, old in renamed.items()}
    after = {old: step.get(name, name) for old, name in {**known, **step}.items()}
    return {old: name for old, name in after.items() if name in now and old not in now}
