"""A ticket is only what its gate writes into it: see test_gate.py."""

from llmgate.core.caller import Caller
from llmgate.core.ticket import State, Ticket


def test_what_it_says_of_itself():
    ticket = Ticket(7, Caller(id="r"), 1.0)
    assert (ticket.order, ticket.entered_at, ticket.endpoint, ticket.account) == (7, 1.0, "", None)
    ticket.state = State.DRAINING
    assert repr(ticket) == "<Ticket 7 draining>"
