"""The tables of the store, as a list of migrations."""

from sagelet_engine.store import codec
from sagelet_engine.store import iam as sql_iam
from sagelet_engine.store import logs as sql_logs
from sagelet_engine.store import metrics as sql_metrics
from sagelet_engine.store import notes as sql_notes
from sagelet_engine.store import orchestrations as sql_orchestrations
from sagelet_engine.store import pipelines as sql_pipelines
from sagelet_engine.store import registry as sql_registry

#: One entry per schema version, applied in order; `PRAGMA user_version` counts them.
MIGRATIONS = (
    """
    CREATE TABLE jobs (
        id TEXT PRIMARY KEY,
        account TEXT NOT NULL, region TEXT NOT NULL, name TEXT NOT NULL, arn TEXT NOT NULL UNIQUE,
        status TEXT NOT NULL, created_ms INTEGER NOT NULL, modified_ms INTEGER NOT NULL,
        terminal INTEGER NOT NULL, version INTEGER NOT NULL, record TEXT NOT NULL
    );
    CREATE INDEX jobs_by_creation ON jobs (account, region, created_ms, id);
    CREATE INDEX jobs_by_name ON jobs (account, region, name, id);
    CREATE INDEX jobs_by_status ON jobs (account, region, status, id);
    CREATE INDEX jobs_unfinished ON jobs (created_ms, id) WHERE terminal = 0;
    CREATE TABLE tags (
        job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
        key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (job_id, key)
    ) WITHOUT ROWID;
    CREATE TABLE log_streams (
        id INTEGER PRIMARY KEY,
        job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, host TEXT NOT NULL,
        account TEXT NOT NULL, region TEXT NOT NULL, name TEXT NOT NULL, created_ms INTEGER NOT NULL,
        position TEXT, first_ms INTEGER, last_ms INTEGER, ingested_ms INTEGER, events INTEGER NOT NULL DEFAULT 0,
        bytes INTEGER NOT NULL DEFAULT 0, UNIQUE (account, region, name)
    );
    CREATE TABLE log_events (
        stream_id INTEGER NOT NULL REFERENCES log_streams (id) ON DELETE CASCADE,
        seq INTEGER NOT NULL, time_ms INTEGER NOT NULL, ingested_ms INTEGER NOT NULL, text TEXT NOT NULL,
        PRIMARY KEY (stream_id, seq)
    ) WITHOUT ROWID;
    CREATE INDEX log_events_by_time ON log_events (stream_id, time_ms, seq);
    CREATE TABLE metric_points (
        seq INTEGER PRIMARY KEY,
        job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
        name TEXT NOT NULL, value REAL NOT NULL, time_ms INTEGER NOT NULL
    );
    CREATE INDEX metric_points_by_name ON metric_points (job_id, name, seq);
    """,
    """
    ALTER TABLE log_streams ADD COLUMN attempt INTEGER NOT NULL DEFAULT 1;
    CREATE UNIQUE INDEX log_streams_by_attempt ON log_streams (job_id, host, attempt);
    """,
    """
    CREATE INDEX jobs_by_warm_pool ON jobs (json_extract(record, '$.warm_pool.status'), account, region)
        WHERE json_extract(record, '$.warm_pool.status') IS NOT NULL;
    """,
    sql_notes.TABLES,
    f"{sql_logs.MIGRATION} {sql_metrics.MIGRATION}",
    # A search reads an index and small rows, because records have some kilobytes each, and there are thousands.
    """
    DROP INDEX jobs_by_creation;
    CREATE INDEX jobs_by_creation ON jobs (account, region, created_ms, id, status, modified_ms, name);
    CREATE TABLE hyperparameters (
        job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
        name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (job_id, name)
    ) WITHOUT ROWID;
    INSERT INTO hyperparameters
        SELECT jobs.id, given.key, given.value FROM jobs, json_each(record, '$.request.HyperParameters') AS given;
    """,
    # The host whose line a point is from; empty for points of older servers.
    "ALTER TABLE metric_points ADD COLUMN host TEXT NOT NULL DEFAULT '';",
    sql_orchestrations.MIGRATION,
    # Lists and searches are of one kind of job.
    f"""
    ALTER TABLE jobs ADD COLUMN kind TEXT NOT NULL DEFAULT 'training-job';
    DROP INDEX jobs_by_creation;
    CREATE INDEX jobs_by_creation ON jobs (account, region, kind, created_ms, id, status, modified_ms, name);
    DROP INDEX jobs_by_name;
    CREATE INDEX jobs_by_name ON jobs (account, region, kind, name, id);
    DROP INDEX jobs_by_status;
    CREATE INDEX jobs_by_status ON jobs (account, region, kind, status, id);
    {sql_logs.KINDS_MIGRATION}
    """,
    sql_pipelines.MIGRATION,
    sql_orchestrations.LIST_MIGRATION,
    codec.LIST_MIGRATION,
    sql_metrics.NOT_FINITE_MIGRATION,
    sql_iam.MIGRATION,
    f"{sql_registry.MIGRATION} {sql_pipelines.DELETIONS_MIGRATION}",
    sql_orchestrations.HISTORY_MIGRATION,
)
