"""Whom commands trust at the gate's address: the certificate that the daemon told of, and no other in its place."""

import http.server
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from certificates import make_pem, serving

from llmgate.cli.trust import trusted
from llmgate.config.certificate import CertificateFiles
from llmgate.config.settings import Server

PEM = make_pem(names="DNS:gate.example.org")
OTHER = make_pem(1)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Not on the test's output."""


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A server that shows a certificate for another name, signed by nobody."""
    with serving(PEM.write(tmp_path), Handler) as url:
        yield url


def fingerprint(folder: Path, pem: object = PEM) -> str:
    assert isinstance(pem, type(PEM))
    found = CertificateFiles(Server.model_validate(pem.write(folder, "told"))).certificate
    assert found is not None
    return found.fingerprint


def get(url: str, verify: ssl.SSLContext | bool) -> int:
    return httpx.get(url, verify=verify, trust_env=False, timeout=30).status_code


def test_the_one_that_was_told_of(url: str, tmp_path: Path) -> None:
    assert get(url, trusted(url, fingerprint(tmp_path))) == 204


@pytest.mark.parametrize("told", ["", "another"])
def test_another_is_as_good_as_the_system_says(url: str, tmp_path: Path, told: str) -> None:
    verify = trusted(url, fingerprint(tmp_path, OTHER) if told else "")
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        get(url, verify)


def test_the_one_that_was_told_of_is_trusted_and_no_other(url: str, tmp_path: Path) -> None:
    verify = trusted(url, fingerprint(tmp_path))
    assert isinstance(verify, ssl.SSLContext)
    assert len(verify.get_ca_certs()) <= 1


def test_where_nobody_answers_the_system_says() -> None:
    assert isinstance(trusted("https://127.0.0.1:1", "00"), ssl.SSLContext)


def test_plain_http_needs_no_trust() -> None:
    assert trusted("http://127.0.0.1:1", "00") is True
