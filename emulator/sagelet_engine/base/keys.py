"""The key pair of a data directory. Whoever has it owns the server; `--auth` checks signatures against it.

It is a file in AWS's own format (docs.aws.amazon.com/cli/latest/userguide/cli-configure-files.html), so that
AWS_SHARED_CREDENTIALS_FILE can name it. Only its owner can read it.
"""

import base64
import hmac
import os
import secrets
import string
from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import dataclass, field
from pathlib import Path

from sagelet_engine.base.errors import SettingsError

#: In the data directory.
FILE = "credentials"
_BASE32 = string.ascii_uppercase + "234567"
#: Characters of an access key ID after its prefix, and of a secret.
_ID_LENGTH, _SECRET_LENGTH = 16, 40


def make_private(data: Path) -> None:
    """Makes a data directory that only its owner can read, because jobs have secrets in their Environment. An existing
    one stays as it is.

    Raises SettingsError.
    """
    try:
        data.parent.mkdir(parents=True, exist_ok=True)
        data.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"--data {data}: cannot be used as a directory: {error.strerror}") from error


def make_own_private(directory: Path) -> None:
    """Makes a directory inside the data directory and restricts it to its owner, even if it existed with another
    mode.
    """
    directory.mkdir(mode=0o700, exist_ok=True)
    directory.chmod(0o700)


def ca_file(data: Path) -> Path:
    """Returns the path of a data directory's certificate authority, for AWS_CA_BUNDLE. The file exists once a server
    ran with --tls.
    """
    return data / "tls" / "ca.pem"


@dataclass(frozen=True)
class KeyPair:
    """An access key. Its secret is never shown (`repr`) and never logged."""

    access_key: str
    secret: str = field(repr=False)

    def derived(self, purpose: str, *, length: int = _SECRET_LENGTH) -> str:
        """Returns base64 text that only holders of the secret can make: the HMAC-SHA256 of a purpose, up to 40
        characters.
        """
        digest = hmac.new(self.secret.encode(), purpose.encode(), "sha256").digest()
        return base64.b64encode(digest).decode()[:length]

    def derived_id(self, prefix: str, purpose: str) -> str:
        """Returns an access key ID: `prefix` and 16 characters of base32."""
        digest = hmac.new(self.secret.encode(), purpose.encode(), "sha256").digest()
        return prefix + base64.b32encode(digest).decode()[:_ID_LENGTH]


def new_key_pair() -> KeyPair:
    alphabet = string.ascii_letters + string.digits + "+/"
    identifier = "".join(secrets.choice(_BASE32) for _ in range(_ID_LENGTH))
    return KeyPair(f"AKIA{identifier}", "".join(secrets.choice(alphabet) for _ in range(_SECRET_LENGTH)))


def read_key_pair(data: Path) -> KeyPair | None:
    """Returns the key pair of a data directory, or None if it has none.

    Raises SettingsError if the file holds no key pair, or if others can read it: they would own the server.
    """
    path = data / FILE
    parser = ConfigParser(interpolation=None)
    try:
        with path.open(encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise SettingsError(f"{path} can be read by others: `chmod 600` it, or remove it and get a new key")
            parser.read_file(file)
        return KeyPair(parser["default"]["aws_access_key_id"], parser["default"]["aws_secret_access_key"])
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    except (ConfigError, KeyError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{path} holds no key pair ({type(error).__name__}): remove it and get a new one"
        ) from error


def key_pair(data: Path) -> KeyPair:
    """Returns the key pair of an existing data directory. Makes one if there is none. Raises SettingsError."""
    if (found := read_key_pair(data)) is not None:
        return found
    made = new_key_pair()
    text = f"[default]\naws_access_key_id = {made.access_key}\naws_secret_access_key = {made.secret}\n"
    write_private(data / FILE, text.encode())
    return made


def write_private(path: Path, content: bytes) -> None:
    """Writes a file of mode 0600, whole or not at all. Raises SettingsError."""
    staged = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        # The mode is set at creation, so nobody can open the file in between.
        descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            staged.replace(path)
        except BaseException:
            staged.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from error
