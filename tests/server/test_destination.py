"""Where a request goes on to, when a reload comes between its route and its place."""

import pytest

from llmgate.config.frozen import FrozenDict
from llmgate.core.events import Limits
from llmgate.core.gate import Gate
from llmgate.errors import Refused
from llmgate.server.destination import Destination
from tests.server.house import UPSTREAM, Guests, services_for


def guests() -> Guests:
    there = Guests()
    there.services = services_for("http://upstream.invalid", there.on_event, there.ledger)
    return there


def call_it(there: Guests, *names: str) -> None:
    """The settings name these now, each as the one upstream was."""
    settings = there.services.settings
    one = next(iter(settings.upstreams.values()))
    upstreams = FrozenDict(dict.fromkeys(names, one))
    there.services.settings = settings.model_copy(update={"upstreams": upstreams})


async def test_it_has_the_name_that_its_upstream_has_now() -> None:
    there = guests()
    destination = Destination(there.services, UPSTREAM)
    there.services.admission.rename(UPSTREAM, "other")
    call_it(there, "other")
    assert (destination.name, destination.is_there) == ("other", True)
    assert destination.settings is there.services.settings.upstreams["other"]
    assert destination.gate is there.services.admission.gate("other")


async def test_another_one_under_its_old_name_is_not_it() -> None:
    there = guests()
    destination = Destination(there.services, UPSTREAM)
    there.services.admission.rename(UPSTREAM, "other")
    call_it(there, UPSTREAM, "other")
    assert destination.name == "other"


async def test_one_that_was_dropped_takes_nobody() -> None:
    there = guests()
    destination = Destination(there.services, UPSTREAM)
    there.services.admission.remove(UPSTREAM)
    call_it(there)
    assert not destination.is_there
    with pytest.raises(Refused, match=f"{UPSTREAM} takes no new requests: it is no longer in the settings"):
        _ = destination.settings


async def test_one_that_was_dropped_and_came_back_is_the_new_one() -> None:
    there = guests()
    admission = there.services.admission
    destination = Destination(there.services, UPSTREAM)
    admission.remove(UPSTREAM)
    admission.add(Gate(UPSTREAM, Limits(3)))
    assert destination.gate is admission.gate(UPSTREAM)


async def test_what_is_not_there_is_no_destination() -> None:
    with pytest.raises(KeyError):
        Destination(guests().services, "unknown")
