"""An account is found by the server that a URL leads to, as long as somebody leads or runs there."""

from typing import Any

from llmgate.accounts import Accounts, in_flight_of, servers_of
from llmgate.config.settings import Settings, UpstreamSettings
from llmgate.core.caller import Caller
from llmgate.core.gate import Gate
from llmgate.fleet import make_gate

A, B = "http://127.0.0.1:1", "http://127.0.0.1:2"


def upstream(*urls: str, **more: Any) -> UpstreamSettings:
    one = {"endpoints": [{"url": url, "max_concurrent": 1} for url in urls], **more}
    return Settings.model_validate({"upstreams": {"a": one}}).upstreams["a"]


def gate_of(accounts: Accounts, name: str, *urls: str) -> Gate:
    settings = upstream(*urls)
    return make_gate(name, settings, accounts.of(name, settings))


def test_the_same_server_has_one_account_whoever_names_it() -> None:
    accounts = Accounts()
    first, second = accounts.of("a", upstream(A, B)), accounts.of("b", upstream(B, "http://localhost:1/"))
    assert list(first) == ["a", "a#2"]
    assert (first["a"] is second["b#2"], first["a#2"] is second["b"]) == (True, True)
    assert servers_of(upstream(A, B)) == {("127.0.0.1", 1, ""), ("127.0.0.1", 2, "")}


def test_it_is_forgotten_with_the_last_who_has_it() -> None:
    accounts = Accounts()
    gate = gate_of(accounts, "a", A)
    ticket = gate.enter(0.0, Caller(id="r"))
    gate.set_endpoints({"a": 1}, 0.0, kept={}, holds=True, accounts=accounts.of("a", upstream(B)))
    assert accounts.of("b", upstream(A))["b"].in_flight == 1
    gate.leave(ticket, 0.0, "completed")
    del ticket
    assert list(accounts._by_server) == [("127.0.0.1", 2, "")]


def test_they_are_shared_where_somebody_is_who_is_not_of_the_one_upstream() -> None:
    accounts = Accounts()
    gates = [gate_of(accounts, "a", A), gate_of(accounts, "b", B)]
    ticket = gates[0].enter(0.0, Caller(id="r"))
    assert not accounts.are_shared(gates)
    assert list(in_flight_of(gates[0]).values()) == [1]
    gates[0].set_endpoints({"a": 1}, 0.0, kept={}, holds=True)
    gates.append(gate_of(accounts, "c", A))
    assert accounts.are_shared(gates), "it runs at what is now another one's"
    gates[0].leave(ticket, 0.0, "completed")
    assert not accounts.are_shared(gates)
    gates.append(gate_of(accounts, "d", A))
    assert accounts.are_shared(gates), "two name it"
