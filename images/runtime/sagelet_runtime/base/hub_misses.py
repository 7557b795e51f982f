"""Finds what the offline hub said to a script that asked for something the hub does not have.

transformers and datasets then raise errors of their own, which speak of the real Hub. So the hub's words, with the
command that helps, follow such an error in an ErrorMessage.
"""

from __future__ import annotations

import re

#: The messages of sagelet_api.hub.errors, up to the command.
_SAID = re.compile(
    r"(sagelet's hub has (no|the) (model|dataset|space) (?P<name>[\w./-]+)"
    r"|The (model|dataset|space) (?P<owner>[\w./-]+) in sagelet's hub has no file )[^`]*`sagelet hub add [^`]*`"
)


class HubMisses:
    """Watches the output of a script for the hub's last message."""

    def __init__(self) -> None:
        self._name = ""
        self._said = ""

    def feed(self, line: str) -> None:
        said = _SAID.search(line) if "sagelet's hub has" in line else None
        if said is not None:
            self._name, self._said = said["name"] or said["owner"], said[0]

    def of(self, message: str) -> str | None:
        """Returns what the hub said about the cause of the error `message`, or None if the cause is another one."""
        return self._said if self._said and self._name.rpartition("/")[2] in message else None
