"""Certificates that nobody signed, as PEM files: made by openssl, each pair only once for a run of the tests."""

import functools
import http.server
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ADDRESS_AND_NAMES = "IP:127.0.0.1,DNS:localhost,DNS:gate.example.org"


class Pem(NamedTuple):
    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str = "front") -> dict[str, str]:
        """Both into files there; the settings that name them."""
        paths = {"tls_cert": folder / f"{name}-cert.pem", "tls_key": folder / f"{name}-key.pem"}
        for path, text in zip(paths.values(), self, strict=True):
            path.touch(0o600)
            path.write_bytes(text)
        return {setting: str(path) for setting, path in paths.items()}

    def trusted(self) -> ssl.SSLContext:
        """By a client, and nothing else."""
        return ssl.create_default_context(cadata=self.certificate.decode())


@functools.cache
def make_pem(number: int = 0, *, names: str = ADDRESS_AND_NAMES) -> Pem:
    """Another one for each number. It ends 90 days from now."""
    with tempfile.TemporaryDirectory() as folder:
        key, certificate = Path(folder, "key.pem"), Path(folder, "certificate.pem")
        command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
        subject = ["-subj", f"/CN=gate{number}", "-addext", f"subjectAltName={names}", "-days", "90"]
        run(*command.split(), *subject, "-keyout", str(key), "-out", str(certificate))
        return Pem(certificate.read_bytes(), key.read_bytes())


class Quiet(http.server.ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that does not trust it is no news."""


@contextmanager
def serving(
    paths: Mapping[str, str], handler: type[http.server.BaseHTTPRequestHandler] = http.server.BaseHTTPRequestHandler
) -> Iterator[str]:
    """The URL of a server that shows what `write` has written."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(paths["tls_cert"], paths["tls_key"])
    with Quiet(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"https://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
