"""Rules for names of repositories, files and revisions.

Source of the rules for repositories: huggingface_hub, `validate_repo_id`.
"""

import re
from enum import Enum

from sagelet_engine.base.errors import SageletError

#: The Hub's name of the main branch.
MAIN = "main"
COMMIT = re.compile(r"[0-9a-f]{40}")
_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"
_REPOSITORY = re.compile(rf"(?:{_PART}/)?{_PART}", re.ASCII)
_REVISION = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_./-]{0,98}[A-Za-z0-9_])?", re.ASCII)
#: Parts of the Hub's paths: beginnings, which cannot be a repository's name, and parts that follow an organization.
_BEGINNINGS = frozenset({"api", "datasets", "spaces"})
WORDS = frozenset({"revision", "tree", "paths-info", "refs", "commits"})
FILES = frozenset({"resolve", "raw"})
_LONGEST_ID, _LONGEST_PATH = 96, 1024
_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")


class UnfitName(SageletError):
    """A repository, a revision or a file cannot have this name."""


class Kind(str, Enum):
    """The kind of a repository. The value is its part of the Hub's paths."""

    MODEL = "models"
    DATASET = "datasets"
    #: Each metric of `evaluate` is a space.
    SPACE = "spaces"

    @property
    def singular(self) -> str:
        return self.value.removesuffix("s")


def is_repository_id(text: str) -> bool:
    """True for `name` or `organisation/name`."""
    fine = _REPOSITORY.fullmatch(text) is not None and len(text) <= _LONGEST_ID
    return fine and "--" not in text and ".." not in text and not text.endswith(".git")


def check_repository_id(text: str) -> str:
    """Returns a valid id of a repository. Raises UnfitName."""
    if not is_repository_id(text):
        raise UnfitName(
            f"{text!r} is not the name of a repository: NAME or ORGANISATION/NAME, up to {_LONGEST_ID} of letters, "
            "digits, '-', '_' and '.', without '--' and '..'"
        )
    return text


def check_new_repository_id(text: str) -> str:
    """Returns a valid id for a new repository, which is stricter than `check_repository_id`. Raises UnfitName."""
    first, _, second = check_repository_id(text).partition("/")
    if first in _BEGINNINGS or second in WORDS | FILES:
        raise UnfitName(
            f"{text!r} cannot be the name of a repository: the Hub's own paths have that word, so nobody would find it"
        )
    return text


def is_revision(text: str) -> bool:
    """True for a branch, a tag, or a commit's number, in the form that scripts use with the real Hub."""
    return _REVISION.fullmatch(text) is not None and ".." not in text and "//" not in text


def check_revision(text: str) -> str:
    """Returns a valid name of a revision. Raises UnfitName."""
    if not is_revision(text):
        raise UnfitName(
            f"{text!r} is not the name of a revision: a branch or tag, such as {MAIN} or v1.0, or a commit's number"
        )
    return text


def is_path(text: str) -> bool:
    """True if a repository's file may have this path: parts with slashes between them that cannot lead elsewhere."""
    if not text or len(text) > _LONGEST_PATH or _CONTROL.search(text) or not _is_utf_8(text):
        return False
    return all(part not in ("", ".", "..") for part in text.split("/"))


def check_path(text: str) -> str:
    """Returns a valid path of a file. Raises UnfitName."""
    if not is_path(text):
        raise UnfitName(f"{text!a} cannot be a file of a repository: rename it")
    return text


def _is_utf_8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
