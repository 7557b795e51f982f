"""The certificate of `--tls`, signed by a certificate authority that is made with it and whose key is dropped at once.

So nobody can make another certificate that clients which trust `ca.pem` accept. Files are in `DATA/tls`: `ca.pem` for
clients (AWS_CA_BUNDLE), `server.pem` and `server.key` (mode 0600) for the server.
"""

import ipaddress
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from cheroot.ssl.builtin import BuiltinSSLAdapter

from sagelet_api.http.connection import Connection
from sagelet_api.protocol.header_rules import LOCAL_NAMES, is_address
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.base.keys import ca_file, write_private

#: Apple's programs take no certificate that is valid for longer than 825 days.
LIFETIME = timedelta(days=397)
#: A certificate that ends sooner than this is made anew at start.
RENEW_BEFORE = timedelta(days=30)
_PLAIN_TEXT = b"This port speaks HTTPS only: use https:// (sagelet up --tls)."
_PLAIN = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_PLAIN_TEXT), _PLAIN_TEXT)
)
#: The certificate is valid from a time before it was made, because the clocks of containers and of this machine may
#: differ.
_EARLIER = timedelta(hours=1)


@dataclass(frozen=True)
class Certificate:
    """The files of a server's certificate and of its private key."""

    certificate: Path
    key: Path


def server_certificate(data: Path, addresses: Sequence[str], now: datetime | None = None) -> Certificate:
    """Returns certificate and key for the server's names and `addresses`.

    Makes new ones if the existing ones do not fit. Raises SettingsError.
    """
    now = now or datetime.now(timezone.utc)
    directory = ca_file(data).parent
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        names = _names(addresses)
        certificate, key = directory / "server.pem", directory / "server.key"
        if not _serves(certificate, key, names, now):
            _make(directory, names, now)
    except OSError as error:
        raise SettingsError(f"--tls: {directory} cannot be used: {error.strerror}") from error
    return Certificate(certificate, key)


class TlsAdapter(BuiltinSSLAdapter):
    """cheroot's adapter, except that the handshake waits for the thread that serves the connection.

    cheroot's own runs in the thread that accepts, so one silent client would keep all others out.
    """

    def __init__(self, files: Certificate) -> None:
        super().__init__(str(files.certificate), str(files.key))
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2

    def wrap(self, sock: Any) -> tuple[Any, dict[str, str]]:
        wrapped = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        return wrapped, {"wsgi.url_scheme": "https", "HTTPS": "on"}


class TlsConnection(Connection):
    """Completes the handshake before its first request."""

    socket: ssl.SSLSocket
    _shaken = False
    _refusal: OSError | None = None

    def gather(self) -> bool:
        return (self._shaken or self._shake()) and (self._refusal is not None or super().gather())

    def has_pending(self) -> bool:
        return super().has_pending() or bool(self.socket.pending())

    def communicate(self) -> bool:
        if self._refusal is None:
            return super().communicate()
        if isinstance(self._refusal, ssl.SSLError) and "HTTP_REQUEST" in str(self._refusal.reason):
            # Sent unencrypted, to a client that does not speak TLS.
            socket.socket.send(self.socket, _PLAIN)
        return False

    def _shake(self) -> bool:
        """Continues the handshake as far as the client has sent it. Returns whether it is complete."""
        patience = self.socket.gettimeout()
        self.socket.settimeout(0)
        try:
            self.socket.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError as error:
            self._refusal = error
        finally:
            self.socket.settimeout(patience)
        self._shaken = True
        return True


def _names(addresses: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Returns DNS names and addresses. Buckets are names in front of the server's; OpenSSL requires two dots behind a
    wildcard.
    """
    given = LOCAL_NAMES | {one for one in addresses if one not in ("0.0.0.0", "::")}
    hosts = {name for name in given if not is_address(name)}
    dns = {f"{front}{name}" for name in hosts for front in ("", "*.", "s3.", "*.s3.")}
    return frozenset(dns), frozenset(given - hosts)


def _serves(certificate: Path, key: Path, names: tuple[frozenset[str], frozenset[str]], now: datetime) -> bool:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        private = load_pem_private_key(key.read_bytes(), None)
        found.verify_directly_issued_by(x509.load_pem_x509_certificate((key.parent / "ca.pem").read_bytes()))
        alternative = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (FileNotFoundError, ValueError, InvalidSignature, x509.ExtensionNotFound):
        return False
    dns, addresses = names
    return (
        found.public_key() == private.public_key()
        and found.not_valid_before_utc <= now
        and now + RENEW_BEFORE < found.not_valid_after_utc
        and dns <= set(alternative.get_values_for_type(x509.DNSName))
        and addresses <= {str(one) for one in alternative.get_values_for_type(x509.IPAddress)}
    )


def _make(directory: Path, names: tuple[frozenset[str], frozenset[str]], now: datetime) -> None:
    """Makes a new authority and a certificate signed by it. After a crash any file may be missing; then all are made
    again.
    """
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key, now)
    certificate = _certificate(authority, authority_key, key.public_key(), names, now)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (directory / "server.pem").unlink(missing_ok=True)
    write_private(directory / "server.key", private)
    write_private(directory / "ca.pem", authority.public_bytes(Encoding.PEM))
    # The certificate is not secret, and the containers of jobs get a copy.
    (directory / "ca.pem").chmod(0o644)
    write_private(directory / "server.pem", certificate.public_bytes(Encoding.PEM))


def _builder(subject: str, issuer: Any, public_key: Any, now: datetime) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer or name)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _authority(key: Any, now: datetime) -> Any:
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256

    builder = _builder("sagelet", None, key.public_key(), now)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return builder.add_extension(_usage(signs=True), critical=True).sign(key, SHA256())


def _certificate(
    authority: Any, authority_key: Any, key: Any, names: tuple[frozenset[str], frozenset[str]], now: datetime
) -> Any:
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509.oid import ExtendedKeyUsageOID

    dns, addresses = names
    alternative: list[x509.GeneralName] = [x509.DNSName(name) for name in sorted(dns)]
    alternative += [x509.IPAddress(ipaddress.ip_address(one)) for one in sorted(addresses)]
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    builder = _builder("sagelet server", authority.subject, key, now)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    builder = builder.add_extension(issuer_key, critical=False)
    return builder.add_extension(x509.SubjectAlternativeName(alternative), critical=False).sign(authority_key, SHA256())


def _usage(*, signs: bool) -> Any:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
