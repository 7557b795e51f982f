"""A second evaluation of IAM's policies, written from AWS's page on the logic and as plainly as possible
(docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html). It decides one request of which
everything is known, with a known answer to each condition.
"""

from collections.abc import Callable, Sequence
from typing import Any

Statement = dict[str, Any]
#: A policy is the list of its statements.
Policy = Sequence[Statement]


def decide(layers: Sequence[Sequence[Policy]], action: str, resource: str, holds: Callable[[Statement], bool]) -> bool:
    """Returns True if the request is allowed. `holds`: the answer to a statement's conditions."""
    applying = [
        [one for policy in layer for one in policy if _applies(one, action, resource) and holds(one)]
        for layer in layers
    ]
    if any(one["Effect"] == "Deny" for layer in applying for one in layer):
        return False
    return all(any(one["Effect"] == "Allow" for one in layer) for layer in applying)


def _applies(statement: Statement, action: str, resource: str) -> bool:
    if "NotAction" in statement:
        of_action = not _any(statement["NotAction"], action, fold=True)
    else:
        of_action = _any(statement["Action"], action, fold=True)
    if "NotResource" in statement:
        return of_action and not _any(statement["NotResource"], resource, fold=False)
    return of_action and _any(statement["Resource"], resource, fold=False)


def _any(patterns: str | list[str], text: str, *, fold: bool) -> bool:
    listed = [patterns] if isinstance(patterns, str) else patterns
    return any(glob(one.lower(), text.lower()) if fold else glob(one, text) for one in listed)


def glob(pattern: str, text: str) -> bool:
    """True if the pattern matches: `*` any characters, `?` any one character."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(glob(pattern[1:], text[start:]) for start in range(len(text) + 1))
    return bool(text) and pattern[0] in ("?", text[0]) and glob(pattern[1:], text[1:])
