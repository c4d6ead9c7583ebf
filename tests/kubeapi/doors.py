"""Doors of kubelets on loopback: an HTTPS port with a certificate of a node's, and one for reading."""

from __future__ import annotations

import ssl
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


def certificate(folder: Path, subject: str, names: str = "") -> Path:
    """Make a certificate that signs itself, as a kubelet does, with its key in the same file."""
    path = folder / "kubelet.pem"
    words = ["-subj", subject, *(["-addext", f"subjectAltName={names}"] if names else [])]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = ["-keyout", str(path), "-out", str(folder / "only.pem"), "-days", "2"]
    subprocess.run(["openssl", "req", "-x509", *key, *files, *words], check=True, capture_output=True)
    path.write_text(path.read_text() + (folder / "only.pem").read_text())
    return path


@contextmanager
def door(
    address: str, port: int, answers: Mapping[str, int], certificate: Path | None = None
) -> Iterator[list[tuple[str, str | None]]]:
    """Answer each path with a status; gives what was asked, each with its credential."""
    asked: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer."""
            asked.append((self.path, self.headers.get("Authorization")))
            self.send_response(answers.get(self.path, 404))
            self.end_headers()
            self.wfile.write(b"SECRET")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((address, port), Handler)
    server.daemon_threads = True
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield asked
    finally:
        server.shutdown()
        server.server_close()
