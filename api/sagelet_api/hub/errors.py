"""The Hub's refusals. Clients read the status and two headers, and show the message.

Source: huggingface_hub, `hf_raise_for_status`. Clients from before it (2022) show the reason phrase of the status line,
so that has the same text.
"""

from sagelet_engine.hub.names import MAIN, Kind, is_revision

_FLAG = {Kind.MODEL: "", Kind.DATASET: " --dataset", Kind.SPACE: " --space"}


class HubError(Exception):
    """A refusal. `code`: of the header X-Error-Code; empty for none."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def no_repository(kind: Kind, repository: str) -> HubError:
    return HubError(
        404,
        "RepoNotFound",
        f"sagelet's hub has no {kind.singular} {repository}: add it with `{adding(kind, repository)}`, or have the job "
        "ask the real Hub by Environment={'HF_ENDPOINT': 'https://huggingface.co'}",
    )


def no_revision(kind: Kind, repository: str, revision: str) -> HubError:
    remedy = f"add it with `{adding(kind, repository, revision)}`" if is_revision(revision) else "that names none"
    return HubError(
        404,
        "RevisionNotFound",
        f"sagelet's hub has the {kind.singular} {repository}, but no revision {revision}: {remedy}",
    )


def no_entry(kind: Kind, repository: str, path: str) -> HubError:
    return HubError(
        404,
        "EntryNotFound",
        f"The {kind.singular} {repository} in sagelet's hub has no file {path}: add the repository again, with it, by "
        f"`{adding(kind, repository)}`",
    )


def no_such_path(path: str) -> HubError:
    return HubError(404, "", f"sagelet's hub has the Hub's read API of repositories, which {path} is not part of")


def read_only(method: str) -> HubError:
    return HubError(405, "", f"sagelet's hub is read only ({method}): `sagelet hub add` adds repositories")


def adding(kind: Kind, repository: str, revision: str = MAIN) -> str:
    """Returns the command that adds the repository."""
    flag = "" if revision == MAIN else f" --revision {revision}"
    return f"sagelet hub add DIR --as {repository}{_FLAG[kind]}{flag}"
