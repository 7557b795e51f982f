"""SQL of the store's notes beside the records: statuses to announce, and calls that a job's tag throttled."""

import json
import sqlite3

from sagelet_engine.model.job import Job
from sagelet_engine.store import codec

#: The database notes a status by itself, in the transaction that writes it. The note holds the record at that time.
#: Tags are read with the note, and are copied into it when the job is deleted. A faults tag that is put again counts
#: from 0 again.
TABLES = """
    CREATE TABLE noted_statuses (
        seq INTEGER PRIMARY KEY,
        job_id TEXT NOT NULL, version INTEGER NOT NULL, record TEXT NOT NULL, tags TEXT
    );
    CREATE TRIGGER note_first_status AFTER INSERT ON jobs BEGIN
        INSERT INTO noted_statuses (job_id, version, record) VALUES (new.id, new.version, new.record);
    END;
    CREATE TRIGGER note_status AFTER UPDATE OF record ON jobs
    WHEN json_array_length(new.record, '$.transitions') > json_array_length(old.record, '$.transitions') BEGIN
        INSERT INTO noted_statuses (job_id, version, record) VALUES (new.id, new.version, new.record);
    END;
    CREATE TRIGGER keep_tags BEFORE DELETE ON jobs BEGIN
        UPDATE noted_statuses SET tags = (SELECT json_group_object(key, value) FROM tags WHERE job_id = old.id)
        WHERE job_id = old.id;
    END;
    CREATE TABLE throttled_calls (
        job_id TEXT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE, calls INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TRIGGER throttle_anew_on_insert AFTER INSERT ON tags WHEN new.key = 'sagelet:fault' BEGIN
        DELETE FROM throttled_calls WHERE job_id = new.job_id;
    END;
    CREATE TRIGGER throttle_anew_on_update AFTER UPDATE ON tags WHEN new.key = 'sagelet:fault' BEGIN
        DELETE FROM throttled_calls WHERE job_id = new.job_id;
    END;
    """

_OLDEST = (
    "SELECT seq, record, version, coalesce(tags, (SELECT json_group_object(key, value) FROM tags"
    " WHERE tags.job_id = noted_statuses.job_id)) FROM noted_statuses ORDER BY seq LIMIT ?"
)
_THROTTLE = (
    "INSERT INTO throttled_calls SELECT id, 1 FROM jobs WHERE id = ?"
    " ON CONFLICT (job_id) DO UPDATE SET calls = calls + 1 WHERE calls < ?"
)


def oldest(db: sqlite3.Connection, limit: int) -> list[tuple[int, Job]]:
    """Returns the oldest noted statuses: a number that grows, and the job's record at that time."""
    rows = db.execute(_OLDEST, (limit,)).fetchall()
    return [(seq, codec.decode(record, version, json.loads(tags))) for seq, record, version, tags in rows]


def throttle(db: sqlite3.Connection, job_id: str, limit: int) -> bool:
    """Counts one more throttled call of a job. Returns False if `limit` calls were throttled already, or if the job was
    deleted meanwhile.
    """
    return db.execute(_THROTTLE, (job_id, limit)).rowcount > 0
