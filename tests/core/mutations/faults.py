"""What is broken on purpose: see test_mutations.py."""

from types import ModuleType
from typing import NamedTuple

from llmgate.core import account, chronicle, endpoints, events, gate, line, timers


class Fault(NamedTuple):
    """What is broken, in which module, and how."""

    name: str
    module: ModuleType
    old: str
    new: str


FAULTS = [
    # ---- I1 cap, I4 return
    Fault(
        "a draining slot is not counted",
        gate,
        "(cap == 0 or len(self._in_flight) < cap)",
        "(cap == 0 or self.statistics().running < cap)",
    ),
    Fault(
        "leaving twice frees two slots",
        gate,
        "                self._release(ticket, now, None)\n        self._settle(now)",
        "                self._release(ticket, now, None)\n"
        "            case State.GONE:\n"
        "                self._give_back(ticket)\n"
        "        self._settle(now)",
    ),
    Fault(
        "a lowered cap is ignored",
        gate,
        "cap = self._limits.max_concurrent\n        return not",
        "cap = self._highest = max(self._limits.max_concurrent, getattr(self, '_highest', 0))\n        return not",
    ),
    Fault(
        "one more than the cap runs",
        gate,
        "len(self._in_flight) < cap",
        "len(self._in_flight) <= cap",
    ),
    Fault(
        "a slot is not given back",
        gate,
        "        self._give_back(ticket)\n        if self._stall.since",
        "        if outcome is not None:\n            self._give_back(ticket)\n        if self._stall.since",
    ),
    Fault(
        "a requeued one keeps its slot",
        gate,
        "            self._give_back(ticket)\n            ticket.state",
        "            self._in_flight.add(ticket)\n            ticket.state",
    ),
    # ---- I2 order
    Fault(
        "a newcomer stands in front",
        gate,
        "        self._line.append(ticket)\n",
        "        self._line.push_front(ticket)\n",
    ),
    Fault(
        "a newcomer overtakes whom a late timer made room for",
        gate,
        "        self._settle(now)\n        if self.closing is not None:",
        "        if self.closing is not None:",
    ),
    Fault(
        "a requeued one goes to the end",
        gate,
        "            self._stand_by_order(ticket)\n",
        "            self._line.append(ticket)\n",
    ),
    Fault(
        "a requeued one goes to the very front",
        gate,
        "            self._stand_by_order(ticket)\n",
        "            self._line.push_front(ticket)\n",
    ),
    Fault(
        "those before a requeued one are turned round",
        gate,
        "for earlier in reversed(ahead):",
        "for earlier in ahead:",
    ),
    Fault(
        "a moved one keeps its order",
        gate,
        "            ticket.order = self._first_order\n",
        "",
    ),
    # ---- I3 work conserving
    Fault(
        "leave admits nobody",
        gate,
        "                self._release(ticket, now, None)\n        self._settle(now)",
        "                self._release(ticket, now, None)",
    ),
    Fault(
        "only one is admitted at a time",
        gate,
        "while self._line and self._may_admit() and self._admit_head(now):",
        "if self._line and self._may_admit() and self._admit_head(now):",
    ),
    Fault(
        "a raised cap wakes nobody",
        gate,
        "            self._share_out()\n        self._settle(now)\n\n    def set_paused",
        "            self._share_out()\n\n    def set_paused",
    ),
    Fault(
        "the end of a pause wakes nobody",
        gate,
        "not self._leaving)\n        self._change_mode(now, by)\n        self._settle(now)",
        "not self._leaving)\n        self._change_mode(now, by)",
    ),
    Fault(
        "the end of a hold ends a pause",
        gate,
        "            self._story.endpoint_changed(now, name, old, self._endpoints.statistics()[name], holding)\n",
        "            self._story.endpoint_changed(now, name, old, self._endpoints.statistics()[name], holding)\n"
        "            self._paused = self._paused and not up\n",
    ),
    # ---- I6 one outcome, numbered events that fold to the statistics
    Fault(
        "a draining one drains again",
        gate,
        "        elif ticket.state is State.RUNNING:\n            ticket.state = State.DRAINING",
        "        elif ticket.state is not State.GONE:\n            ticket.state = State.DRAINING",
    ),
    Fault(
        "a released one is told again when it has drained",
        gate,
        "            case State.DRAINING:\n                self._release(ticket, now, None)",
        "            case State.DRAINING:\n                self._release(ticket, now, outcome)",
    ),
    Fault(
        "a number is left out",
        chronicle,
        "        self._note(Refused(",
        "        self._at(now)\n        self._note(Refused(",
    ),
    Fault(
        "a requeued one counts as admitted twice",
        events,
        "                self._waiting += 1\n                self._admitted -= 1",
        "                self._waiting += 1",
    ),
    # ---- limits and deadlines
    Fault(
        "max_queued is off by one",
        gate,
        "len(self._line) >= limit)",
        "len(self._line) > limit)",
    ),
    Fault(
        "max_wait 0 waits",
        gate,
        "(max_wait is not None and max_wait <= 0)",
        "(max_wait is not None and max_wait < 0)",
    ),
    Fault(
        "max_wait lengthens the wait",
        gate,
        "return now + min(waits) if waits",
        "return now + max(waits) if waits",
    ),
    Fault(
        "one out of time is admitted",
        gate,
        "        self._handle_due(now)\n        match ticket.state:",
        "        match ticket.state:",
    ),
    Fault(
        "one requeued out of time is admitted",
        gate,
        "            self._timers.set(ticket, ticket.deadline)\n            self._handle_due(now)\n",
        "            self._timers.set(ticket, ticket.deadline)\n",
    ),
    Fault(
        "one requeued waits for ever",
        gate,
        "            self._timers.set(ticket, ticket.deadline)\n            self._handle_due(now)\n",
        "",
    ),
    Fault(
        "release_at is forgotten",
        gate,
        "            self._timers.set(ticket, release_at)\n",
        "",
    ),
    Fault(
        "a deadline is handled a moment late",
        timers,
        "while self._heap and self._heap[0][0] <= now:",
        "while self._heap and self._heap[0][0] < now:",
    ),
    # ---- timers
    Fault(
        "a dead timer is resurrected",
        timers,
        "return entry[2].timer is not entry",
        "return entry[2].timer is None",
    ),
    Fault(
        "the timer of an admitted one lives on",
        gate,
        "        self._timers.drop(ticket)\n        self._admit(",
        "        self._admit(",
    ),
    Fault(
        "the live are struck out with the dead",
        timers,
        "[entry for entry in self._heap if not self._is_dead(entry)]",
        "[entry for entry in self._heap if self._is_dead(entry)]",
    ),
    Fault(
        "struck out, the timers are no heap any more",
        timers,
        "            heapq.heapify(self._heap)\n",
        "            self._heap.reverse()\n",
    ),
    Fault(
        "dead timers are kept",
        timers,
        "        self._dead += 1\n        self._strike_out_dead()\n",
        "        self._dead += 1\n",
    ),
    Fault(
        "a dead timer is the next deadline",
        timers,
        "while self._heap and self._is_dead(self._heap[0]):",
        "while False:",
    ),
    Fault(
        "an earlier timer is not looked for",
        timers,
        "            self.soonest = self._heap[0][0]\n",
        "            self.soonest = due\n",
    ),
    Fault(
        "after one that was due nothing is due any more",
        timers,
        "        self.soonest = self._heap[0][0] if self._heap else math.inf",
        "        self.soonest = math.inf",
    ),
    # ---- several endpoints
    Fault(
        "an endpoint is not given back on release",
        gate,
        "        self._give_back(ticket)\n        if self._stall.since",
        "        self._in_flight.discard(ticket)\n        if self._stall.since",
    ),
    Fault(
        "an endpoint is not given back on requeue",
        gate,
        "            self._give_back(ticket)\n            ticket.state",
        "            ticket.state",
    ),
    Fault(
        "an endpoint that is down takes one",
        endpoints,
        "        self._usable = those_up if those_up or self.holds else list(self._caps)",
        "        self._usable = list(self._caps) if those_up or not self.holds else []",
    ),
    Fault(
        "the only one that is up stays the only one",
        endpoints,
        'list(self._caps)\n        self._only = self._usable[0] if len(self._usable) == 1 else ""\n\n    def _choose',
        "list(self._caps)\n        self._only = self._only or (self._usable[0] if len(self._usable) == 1 else '')\n\n"
        "    def _choose",
    ),
    Fault(
        "all down, nobody is tried though nothing holds",
        endpoints,
        "those_up if those_up or self.holds else list(self._caps)",
        "those_up",
    ),
    Fault(
        "a session sticks to an endpoint without room",
        endpoints,
        "if last in self._usable and self._has_room(last):",
        "if last in self._usable:",
    ),
    Fault(
        "a session sticks to an endpoint that is down",
        endpoints,
        "if last in self._usable and self._has_room(last):",
        "if last is not None and self._has_room(last):",
    ),
    Fault(
        "a session does not stick",
        endpoints,
        "            self._remember(session, name)\n",
        "            pass\n",
    ),
    Fault(
        "the session that came last is forgotten first",
        endpoints,
        "        self._sessions.move_to_end(session)\n",
        "",
    ),
    Fault(
        "the least busy one has the fewest in flight, whatever its cap",
        endpoints,
        "return self._in_flight[name] / (self._caps[name] or 1)",
        "return self._in_flight[name]",
    ),
    Fault(
        "the last named among equals comes first",
        endpoints,
        "min(filter(self._has_room, self._usable), key",
        "min(filter(self._has_room, reversed(self._usable)), key",
    ),
    Fault(
        "an endpoint's own cap is ignored",
        endpoints,
        "return (not cap or self._in_flight[name] < cap) and",
        "return",
    ),
    Fault(
        "the only one that is up has no cap",
        endpoints,
        "        if (cap and self._in_flight[name] >= cap) or",
        "        if (cap and self._in_flight[name] >= cap and not self._only) or",
    ),
    Fault(
        "the sum does not count where endpoints have caps",
        gate,
        "        cap = self._limits.max_concurrent\n        return not",
        "        capped = any(it.max_concurrent for it in self.endpoints().values())\n"
        "        cap = 0 if capped else self._limits.max_concurrent\n        return not",
    ),
    Fault(
        "a hold is ignored",
        gate,
        "        self._stands = self._paused or self._endpoints.held",
        "        self._stands = self._paused",
    ),
    Fault(
        "an endpoint that comes back wakes nobody",
        gate,
        "            self._change_mode(now)\n        self._settle(now)\n\n    def set_endpoints",
        "            self._change_mode(now)\n\n    def set_endpoints",
    ),
    Fault(
        "other endpoints wake nobody",
        gate,
        "        self._change_mode(now)\n        self._settle(now)\n\n    def rename",
        "        self._change_mode(now)\n\n    def rename",
    ),
    Fault(
        "other endpoints do not change the mode",
        gate,
        "        self._change_mode(now)\n        self._settle(now)\n\n    def rename",
        "        self._settle(now)\n\n    def rename",
    ),
    Fault(
        "one that runs at a server that is gone counts at another",
        gate,
        '            ticket.endpoint = names.get(ticket.account, "")',
        "            ticket.endpoint = names.get(ticket.account, next(iter(endpoints)))",
    ),
    Fault(
        "those that stay are counted as free",
        endpoints,
        "in_flight.get(account, 0) for name, account in self.accounts.items()",
        "0 for name, account in self.accounts.items()",
    ),
    Fault(
        "an endpoint that changes nothing is told",
        gate,
        "        if changed:\n            holding = ",
        "        if True:\n            holding = ",
    ),
    Fault(
        "one requeued after all were dismissed waits on",
        gate,
        "            if self._dismisses and ticket.state is State.WAITING:\n"
        "                self._dismiss(ticket, now)\n",
        "",
    ),
    Fault(
        "one requeued is refused though who waits is served",
        gate,
        "self._dismisses = self._dismisses or dismiss",
        "self._dismisses = True",
    ),
    # ---- the account of a server
    Fault(
        "one that runs at a server that is gone is forgotten there",
        gate,
        "        ticket.account.in_flight -= 1\n",
        "        ticket.account.in_flight -= not ticket.endpoint\n",
    ),
    Fault(
        "what is given back after its server is gone stays counted there",
        gate,
        "        ticket.account.in_flight -= 1\n",
        "        ticket.account.in_flight -= bool(ticket.endpoint)\n",
    ),
    Fault(
        "what others have at the server is overlooked",
        endpoints,
        "        if (cap and self._in_flight[name] >= cap) or not account.has_room(self):",
        "        if cap and self._in_flight[name] >= cap:",
    ),
    Fault(
        "what others have at one of several servers is overlooked",
        endpoints,
        " and self.accounts[name].has_room(self)",
        "",
    ),
    Fault(
        "what was sent before a reload is not counted at the server",
        account,
        "        return self.in_flight + first < self._cap",
        "        return first < self._cap",
    ),
    Fault(
        "whoever waits where it leaves gets nothing kept free",
        account,
        "return self.in_flight + first < self._cap",
        "return self.in_flight < self._cap",
    ),
    Fault(
        "one that leaves claims nothing",
        gate,
        "        if self._leaving:\n            self._claim()\n",
        "",
    ),
    Fault(
        "one that leaves claims more than it could take",
        gate,
        "min(len(self._line), max(0, cap - len(self._in_flight)))",
        "len(self._line)",
    ),
    Fault(
        "the part of a server does not follow the limits",
        gate,
        'told="stalled" in self._story.tally.alarms)\n            self._share_out()\n',
        'told="stalled" in self._story.tally.alarms)\n',
    ),
    Fault(
        "the part of a server does not follow its own cap",
        gate,
        "or changed\n            self._share_out()\n",
        "or changed\n",
    ),
    Fault(
        "other servers get no part",
        gate,
        "holds=holds)\n        self._share_out()\n",
        "holds=holds)\n",
    ),
    Fault(
        "one that leaves keeps its part",
        gate,
        "        self._leaving = self._leaving or leaving\n        self._share_out()\n",
        "        self._leaving = self._leaving or leaving\n",
    ),
    Fault(
        "an operator brings back one that leaves",
        gate,
        "        if not self._leaving:\n            self.closing = None\n",
        "        self._leaving = False\n        if not self._leaving:\n            self.closing = None\n",
    ),
    Fault(
        "one that leaves is paused",
        gate,
        "paused and (self._paused or not self._leaving)",
        "paused",
    ),
    Fault(
        "one that leaves counts beside those that stay",
        account,
        "shares = (self._shares or self._leaving).values()",
        "shares = [*self._shares.values(), *self._leaving.values()]",
    ),
    Fault(
        "somebody is let in while the gates are changed",
        gate,
        " and not self._changing",
        "",
    ),
    Fault(
        "nobody is let in once the gates are changed",
        gate,
        "        self._changing = False\n        self.handle_timer(now)\n",
        "        self.handle_timer(now)\n        self._changing = False\n",
    ),
    Fault(
        "a renamed one tells its old name",
        chronicle,
        "old, self.upstream = self.upstream, upstream",
        "old = self.upstream",
    ),
    # ---- alarms
    Fault(
        "a stall begins anew with each arrival",
        gate,
        "            self._queue(ticket, now, max_wait)\n",
        "            self._queue(ticket, now, max_wait)\n            self._stall.since = None\n",
    ),
    Fault(
        "a stall begins with the second arrival",
        gate,
        "            if self._stall.since is None:\n                self._watch_for_a_stall(now)\n        else:",
        "        else:",
    ),
    Fault(
        "a release does not end a stall",
        gate,
        "        if self._stall.since is not None:\n            self._end_stall(now)\n        self._story.released(",
        "        self._story.released(",
    ),
    Fault(
        "a stall is cleared when somebody leaves the line",
        gate,
        "        self._line.remove(ticket)\n        self._timers.drop(ticket)\n        ticket.state = State.GONE",
        "        self._line.remove(ticket)\n        self._timers.drop(ticket)\n        ticket.state = State.GONE\n"
        "        self._end_stall(now)",
    ),
    Fault(
        "a stall outlives the last who waits",
        gate,
        "        elif self._stall.since is not None:\n            self._end_stall(now)\n\n    def _claim",
        "\n    def _claim",
    ),
    Fault(
        "a paused gate is stalled",
        gate,
        "        if not self._stands:\n            self._stall.begin",
        "        if True:\n            self._stall.begin",
    ),
    Fault(
        "a stall goes on through a pause",
        gate,
        "        if self._stands:\n            self._end_stall(now)\n",
        "",
    ),
    Fault(
        "a stall is told at each call",
        gate,
        "        self._stall.note_told()\n",
        "",
    ),
    Fault(
        "a stall is told again when the limits change",
        gate,
        'told="stalled" in self._story.tally.alarms',
        "told=False",
    ),
    Fault(
        "a changed stall_alarm does not count for a stall that has begun",
        gate,
        '            self._stall.set_after(limits.stall_alarm, told="stalled" in self._story.tally.alarms)\n',
        "",
    ),
    Fault(
        "nobody wakes up for a stall",
        gate,
        "due, stall = self._timers.next(), self._stall.due",
        "due, stall = self._timers.next(), math.inf",
    ),
    Fault(
        "a stall is told late",
        gate,
        "if self._stall.due <= now:",
        "if self._stall.due < now:",
    ),
    Fault(
        "those who expire leave their stall to one who is requeued",
        gate,
        "        if not self._line:\n            self._end_stall(now)\n",
        "",
    ),
    Fault(
        "the text of an alarm stays the first one",
        gate,
        "if self._story.tally.alarms.get(alarm) != text:",
        "if alarm not in self._story.tally.alarms:",
    ),
    Fault(
        "an alarm that is not raised is cleared",
        gate,
        "        if alarm in self._story.tally.alarms:\n",
        "        if True:\n",
    ),
    # ---- I7 positions, and the line under them
    Fault(
        "a position counts one who left",
        line,
        "        self._add(index, -1)\n",
        "",
    ),
    Fault(
        "a position is counted from 0",
        line,
        "index = self._index[member] + 1",
        "index = self._index[member]",
    ),
    Fault(
        "the tree is not carried on to its end",
        line,
        "        while index < size:",
        "        while index < size - 1:",
    ),
    Fault(
        "a line laid out anew counts nobody",
        line,
        "        for index in self._index.values():\n            self._add(index, 1)\n",
        "",
    ),
    Fault(
        "the head stays on a hole",
        line,
        "        elif index == self._head:\n            self._skip_holes()\n",
        "        elif not self._index:\n            self._skip_holes()\n",
    ),
    Fault(
        "an empty line does not start over",
        line,
        "            self._head = self._tail = _SMALLEST // 4\n",
        "",
    ),
    Fault(
        "a long line's array is kept",
        line,
        "if len(self._members) > max(_SMALLEST, _SPARSE * len(self._index)):",
        "if False:",
    ),
]
