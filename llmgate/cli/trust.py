"""Whom commands trust at the gate's address: the very certificate that the daemon tells of, else whom the system does.

A certificate that an own authority signed, or nobody, is no hindrance on its own machine: the admin socket says which
it is. So it may be for another name than the address under which this machine reaches it.
"""

import hashlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl

LOOK_SECONDS = 5.0


def trusted(root: str, fingerprint: str) -> "ssl.SSLContext | bool":
    """What httpx takes as `verify` for this URL. `fingerprint`: SHA-256 of the certificate in DER form, in hex; ""
    where the daemon told none."""
    if not root.startswith("https:"):
        return True
    import ssl

    shown = _shown(root) if fingerprint else ""
    if not shown or hashlib.sha256(ssl.PEM_cert_to_DER_cert(shown)).hexdigest() != fingerprint:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=shown)
    return context


def _shown(root: str) -> str:
    """The certificate that is shown there; "" where there is none."""
    import ssl

    parts = urlsplit(root)
    try:
        return ssl.get_server_certificate((parts.hostname or "", parts.port or 443), timeout=LOOK_SECONDS)
    except (OSError, ValueError):
        return ""
