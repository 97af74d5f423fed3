"""How another gate is recognised, and ourselves."""

import socket
from typing import Any

import pytest

from llmgate.cli import gates
from llmgate.cli.gates import gate_at, is_one_of, version_in

LISTEN = ["http://127.0.0.1:8080", "http://[::1]:8081", "http://192.168.1.5:8080"]


@pytest.mark.parametrize(
    ("body", "version"),
    [
        (b'{"version":"0.12.6","llmgate":"0.1.0"}', "0.1.0"),
        (b'{"error":"llmgate: a valid key is needed, as x-api-key (UNAUTHORIZED)"}', ""),
        (b'{"version":"0.12.6"}', None),
        (b'{"llmgate":1}', None),
        (b"[1]", None),
        (b"Not Found", None),
        (b"[" * 100_000, None),
        (b'{"error":"a word about llmgate: none (of it)"}', None),
    ],
)
def test_a_gate_names_itself(body: bytes, version: str | None) -> None:
    assert version_in(body) == version


def test_what_does_not_answer_is_none() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert gate_at(f"http://127.0.0.1:{bound.getsockname()[1]}") is None


@pytest.mark.parametrize(
    ("url", "ours"),
    [
        ("http://127.0.0.1:8080", True),
        ("http://localhost:8080/v1", True),
        ("http://[::1]:8081", True),
        ("http://192.168.1.5:8080", True),
        ("http://127.0.0.1:8000", False),
        ("http://192.168.1.6:8080", False),
        ("http://192.168.1.5:8081", False),
    ],
)
def test_an_address_of_our_own(url: str, ours: bool) -> None:
    assert is_one_of(url, LISTEN) == ours


def test_who_listens_everywhere_is_met_at_every_address_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = [(socket.AF_INET, socket.SOCK_DGRAM, 17, "", ("127.0.0.2", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert is_one_of("http://me.lan:8080", ["http://0.0.0.0:8080"])
    found[:] = [(socket.AF_INET, socket.SOCK_DGRAM, 17, "", ("192.0.2.1", 0))]
    assert not is_one_of("http://other.lan:8080", ["http://0.0.0.0:8080"])
    found.clear()
    assert not is_one_of("http://nobody.lan:8080", ["http://0.0.0.0:8080"])


def test_a_name_that_nobody_knows_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert not gates.is_one_of("http://nobody.invalid:8080", ["http://0.0.0.0:8080"])
