"""Whoever ends a request from outside, it ends once, and its client is told at most once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from llmgate.errors import GateError, Outcome, Refused, UpstreamFailed
from llmgate.server.errand import ClientGone, Errand
from tests.server.house import Guests, logged, services_for

STOPPING = Refused("llmgate: stopping (REFUSED)")


class Work(Errand):
    """Notes what its client would be told."""

    __slots__ = ("told",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.told: list[GateError] = []

    def _fail(self, error: GateError) -> None:
        self.told.append(error)

    def _client_gone(self) -> None:
        self._cut("client_gone", ClientGone())

    async def live(self, work: Callable[[], Awaitable[None]]) -> None:
        await self._live(work)

    @property
    def outcome(self) -> Outcome | None:
        return self._outcome


class Client:
    """Sends nothing more; leaves when the test says."""

    def __init__(self) -> None:
        self.gone: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    async def receive(self) -> Any:
        return await self.gone

    async def send(self, message: Any) -> None:
        """Takes everything."""

    def leave(self) -> None:
        self.gone.set_result({"type": "http.disconnect"})


def errand() -> tuple[Work, Client]:
    guests = Guests()
    client = Client()
    services = services_for("http://upstream.invalid", guests.on_event, guests.ledger)
    return Work(services, {"type": "http", "headers": []}, client.receive, client.send), client


async def for_ever() -> None:
    await asyncio.get_running_loop().create_future()


async def test_work_that_ends_is_no_news() -> None:
    one, _ = errand()

    async def work() -> None:
        assert list(one._services.running) == [one]

    await one.live(work)
    assert (one.told, one.outcome, len(one._services.running)) == ([], None, 0)


async def test_a_deliberate_error_is_told_as_it_is() -> None:
    one, _ = errand()
    error = UpstreamFailed("llmgate: no (UPSTREAM_ERROR)")

    async def work() -> None:
        raise error

    await one.live(work)
    assert one.told == [error]


async def test_a_fault_of_ours_is_told_and_logged() -> None:
    one, _ = errand()

    async def work() -> None:
        raise ZeroDivisionError

    with logged() as lines:
        await one.live(work)
    (told,) = one.told
    assert str(told).endswith("see the log of llmgate (INTERNAL)")
    assert lines[0].startswith(f"request {one._id} failed inside llmgate")


@pytest.mark.parametrize("first", ["leaves", "stops", "stalls"])
@pytest.mark.parametrize("second", ["leaves", "stops", "stalls", None])
async def test_the_first_end_from_outside_counts(first: str, second: str | None) -> None:
    one, client = errand()
    running = asyncio.ensure_future(one.live(for_ever))
    await asyncio.sleep(0)
    ends = {"leaves": client.leave, "stops": lambda: one.stop(STOPPING), "stalls": one._client_stalled}
    outcomes = {"leaves": "client_gone", "stops": "refused", "stalls": "client_stalled"}
    ends[first]()
    if first == "leaves":
        await asyncio.sleep(0)  # that is heard in the next turn
    if second not in (None, first):
        ends[str(second)]()
    await running
    assert len(one.told) == 1
    assert one.outcome == outcomes[first]


async def test_cancelled_by_somebody_else_it_says_so_and_tells_nobody() -> None:
    one, _ = errand()
    running = asyncio.ensure_future(one.live(for_ever))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (one.told, one.outcome, len(one._services.running)) == ([], "refused", 0)


async def test_given_up_it_writes_no_more() -> None:
    one, _ = errand()
    one.give_up()
    assert one._reply.finished


async def test_a_kind_of_request_must_say_how_it_fails() -> None:
    one, _ = errand()
    with pytest.raises(NotImplementedError):
        Errand._fail(one, STOPPING)
    with pytest.raises(NotImplementedError):
        Errand._client_gone(one)
