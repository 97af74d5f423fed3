"""All gates of one process, by the names of their upstreams: what may be asked of them, and what may be done."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from llmgate.admission.desk import Desk, Listener
from llmgate.admission.place import LocalPlace
from llmgate.core.account import Account
from llmgate.core.caller import Caller
from llmgate.core.eta import Schedule
from llmgate.core.events import (
    Alarm,
    Limits,
)
from llmgate.core.gate import Gate
from llmgate.core.line import Position


class LocalAdmission:
    """The gates of one process. Make and use it inside a running loop."""

    def __init__(self, gates: Iterable[Gate], listener: Listener, clock: Callable[[], float] = time.monotonic) -> None:
        self._listener = listener
        self._clock = clock
        self._desks: dict[str, Desk] = {}
        for gate in gates:
            self.add(gate)

    def enter(self, upstream: str, caller: Caller, *, max_wait: float | None = None) -> LocalPlace:
        return LocalPlace(self._desks[upstream], caller, max_wait)

    def gate(self, upstream: str) -> Gate:
        """For looking; whoever changes it calls the methods below."""
        return self._desks[upstream].gate

    def schedule(self, upstream: str) -> Schedule | None:
        """When those who wait there will get their slots; None while nobody can say."""
        return self._desks[upstream].schedule()

    def endpoint_at(self, account: Account | None) -> str | None:
        """One that leads to the server of this account, whichever upstream has it; None where none does any more."""
        for desk in self._desks.values():
            for endpoint, there in desk.gate.accounts().items():
                if there is account:
                    return endpoint
        return None

    def upstreams(self) -> Iterable[str]:
        return self._desks.keys()

    def set_limits(self, upstream: str, limits: Limits, *, by: str = "") -> None:
        """Live limits of one upstream. `by`, here and below: who had it done, for the event."""
        self._desks[upstream].change(lambda gate, now: gate.set_limits(limits, now, by=by))

    # ---- what a reload does

    def add(self, gate: Gate) -> None:
        """One more upstream."""
        self._desks[gate.upstream] = Desk(gate, self._listener, self._clock)

    @contextmanager
    def standstill(self) -> Iterator[None]:
        """Nobody is admitted anywhere meanwhile: a server may be two gates' until all of them are changed."""
        for desk in self._desks.values():
            desk.gate.begin_change()
        try:
            yield
        finally:
            for desk in self._desks.values():
                desk.change(Gate.end_change)

    def rename(self, old: str, new: str) -> None:
        """Another name for the same queue, with everybody in it; none is called `new` yet."""
        desk = self._desks[new] = self._desks.pop(old)
        desk.change(lambda gate, now: gate.rename(new, now))

    def set_endpoints(
        self,
        upstream: str,
        endpoints: Mapping[str, int],
        *,
        kept: Mapping[str, str],
        holds: bool,
        accounts: Mapping[str, Account] | None = None,
    ) -> None:
        """Other servers behind the same queue: see Gate.set_endpoints."""
        self._desks[upstream].change(
            lambda gate, now: gate.set_endpoints(endpoints, now, kept=kept, holds=holds, accounts=accounts)
        )

    def look_again(self, upstream: str) -> None:
        """Another upstream may have given room at a server that this one has too: who waits is let in."""
        self._desks[upstream].look_again()

    def retire(self, upstream: str, *, dismiss: bool) -> None:
        """It takes nobody new; who waits is served to the end, or sent away."""
        self._desks[upstream].change(lambda gate, now: gate.close(now, dismiss=dismiss, leaving=True))

    def reopen(self, upstream: str) -> None:
        """Undoes `retire`."""
        self._desks[upstream].change(Gate.come_back)

    def remove(self, upstream: str) -> None:
        """Nobody is left there."""
        desk = self._desks.pop(upstream)
        desk.gate.dissolve()
        desk.stop()

    # ---- what an operator may do: the last of the first three counts; none brings back one that is leaving

    def pause(self, upstream: str, *, by: str = "") -> None:
        """Everybody waits, until `resume`."""

        def pause(gate: Gate, now: float) -> None:
            gate.set_paused(True, now, by=by)  # first, so that nobody is admitted in between
            gate.reopen(now, by=by)

        self._desks[upstream].change(pause)

    def resume(self, upstream: str, *, by: str = "") -> None:
        """As if it had never been paused or drained."""

        def resume(gate: Gate, now: float) -> None:
            gate.set_paused(False, now, by=by)
            gate.reopen(now, by=by)

        self._desks[upstream].change(resume)

    def drain(self, upstream: str, *, by: str = "") -> None:
        """Newcomers are refused, until `resume`; who waits is served to the end."""

        def drain(gate: Gate, now: float) -> None:
            gate.close(now, dismiss=False, by=by)
            gate.set_paused(False, now, by=by)

        self._desks[upstream].change(drain)

    def dismiss(self, upstream: str, request_id: str, *, by: str = "") -> bool:
        """Ends the wait of one request, outcome cancelled; False where none of this id waits, or no such upstream is
        there any more."""
        desk = self._desks.get(upstream)
        return desk is not None and desk.dismiss(request_id, by)

    def note_cancel(self, upstream: str, request_id: str, *, by: str = "") -> asyncio.Future[None]:
        """One that has a slot is about to be cancelled by whoever holds it; done when it is over for its client."""
        return self._desks[upstream].note_cancel(request_id, by)

    def move_to_front(self, upstream: str, request_id: str, *, by: str = "") -> bool:
        """Makes it the next to run; False as for `dismiss`."""
        desk = self._desks.get(upstream)
        return desk is not None and desk.move_to_front(request_id, by)

    def position(self, upstream: str, request_id: str) -> Position | None:
        """Where a request stands; None where none of this id waits, or no such upstream is there any more."""
        desk = self._desks.get(upstream)
        ticket = desk.find_waiting(request_id) if desk is not None else None
        place = desk.place_of(ticket) if desk is not None and ticket is not None else None
        return place.position() if place is not None else None

    def set_endpoint(
        self,
        upstream: str,
        endpoint: str,
        *,
        up: bool | None = None,
        max_concurrent: int | None = None,
        reason: str = "",
    ) -> None:
        """One of its servers is down, or back, or has another limit of its own: see Gate.set_endpoint."""
        self._desks[upstream].set_endpoint(endpoint, up=up, max_concurrent=max_concurrent, reason=reason)

    def set_alarm(self, upstream: str, alarm: Alarm, text: str | None) -> None:
        """Raises it, or, without a text, clears it."""
        self._desks[upstream].set_alarm(alarm, text)

    def close(self) -> None:
        """Takes nobody new at any upstream, and dismisses all who wait."""
        for desk in self._desks.values():
            desk.change(lambda gate, now: gate.close(now, dismiss=True))

    def stop(self) -> None:
        """Ends all timers; nothing may be asked of it afterwards."""
        for desk in self._desks.values():
            desk.stop()
