"""The tables of the store."""

from sagelet_engine.base.database import Schema
from sagelet_engine.store import iam as sql_iam
from sagelet_engine.store import logs as sql_logs
from sagelet_engine.store import metrics as sql_metrics
from sagelet_engine.store import notes as sql_notes
from sagelet_engine.store import orchestrations as sql_orchestrations
from sagelet_engine.store import pipelines as sql_pipelines
from sagelet_engine.store import registry as sql_registry

#: Lists and searches are of one kind of job. They read an index and small rows, because records have some kilobytes
#: each, and there are thousands. The last three columns are copies from the record, which every write of it makes anew.
_JOBS = """
    CREATE TABLE jobs (
        id TEXT PRIMARY KEY,
        account TEXT NOT NULL, region TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, arn TEXT NOT NULL UNIQUE,
        status TEXT NOT NULL, created_ms INTEGER NOT NULL, modified_ms INTEGER NOT NULL,
        terminal INTEGER NOT NULL, version INTEGER NOT NULL, record TEXT NOT NULL,
        secondary TEXT NOT NULL, training_end_ms INTEGER, shown TEXT
    );
    CREATE INDEX jobs_by_creation ON jobs (
        account, region, kind, created_ms, id, status, modified_ms, name, secondary, training_end_ms, shown
    );
    CREATE INDEX jobs_by_name ON jobs (account, region, kind, name, id);
    CREATE INDEX jobs_by_status ON jobs (account, region, kind, status, id);
    CREATE INDEX jobs_unfinished ON jobs (created_ms, id) WHERE terminal = 0;
    CREATE INDEX jobs_by_warm_pool ON jobs (json_extract(record, '$.warm_pool.status'), account, region)
        WHERE json_extract(record, '$.warm_pool.status') IS NOT NULL;
    CREATE TABLE tags (
        job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
        key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (job_id, key)
    ) WITHOUT ROWID;
    CREATE TABLE hyperparameters (
        job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
        name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (job_id, name)
    ) WITHOUT ROWID;
    """

#: A change is a script at the end of `migrations`. What a release wrote is never edited.
SCHEMA = Schema(
    first=17,
    tables="".join(
        (
            _JOBS,
            sql_logs.TABLES,
            sql_metrics.TABLES,
            sql_notes.TABLES,
            sql_orchestrations.TABLES,
            sql_pipelines.TABLES,
            sql_registry.TABLES,
            sql_iam.TABLES,
        )
    ),
)
