"""The certificate of the front door and its private key, from the PEM files of server.tls_cert and server.tls_key.

They are read at the start and at every reload, and checked as a client would: the two belong together, and a handshake
comes to its end. No message holds a part of a key. OpenSSL reads them by itself: where they are others after that, as
while a renewal writes them, all begins again, so that what is shown is what was looked at.
"""

import contextlib
import hashlib
import os
import re
import ssl
import stat
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from llmgate.config.problems import Path as Place
from llmgate.config.problems import Problem
from llmgate.config.settings import Server
from llmgate.config.units import BadValue

TLS_CERT: Place = ("server", "tls_cert")
TLS_KEY: Place = ("server", "tls_key")

_LARGEST_FILE = 1 << 20
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_BEGIN = re.compile(rb"-----BEGIN (?:X509 |TRUSTED )?CERT")
_KEY = re.compile(rb"-----BEGIN ((?:[A-Z]+ )*)PRIVATE KEY-----(\s+Proc-Type: 4,ENCRYPTED)?")
_NO_CHECK_TIME = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL."""
_LOOKS = 3
"""At files that change, before they are refused."""
_TURNS = 4
"""Of both sides, in which a handshake comes to its end."""


@dataclass(frozen=True)
class Certificate:
    """What clients are shown, and what shows it."""

    context: ssl.SSLContext = field(compare=False, repr=False)
    digest: str
    """Of both files: whether they have changed."""
    fingerprint: str
    """SHA-256 of the certificate in DER form, in hex."""
    names: tuple[str, ...] = ()
    """Host names, in lower case, and addresses that it is for."""
    expires: datetime | None = None
    """None: that is not known."""


class CertificateFiles:
    """`certificate`, None where none is set or it cannot be used, and what is wrong (`problems`) or careless
    (`oddities`) with its files."""

    def __init__(self, server: Server) -> None:
        self.certificate: Certificate | None = None
        self.problems: list[Problem] = []
        self.oddities: list[Problem] = []
        if server.tls_cert is None or server.tls_key is None:
            return
        for _ in range(_LOOKS):
            if self._look(server.tls_cert, server.tls_key):
                return
        self.certificate, self.problems, self.oddities = None, [], []
        self._refuse(TLS_CERT, "and tls_key change while they are read: reload when they are written")

    def _look(self, cert: Path, key: Path) -> bool:
        """False: the files are others by now."""
        self.certificate, self.problems, self.oddities = None, [], []
        chain, secret = self._read(TLS_CERT, cert), self._read(TLS_KEY, key)
        if chain is not None and secret is not None:
            self._check_key(secret)
            self._check_chain(chain)
        if not self.problems and chain is not None and secret is not None:
            self._load(cert, key, chain, secret)
        return (chain, secret) == (_content(cert), _content(key))

    def _refuse(self, place: Place, text: str) -> None:
        self.problems.append(Problem(place, text))

    def _read(self, place: Place, path: Path) -> bytes | None:
        try:
            with path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                text = file.read(_LARGEST_FILE + 1)
        except OSError as error:
            self._refuse(place, f"must be a file that can be read: {path}: {os.strerror(error.errno or 0)}")
            return None
        if len(text) > _LARGEST_FILE:
            self._refuse(place, f"is too large for a file of PEM: {path}")
            return None
        if place == TLS_KEY and mode & stat.S_IROTH:
            self.oddities.append(Problem(place, "can be read by every user of this machine: chmod o-r"))
        return text

    def _check_key(self, text: bytes) -> None:
        found = _KEY.search(text)
        if found is None:
            self._refuse(TLS_KEY, "must hold a private key in PEM form")
        elif b"ENCRYPTED" in found[1] or found[2]:
            self._refuse(
                TLS_KEY,
                "holds a key that is encrypted, and nobody is there to type its passphrase: "
                "write it without one, openssl pkey -in KEY -out NEW, for nobody else to read",
            )

    def _check_chain(self, text: bytes) -> None:
        blocks = _CERTIFICATE.findall(text)
        if blocks and _BEGIN.search(_CERTIFICATE.sub(b"", text)):
            self._refuse(TLS_CERT, "holds a certificate that has no end: write the whole chain")
            return
        try:
            if not blocks:
                raise BadValue
            for block in blocks:
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=block.decode("ascii"))
        except (ssl.SSLError, ValueError):
            self._refuse(TLS_CERT, "must hold a certificate in PEM form, and those between it and a known authority")

    def _load(self, cert: Path, key: Path, chain: bytes, secret: bytes) -> None:
        context = _make_context()
        try:
            context.load_cert_chain(cert, key, password=_no_passphrase)
        except ssl.SSLError as error:
            self._refuse(*_in_words(error))
            return
        except OSError as error:  # gone since it was read
            self._refuse(TLS_CERT, f"must be a file that can be read: {os.strerror(error.errno or 0)}")
            return
        blocks = b"\n".join(_CERTIFICATE.findall(chain))
        told, der = _shown(context, blocks.decode("ascii"))
        expires = _expiry(told)
        if expires is not None and expires <= datetime.now(UTC):
            self.oddities.append(Problem(TLS_CERT, f"is out of date since {expires:%Y-%m-%d}: clients refuse it"))
        self.certificate = Certificate(
            context,
            hashlib.sha256(chain + b"\0" + secret).hexdigest(),
            hashlib.sha256(der).hexdigest() if der else "",
            tuple(
                str(value).lower() for kind, value in told.get("subjectAltName", ()) if kind in ("DNS", "IP Address")
            ),
            expires,
        )


def _content(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST_FILE + 1)
    except OSError:
        return None
    return text if len(text) <= _LARGEST_FILE else None


def _make_context() -> ssl.SSLContext:
    """TLS 1.2 and 1.3 with the ciphers that Python takes for good."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    return context


def _no_passphrase() -> str:
    """OpenSSL would ask the terminal. What is encrypted was refused before: this is of a file that changed since."""
    return ""


def _in_words(error: ssl.SSLError) -> tuple[Place, str]:
    reason = (error.reason or "it cannot be read").lower().replace("_", " ")
    if error.reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"):
        return TLS_KEY, "belongs to another certificate than that of tls_cert"
    if "EE_KEY" in (error.reason or "") or "CA_" in (error.reason or ""):
        return TLS_CERT, f"holds a certificate that is too weak to be used: {reason}"
    return TLS_KEY, f"holds a key that cannot be used: {reason}"


def _shown(context: ssl.SSLContext, chain: str) -> tuple[dict[str, Any], bytes]:
    """What a client learns that trusts it, by a handshake in memory: Python reads certificates in no other way."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VerifyFlags(_NO_CHECK_TIME)
    trusting.load_verify_locations(cadata=chain)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client, server = trusting.wrap_bio(back, there), context.wrap_bio(there, back, server_side=True)
    try:
        for _ in range(_TURNS):
            for side in (client, server):
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        return client.getpeercert() or {}, client.getpeercert(binary_form=True) or b""
    except (ssl.SSLError, ValueError):  # it is for another purpose, say; clients will tell
        return {}, b""


def _expiry(told: dict[str, Any]) -> datetime | None:
    text = told.get("notAfter")
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC) if text else None
