"""The files of the front door's certificate: what they may hold, and what is said of those that cannot be used."""

import os
import ssl
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

import pytest
from certificates import make_pem, run

from llmgate.config import certificate
from llmgate.config.certificate import CertificateFiles
from llmgate.config.load import load
from llmgate.config.settings import Server
from llmgate.errors import SettingsError

PEM = make_pem()


def read(folder: Path, chain: bytes = PEM.certificate, key: bytes = PEM.key, mode: int = 0o600) -> CertificateFiles:
    (folder / "cert.pem").write_bytes(chain)
    (folder / "key.pem").write_bytes(key)
    (folder / "key.pem").chmod(mode)
    return CertificateFiles(Server(tls_cert=folder / "cert.pem", tls_key=folder / "key.pem"))


def texts(found: CertificateFiles) -> list[str]:
    return [str(problem) for problem in (*found.problems, *found.oddities)]


def test_without_files_there_is_none() -> None:
    found = CertificateFiles(Server())
    assert (found.certificate, texts(found)) == (None, [])


def test_a_certificate_and_its_key(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert texts(found) == []
    shown = found.certificate
    assert shown is not None
    assert shown.names == ("127.0.0.1", "localhost", "gate.example.org")
    assert shown.expires is not None
    assert timedelta(days=88) < shown.expires - datetime.now(UTC) < timedelta(days=91)
    told = subprocess.run(
        ["openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in", str(tmp_path / "cert.pem")],
        check=True,
        capture_output=True,
    )
    assert told.stdout.decode().strip().rpartition("=")[2].replace(":", "").lower() == shown.fingerprint


def test_both_in_one_file_and_a_chain_behind(tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.touch(0o600)
    both.write_bytes("# für uns\n".encode() + PEM.key + PEM.certificate + make_pem(1).certificate)
    found = CertificateFiles(Server(tls_cert=both, tls_key=both))
    assert texts(found) == []
    assert found.certificate is not None
    assert found.certificate.names


def test_only_another_content_is_another_digest(tmp_path: Path) -> None:
    first, again, other = (read(tmp_path, *pem).certificate for pem in (PEM, PEM, make_pem(1)))
    assert first == again != other


def test_names_in_capitals(tmp_path: Path) -> None:
    loud = read(tmp_path, *make_pem(2, names="DNS:GATE.Example.org")).certificate
    assert loud is not None
    assert loud.names == ("gate.example.org",)


def test_one_that_is_for_something_else_can_be_shown_all_the_same(tmp_path: Path) -> None:
    """It is for clients to say what they think of it."""
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 9 -subj /CN=x"
    usage = ["-addext", "extendedKeyUsage=clientAuth", "-keyout", str(tmp_path / "k"), "-out", str(tmp_path / "c")]
    run(*command.split(), *usage)
    found = read(tmp_path, (tmp_path / "c").read_bytes(), (tmp_path / "k").read_bytes())
    assert texts(found) == []
    assert found.certificate is not None
    assert (found.certificate.names, found.certificate.expires, found.certificate.fingerprint) == ((), None, "")


def encrypted(folder: Path, *, old: bool) -> bytes:
    (folder / "plain").write_bytes(PEM.key)
    command = ["openssl", "ec" if old else "pkey", "-aes256", "-passout", "pass:secret"]
    run(*command, "-in", str(folder / "plain"), "-out", str(folder / "encrypted"))
    return (folder / "encrypted").read_bytes()


@pytest.mark.parametrize("old", [False, True])
def test_a_key_that_is_encrypted(tmp_path: Path, *, old: bool) -> None:
    (said,) = texts(read(tmp_path, key=encrypted(tmp_path, old=old)))
    assert said.startswith("server.tls_key holds a key that is encrypted")
    assert "openssl pkey" in said


TORN = PEM.key.replace(b"M", b"N", 1)
BAD = [
    (b"", PEM.key, "server.tls_cert must hold a certificate in PEM form"),
    (PEM.key, PEM.key, "server.tls_cert must hold a certificate in PEM form"),
    (PEM.certificate[:200], PEM.key, "server.tls_cert must hold a certificate in PEM form"),
    (PEM.certificate.replace(b"MII", b"MIJ", 1), PEM.key, "server.tls_cert must hold a certificate in PEM form"),
    (
        PEM.certificate.replace(b"MII", "MIÄ".encode(), 1),
        PEM.key,
        "server.tls_cert must hold a certificate in PEM form",
    ),
    (
        PEM.certificate + make_pem(1).certificate[:300],
        PEM.key,
        "server.tls_cert holds a certificate that has no end: write the whole chain",
    ),
    (PEM.certificate + b"-----BEGIN CERT", PEM.key, "server.tls_cert holds a certificate that has no end"),
    (PEM.certificate, PEM.key[:120], "server.tls_key holds a key that cannot be used: "),
    (PEM.certificate, b"", "server.tls_key must hold a private key in PEM form"),
    (PEM.certificate, PEM.certificate, "server.tls_key must hold a private key in PEM form"),
    (PEM.certificate, TORN, "server.tls_key holds a key that cannot be used: "),
    (PEM.certificate, make_pem(1).key, "server.tls_key belongs to another certificate than that of tls_cert"),
    (b"x" * (1 << 21), PEM.key, "server.tls_cert is too large for a file of PEM"),
]


@pytest.mark.parametrize(("chain", "key", "said"), BAD)
def test_files_that_cannot_be_used(tmp_path: Path, chain: bytes, key: bytes, said: str) -> None:
    found = read(tmp_path, chain, key)
    (told,) = texts(found)
    assert told.startswith(said)
    assert found.certificate is None


def test_a_key_that_is_too_weak(tmp_path: Path) -> None:
    command = "openssl req -x509 -newkey rsa:1024 -nodes -days 9 -subj /CN=weak"
    run(*command.split(), "-keyout", str(tmp_path / "k"), "-out", str(tmp_path / "c"))
    (told,) = texts(read(tmp_path, (tmp_path / "c").read_bytes(), (tmp_path / "k").read_bytes()))
    assert told.startswith("server.tls_cert holds a certificate that is too weak to be used: ee key too small")


def test_a_key_that_everybody_may_read_is_warned_of(tmp_path: Path) -> None:
    found = read(tmp_path, mode=0o644)
    assert texts(found) == ["server.tls_key can be read by every user of this machine: chmod o-r"]
    assert found.certificate is not None


class NextYear(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return super().now(tz) + timedelta(days=365)


def test_one_that_is_out_of_date_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate, "datetime", NextYear)
    found = read(tmp_path)
    (told,) = texts(found)
    assert told.startswith("server.tls_cert is out of date since 20")
    assert found.certificate is not None


def test_files_that_cannot_be_read(tmp_path: Path, as_nobody: Callable[[], AbstractContextManager[None]]) -> None:
    tmp_path.chmod(0o755)
    settings = tmp_path / "llmgate.toml"
    lines = ["[server]", f'tls_cert = "{tmp_path}/none.pem"', f'tls_key = "{tmp_path}/key.pem"']
    settings.write_text("\n".join(lines))
    (tmp_path / "key.pem").write_bytes(PEM.key)
    (tmp_path / "key.pem").chmod(0)
    with as_nobody():
        server = Server(tls_cert=tmp_path / "none.pem", tls_key=tmp_path / "key.pem")
        assert [problem.path[-1] for problem in CertificateFiles(server).problems] == ["tls_cert", "tls_key"]
    (tmp_path / "key.pem").chmod(0o600)
    with pytest.raises(SettingsError) as refused:
        load(settings, environ={})
    assert str(refused.value) == (
        f"llmgate: {settings}:2: server.tls_cert must be a file that can be read: {tmp_path}/none.pem: {os.strerror(2)}"
    )


class Renewal:
    """Others write the files while they are looked at, `times` times, each time before OpenSSL reads them."""

    def __init__(self, folder: Path, times: int) -> None:
        self.folder, self.left = folder, times
        self.make_context = certificate._make_context

    def __call__(self) -> ssl.SSLContext:
        if self.left:
            self.left -= 1
            pem = make_pem(1 + self.left % 2)
            (self.folder / "cert.pem").write_bytes(pem.certificate)
            (self.folder / "key.pem").write_bytes(pem.key)
        return self.make_context()


@pytest.mark.parametrize("times", [1, 2])
def test_files_that_are_renewed_while_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    monkeypatch.setattr(certificate, "_make_context", Renewal(tmp_path, times))
    found = read(tmp_path, *make_pem(3))
    assert texts(found) == []
    assert found.certificate == read(tmp_path, *make_pem(1)).certificate
    assert found.certificate is not None
    assert found.certificate.names


def test_files_that_change_all_the_time_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate, "_make_context", Renewal(tmp_path, 10))
    found = read(tmp_path, *make_pem(3))
    assert texts(found) == ["server.tls_cert and tls_key change while they are read: reload when they are written"]
    assert found.certificate is None


def test_what_is_loaded_has_it(tmp_path: Path) -> None:
    assert load(None, environ={}).tls is None
    loaded = load(None, environ={}, overrides={"server": PEM.write(tmp_path)})
    assert loaded.certificate is not None
    assert loaded.tls is loaded.certificate.context
