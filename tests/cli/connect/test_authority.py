"""Clients are told of a certificate that the system does not trust, and of the file that makes them trust it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import make_pem, serving
from certificates import run as call

from llmgate.cli.connect.authority import certificate_notes
from tests.cli.conftest import FakeDaemon, status_of, upstream

PEM = make_pem()


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    return PEM.write(tmp_path)


@pytest.fixture
def root(paths: dict[str, str]) -> Iterator[str]:
    """Its certificate is signed by nobody."""
    with serving(paths) as url:
        yield url


@pytest.fixture
def config(tmp_path: Path, paths: dict[str, str]) -> str:
    lines = ["[server]", *(f"{name} = {json.dumps(path)}" for name, path in paths.items())]
    (tmp_path / "llmgate.toml").write_text("\n".join(lines))
    return str(tmp_path / "llmgate.toml")


@pytest.mark.parametrize(
    ("client", "how"),
    [
        ("curl", "give curl --cacert"),
        ("claude-code", "set NODE_EXTRA_CA_CERTS, where the client is started, to"),
        ("python", "set SSL_CERT_FILE, where the client is started, to"),
    ],
)
def test_each_kind_of_client_has_its_own_way(
    root: str, config: str, paths: dict[str, str], client: str, how: str
) -> None:
    (said,) = certificate_notes(client, root, config)
    assert said == f"This system does not trust the certificate of {root}: {how} {paths['tls_cert']}."


@pytest.mark.parametrize("broken", ["", "none.toml"])
def test_where_its_file_is_not_known_here(root: str, tmp_path: Path, broken: str) -> None:
    (said,) = certificate_notes("curl", root, str(tmp_path / broken) if broken else "")
    assert said.endswith("--cacert CERT.pem, a copy of server.tls_cert.")


def test_who_trusts_it_hears_nothing(root: str, paths: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", paths["tls_cert"])
    assert certificate_notes("curl", root, "") == ()


@pytest.mark.parametrize("other", ["http://127.0.0.1:1", "https://127.0.0.1:1"])
def test_without_tls_or_an_answer_nothing_is_said(other: str) -> None:
    assert certificate_notes("curl", other, "") == ()


def test_of_an_own_authority_its_file_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    names = {name: tmp_path / name for name in ("ca", "ca.key", "leaf", "leaf.key")}
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "9",
    ]
    call(*make, "-subj", "/CN=own", "-keyout", str(names["ca.key"]), "-out", str(names["ca"]))
    signed = ["-CA", str(names["ca"]), "-CAkey", str(names["ca.key"]), "-addext", "subjectAltName=IP:127.0.0.1"]
    call(*make, "-subj", "/CN=x", *signed, "-keyout", str(names["leaf.key"]), "-out", str(names["leaf"]))
    with serving({"tls_cert": str(names["leaf"]), "tls_key": str(names["leaf.key"])}) as root:
        (said,) = certificate_notes("python", root, "")
    assert said.endswith(", to the file of its authority.")


def test_the_command_says_so(run: Any, daemon: FakeDaemon, root: str) -> None:
    daemon.status = status_of(upstream("a"), listen=[root])
    options = ("--model", "m", "--socket", daemon.socket)
    assert "set NODE_EXTRA_CA_CERTS" in run("connect", "pi", *options).err
    assert "set NODE_EXTRA_CA_CERTS" in json.loads(run("connect", "pi", "--json", *options).out)["notes"][-1]
