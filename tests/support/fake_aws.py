"""A proxy behind which every host of AWS answers, with TLS. Programs that leave the machine reach it."""

import ssl
import threading
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

#: Names in its certificate. A name there has no trailing dot.
NAMES = ("sts.amazonaws.com", "sts.us-east-1.amazonaws.com", "bedrock-runtime.us-east-1.amazonaws.com")


class FakeAws:
    """Used as `with FakeAws(tmp_path) as aws`. `aws.heard` has the requests to AWS, with headers and bodies."""

    def __init__(self, directory: Path) -> None:
        self.heard: list[str] = []
        #: Hosts for which a connection was requested, whether or not it was made.
        self.asked: list[str] = []
        self.authority, server = _certificates(directory)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(server)
        heard, asked = self.heard, self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_CONNECT(self) -> None:
                asked.append(self.path)
                self.wfile.write(b"HTTP/1.1 200 Connected\r\n\r\n")
                try:
                    with context.wrap_socket(self.connection, server_side=True) as inner:
                        heard.append(inner.recv(65536).decode("latin-1"))
                        inner.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                except OSError:
                    # The client does not trust this certificate and sends nothing more.
                    pass
                self.close_connection = True

            def log_message(self, *_arguments: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> "FakeAws":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        """Returns the variables of a user behind a company's proxy whose certificate authority is trusted."""
        return {"HTTPS_PROXY": f"http://127.0.0.1:{self._server.server_port}", "AWS_CA_BUNDLE": str(self.authority)}


def _certificates(directory: Path) -> tuple[Path, Path]:
    """Files of an authority, and of the server's certificate with its key."""
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority of the test's")])
    now = datetime.now(timezone.utc)

    def signed(subject: x509.Name, key: ec.EllipticCurvePrivateKey, *extensions: x509.ExtensionType) -> bytes:
        builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    authority, server = directory / "authority.pem", directory / "server.pem"
    authority.write_bytes(signed(issuer, authority_key, x509.BasicConstraints(ca=True, path_length=None)))
    private = server_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAMES[0])])
    server.write_bytes(
        signed(subject, server_key, x509.SubjectAlternativeName([x509.DNSName(name) for name in NAMES])) + private
    )
    return authority, server
