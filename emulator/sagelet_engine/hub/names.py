"""What repositories, their files and their revisions may be called.

Source of the rules for repositories: huggingface_hub, `validate_repo_id`.
"""

import re
from enum import Enum

from sagelet_engine.base.errors import SageletError

#: As the main branch is called on the Hub.
MAIN = "main"
COMMIT = re.compile(r"[0-9a-f]{40}")
_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"
_REPOSITORY = re.compile(rf"(?:{_PART}/)?{_PART}", re.ASCII)
_REVISION = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_./-]{0,98}[A-Za-z0-9_])?", re.ASCII)
#: Parts of the Hub's paths: beginnings, which a repository's name cannot be, and what follows an organisation.
_BEGINNINGS = frozenset({"api", "datasets", "spaces"})
WORDS = frozenset({"revision", "tree", "paths-info", "refs", "commits"})
FILES = frozenset({"resolve", "raw"})
_LONGEST_ID, _LONGEST_PATH = 96, 1024
_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")


class UnfitName(SageletError):
    """A repository, a revision or a file cannot be called this."""


class Kind(str, Enum):
    """What a repository is; the value is its part of the Hub's paths."""

    MODEL = "models"
    DATASET = "datasets"
    #: Each metric of `evaluate` is a space.
    SPACE = "spaces"

    @property
    def singular(self) -> str:
        return self.value.removesuffix("s")


def is_repository_id(text: str) -> bool:
    """`name` or `organisation/name`."""
    fine = _REPOSITORY.fullmatch(text) is not None and len(text) <= _LONGEST_ID
    return fine and "--" not in text and ".." not in text and not text.endswith(".git")


def check_repository_id(text: str) -> str:
    """Raises UnfitName."""
    if not is_repository_id(text):
        raise UnfitName(
            f"{text!r} names no repository: NAME or ORGANISATION/NAME, up to {_LONGEST_ID} of letters, digits, "
            "'-', '_' and '.', without '--' and '..'"
        )
    return text


def check_new_repository_id(text: str) -> str:
    """As `check_repository_id`, for a new repository. Raises UnfitName."""
    first, _, second = check_repository_id(text).partition("/")
    if first in _BEGINNINGS or second in WORDS | FILES:
        raise UnfitName(f"{text!r} names no repository: the Hub's own paths have that word, so nobody would find it")
    return text


def is_revision(text: str) -> bool:
    """A branch, a tag, or a commit's number, as scripts have it of the real Hub."""
    return _REVISION.fullmatch(text) is not None and ".." not in text and "//" not in text


def check_revision(text: str) -> str:
    """Raises UnfitName."""
    if not is_revision(text):
        raise UnfitName(f"{text!r} names no revision: a branch or tag, such as {MAIN} or v1.0, or a commit's number")
    return text


def is_path(text: str) -> bool:
    """Whether a file of a repository may be called this: parts with slashes between them that lead nowhere else."""
    if not text or len(text) > _LONGEST_PATH or _CONTROL.search(text) or not _is_utf_8(text):
        return False
    return all(part not in ("", ".", "..") for part in text.split("/"))


def check_path(text: str) -> str:
    """Raises UnfitName."""
    if not is_path(text):
        raise UnfitName(f"{text!a} cannot be a file of a repository: rename it")
    return text


def _is_utf_8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
