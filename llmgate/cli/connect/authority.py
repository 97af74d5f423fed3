"""What a client must be given where the system does not trust the certificate that the gate shows."""

import os
import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from llmgate.config.load import load
from llmgate.errors import SettingsError

LOOK_SECONDS = 5.0
OWN = 18
"""X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT of OpenSSL: it is its own authority."""
UNKNOWN = (OWN, 19, 20, 21)
"""Its authority is not known here; other codes, as that of its end, no file mends."""
NODE = frozenset({"claude-code", "opencode", "cline", "continue", "pi", "dsh"})
"""Clients in JavaScript, which have a variable of their own and keep to their own list beside it."""


def certificate_notes(client: str, root: str, config: str) -> tuple[str, ...]:
    """None or one, for a person. `config`: the path of the daemon's settings, "" where that is not known."""
    code = _ask(root)
    if code not in UNKNOWN:
        return ()
    file = (_shown_by(config) or "CERT.pem, a copy of server.tls_cert") if code == OWN else "the file of its authority"
    if client == "curl":
        how = "give curl --cacert"
    elif client in NODE:
        how = "set NODE_EXTRA_CA_CERTS, where the client is started, to"
    else:
        how = "set SSL_CERT_FILE, where the client is started, to"
    return (f"This system does not trust the certificate of {root}: {how} {file}.",)


def _ask(root: str) -> int:
    """Why a handshake with it fails, as OpenSSL counts; 0: it does not, or not for its certificate."""
    parts = urlsplit(root)
    if parts.scheme != "https":
        return 0
    host = parts.hostname or ""
    try:
        with (
            socket.create_connection((host, parts.port or 443), LOOK_SECONDS) as plain,
            ssl.create_default_context().wrap_socket(plain, server_hostname=host),
        ):
            return 0
    except ssl.SSLCertVerificationError as error:
        return error.verify_code
    except (OSError, ValueError):
        return 0


def _shown_by(config: str) -> str:
    """Its file, where whoever asks may read it."""
    try:
        found = load(Path(config), environ=os.environ).settings.server.tls_cert if config else None
    except SettingsError:
        return ""
    return str(found.absolute()) if found is not None and os.access(found, os.R_OK) else ""
