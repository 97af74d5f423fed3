"""What a reload does to an upstream that it calls otherwise or takes away, in words for an operator."""

from llmgate.core.events import GateStatistics


def renamed(old: str, new: str, now: GateStatistics) -> str:
    """ "one is now uno: its queue goes on, 3 waiting and 1 running"."""
    there = _people(now.waiting, now.running)
    return f"{old} is now {new}: its queue goes on" + (f", {there}" if there else "")


def dropped(name: str, before: GateStatistics, now: GateStatistics) -> str:
    """ "two takes nobody new: 2 running are served to the end", and how many who waited were sent away, if any."""
    sent_away = now.outcomes.get("refused", 0) - before.outcomes.get("refused", 0)
    told = []
    if sent_away:
        was = "was" if sent_away == 1 else "were"
        told.append(f"{sent_away} waiting {was} sent away (REFUSED), as nobody could be served there")
    if there := _people(now.waiting, now.running):
        told.append(f"{there} {'is' if now.waiting + now.running == 1 else 'are'} served to the end")
    return f"{name} takes nobody new: {'; '.join(told)}" if told else f"{name} is gone: nobody was there"


def _people(waiting: int, running: int) -> str:
    counts = ((waiting, "waiting"), (running, "running"))
    return " and ".join(f"{count} {state}" for count, state in counts if count)
