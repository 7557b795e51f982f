"""SQL of what IAM holds: a row each for a user, role, policy, access key, and so on, as JSON that the API writes."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from sagelet_engine.base.failpoints import Failpoint, failpoint

Rows = Callable[[str, Sequence[Any]], list[Any]]
Write = Callable[[], AbstractContextManager[sqlite3.Connection]]

TABLES = """
    CREATE TABLE iam (
        account TEXT NOT NULL, partition TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, record TEXT NOT NULL,
        PRIMARY KEY (account, partition, kind, name)
    ) WITHOUT ROWID;
    """


class IamKey(NamedTuple):
    """Identifies a record within an account's IAM: `roles`, `AROA...`."""

    kind: str
    name: str


class IamRecords:
    """The records of each account's IAM. `rows` reads, `write` opens a flushed transaction."""

    def __init__(self, rows: Rows, write: Write) -> None:
        self._rows = rows
        self._write = write

    def accounts(self) -> list[tuple[str, str]]:
        """Returns accounts and partitions that have records."""
        return [
            (account, partition) for account, partition in self._rows("SELECT DISTINCT account, partition FROM iam", ())
        ]

    def of(self, account: str, partition: str) -> dict[IamKey, str]:
        rows = self._rows(
            "SELECT kind, name, record FROM iam WHERE account = ? AND partition = ?", (account, partition)
        )
        return {IamKey(kind, name): record for kind, name, record in rows}

    def change(self, account: str, partition: str, changed: Mapping[IamKey, str | None]) -> None:
        """Makes records durable, all or none of them. None removes a record."""
        gone = [(account, partition, *key) for key, record in changed.items() if record is None]
        there = [(account, partition, *key, record) for key, record in changed.items() if record is not None]
        failpoint(Failpoint.BEFORE_IAM)
        with self._write() as db:
            db.executemany("DELETE FROM iam WHERE account = ? AND partition = ? AND kind = ? AND name = ?", gone)
            db.executemany("INSERT OR REPLACE INTO iam VALUES (?, ?, ?, ?, ?)", there)
        failpoint(Failpoint.AFTER_IAM)

    def forget(self, account: str) -> None:
        """Removes all records of an account."""
        with self._write() as db:
            db.execute("DELETE FROM iam WHERE account = ?", (account,))
