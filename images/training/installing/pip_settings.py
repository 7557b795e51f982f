"""pip's configuration as environment variables of uv, which reads neither pip.conf nor PIP_*.

Each option of pip is in one of three tables: uv has a variable for it, it changes nothing of what is installed, or uv
has no counterpart. An option that is in no table counts as the last. Then pip has to do the work.
"""

from __future__ import annotations

import ast
import os
import ssl
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: `pip config list` prints `SECTION.OPTION='VALUE'`. A later section overrides an earlier one, as in pip.
SECTIONS = ("global", "install", ":env:")
#: Options whose value is a list, separated by blanks, and what separates uv's.
LISTS = {
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "constraint": ("UV_CONSTRAINT", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
}
VALUES = {
    "index-url": ("UV_DEFAULT_INDEX",),
    "cert": ("SSL_CERT_FILE",),
    "client-cert": ("SSL_CLIENT_CERT",),
    "timeout": ("UV_HTTP_TIMEOUT",),
    "default-timeout": ("UV_HTTP_TIMEOUT",),
    "retries": ("UV_HTTP_RETRIES",),
    "proxy": ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"),
    "uploaded-prior-to": ("UV_EXCLUDE_NEWER",),
}
#: Flags, with the variable of uv and its value.
FLAGS = {
    "no-cache-dir": ("UV_NO_CACHE", "1"),
    "require-hashes": ("UV_REQUIRE_HASHES", "1"),
    "pre": ("UV_PRERELEASE", "allow"),
    "compile": ("UV_COMPILE_BYTECODE", "1"),
}
#: Options that change neither what is installed nor where it comes from.
HARMLESS = frozenset(
    {
        "break-system-packages", "cache-dir", "debug", "disable-pip-version-check", "exists-action", "log", "no-cache",
        "no-color", "no-compile", "no-input", "no-python-version-warning", "no-warn-conflicts",
        "no-warn-script-location", "prefer-binary", "progress-bar", "quiet", "require-virtualenv", "root-user-action",
        "upgrade-strategy", "use-pep517", "verbose",
    }
)  # fmt: skip
#: Variables that name certificates for requests, which pip is built on, in its order.
CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_FALSE = frozenset({"", "0", "false", "no", "off", "n", "f"})


@dataclass
class Translation:
    #: Environment variables for uv.
    variables: dict[str, str] = field(default_factory=dict)
    #: Options of pip that uv has no counterpart for.
    untranslated: list[str] = field(default_factory=list)


def read(python: str, run: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run) -> dict[str, str]:
    """Returns the options that pip's files and PIP_* set for `pip install`, by name, as `pip config list` knows them.

    Without pip it is empty: nobody configures what is not there.
    """
    command = [python, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    done = run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return options_of(done.stdout.splitlines()) if done.returncode == 0 else {}


def options_of(lines: Iterable[str]) -> dict[str, str]:
    """Returns the options of `pip config list`. Empty values do not count, as in pip."""
    by_section: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for line in lines:
        name, equals, value = line.partition("=")
        section, _, option = name.rpartition(".")
        if equals and section in by_section:
            by_section[section][option] = str(ast.literal_eval(value))
    merged = {name: value for section in SECTIONS for name, value in by_section[section].items() if value.strip()}
    return {name.replace("_", "-"): value for name, value in merged.items()}


def translate(options: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> Translation:
    """Returns pip's options as variables of uv. A variable of uv that the user has set goes before."""
    result = Translation()
    for name, value in sorted(options.items()):
        if not _translate(name, value, result.variables) and name not in HARMLESS:
            result.untranslated.append(name)
    # pip takes the best version of all indexes; uv would look at the first one that has the package.
    result.variables["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    _trust(result.variables, environ)
    result.variables = {name: value for name, value in result.variables.items() if not _is_the_users(name, environ)}
    return result


def _translate(name: str, value: str, variables: dict[str, str]) -> bool:
    if name in LISTS:
        variable, separator = LISTS[name]
        words = [word for word in value.split() if name == "trusted-host" or _exists(word)]
        variables.update({variable: separator.join(words)} if words else {})
    elif name in VALUES:
        variables.update(dict.fromkeys(VALUES[name], value))
    elif name in FLAGS:
        variable, setting = FLAGS[name]
        variables.update({variable: setting} if value.lower() not in _FALSE else {})
    else:
        return False
    return True


def _exists(place: str) -> bool:
    """False for a directory or file that is not there: pip passes over it, and uv would fail."""
    address = urlsplit(place)
    if address.scheme == "file":
        return Path(unquote(address.path)).exists()
    return bool(address.scheme) or Path(place).exists()


def _trust(variables: dict[str, str], environ: Mapping[str, str]) -> None:
    """Certificates as pip knows them: its own option, those of requests, then those of the system."""
    named = next((environ[name] for name in CERTIFICATES if environ.get(name)), None)
    if "SSL_CERT_FILE" not in variables and named is not None and Path(named).is_file():
        variables["SSL_CERT_FILE"] = named
    paths = ssl.get_default_verify_paths()
    if any(place and Path(place).exists() for place in (paths.openssl_cafile, "/etc/ssl/certs/ca-certificates.crt")):
        # The first is the name in releases of uv before 0.10.
        variables.update(UV_NATIVE_TLS="1", UV_SYSTEM_CERTS="1")


def _is_the_users(name: str, environ: Mapping[str, str]) -> bool:
    return name.startswith("UV_") and bool(environ.get(name))


def words_for_uv(arguments: Sequence[str]) -> list[str]:
    """Returns arguments of pip for `uv pip`, which knows all others by the same names and asks no questions."""
    # uv's --index-url comes after UV_DEFAULT_INDEX, and pip's before PIP_INDEX_URL.
    names = {"--index-url": "--default-index"}
    return [names.get(word, word) for word in arguments if word != "--yes"]
