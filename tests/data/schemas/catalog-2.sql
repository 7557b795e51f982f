BEGIN TRANSACTION;
CREATE TABLE buckets (
        name TEXT PRIMARY KEY, account TEXT NOT NULL, region TEXT NOT NULL, created_ms INTEGER NOT NULL
    );
INSERT INTO "buckets" VALUES('bucket-123456789012','123456789012','us-east-1',1795397958510);
INSERT INTO "buckets" VALUES('bucket-210987654321','210987654321','eu-west-1',1795397958519);
CREATE TABLE completions (
        upload_id TEXT PRIMARY KEY,
        bucket TEXT NOT NULL REFERENCES buckets (name) ON DELETE CASCADE, key BLOB NOT NULL,
        named TEXT NOT NULL, file_id TEXT NOT NULL, size INTEGER NOT NULL, etag TEXT NOT NULL,
        completed_ms INTEGER NOT NULL, record TEXT NOT NULL
    ) WITHOUT ROWID;
INSERT INTO "completions" VALUES('34d7bbc4117a417a87e6e83d77b523f934d7bbc4117a417a87e6e83d77b523f9','bucket-210987654321',X'612F62','a8fc45e3329f22c235a097bc0a74bac9681298600fefe624213e7907ee22fcac','c70cadeb0f804878a9b400f02763dafa',5,'c82c5860a0e2b9020b1a9af4cff67c34-1',1795397958525,'{"attributes": {}, "checksums": {}, "checksum_type": "FULL_OBJECT", "tags": {}, "parts": []}');
INSERT INTO "completions" VALUES('d1d5d92bc638400398e7aa792cd54f4dd1d5d92bc638400398e7aa792cd54f4d','bucket-123456789012',X'612F62','a8fc45e3329f22c235a097bc0a74bac9681298600fefe624213e7907ee22fcac','0eaff624a2c54fbf9f754841f3ed1f88',5,'c82c5860a0e2b9020b1a9af4cff67c34-1',1795397958518,'{"attributes": {}, "checksums": {}, "checksum_type": "FULL_OBJECT", "tags": {}, "parts": []}');
CREATE TABLE objects (
        id INTEGER PRIMARY KEY,
        bucket TEXT NOT NULL REFERENCES buckets (name), key BLOB NOT NULL,
        file_id TEXT NOT NULL UNIQUE, path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, etag TEXT NOT NULL,
        modified_ms INTEGER NOT NULL, linked_ns INTEGER, record TEXT NOT NULL,
        UNIQUE (bucket, key)
    );
INSERT INTO "objects" VALUES(1,'bucket-123456789012',X'61','67fa20bd608d47f8ab2248d6489185c1','bucket-123456789012/a',1,'0cc175b9c0f1b6a831c399e269772661',1795397958512,NULL,'{"attributes": {"ContentType": "text/plain", "Metadata": {"m": "1"}}, "checksums": {"CRC32": "6Le+Qw=="}, "checksum_type": "FULL_OBJECT", "tags": {"t": "a"}, "parts": []}');
INSERT INTO "objects" VALUES(2,'bucket-123456789012',X'612F62','0eaff624a2c54fbf9f754841f3ed1f88','.escaped/bucket-123456789012/a%2Fb',5,'c82c5860a0e2b9020b1a9af4cff67c34-1',1795397958518,NULL,'{"attributes": {}, "checksums": {}, "checksum_type": "FULL_OBJECT", "tags": {}, "parts": [{"number": 1, "size": 5, "checksums": {}}]}');
INSERT INTO "objects" VALUES(3,'bucket-123456789012',X'642F2F00C3BC','07900fe5728b43a394dfdb68822de503','.escaped/bucket-123456789012/d%2F%2F%00%C3%BC',6,'b814b8b0dcbc1abc4b94ee3d0de543d6',1795397958514,NULL,'{"attributes": {"ContentType": "text/plain", "Metadata": {"m": "1"}}, "checksums": {"CRC32": "u2eQeA=="}, "checksum_type": "FULL_OBJECT", "tags": {"t": "d"}, "parts": []}');
INSERT INTO "objects" VALUES(4,'bucket-210987654321',X'61','6408a3acb081494b842546feefc55c34','bucket-210987654321/a',1,'0cc175b9c0f1b6a831c399e269772661',1795397958520,NULL,'{"attributes": {"ContentType": "text/plain", "Metadata": {"m": "1"}}, "checksums": {"CRC32": "6Le+Qw=="}, "checksum_type": "FULL_OBJECT", "tags": {"t": "a"}, "parts": []}');
INSERT INTO "objects" VALUES(5,'bucket-210987654321',X'612F62','c70cadeb0f804878a9b400f02763dafa','.escaped/bucket-210987654321/a%2Fb',5,'c82c5860a0e2b9020b1a9af4cff67c34-1',1795397958525,NULL,'{"attributes": {}, "checksums": {}, "checksum_type": "FULL_OBJECT", "tags": {}, "parts": [{"number": 1, "size": 5, "checksums": {}}]}');
INSERT INTO "objects" VALUES(6,'bucket-210987654321',X'642F2F00C3BC','3b386a7c59e442dfa581400ca8aa70d8','.escaped/bucket-210987654321/d%2F%2F%00%C3%BC',6,'b814b8b0dcbc1abc4b94ee3d0de543d6',1795397958521,NULL,'{"attributes": {"ContentType": "text/plain", "Metadata": {"m": "1"}}, "checksums": {"CRC32": "u2eQeA=="}, "checksum_type": "FULL_OBJECT", "tags": {"t": "d"}, "parts": []}');
CREATE TABLE parts (
        upload_id TEXT NOT NULL REFERENCES uploads (id) ON DELETE CASCADE, number INTEGER NOT NULL,
        size INTEGER NOT NULL, etag TEXT NOT NULL, modified_ms INTEGER NOT NULL, checksums TEXT NOT NULL,
        file_id TEXT, PRIMARY KEY (upload_id, number)
    ) WITHOUT ROWID;
INSERT INTO "parts" VALUES('426390e9524f48e4b741a73abc904cb6426390e9524f48e4b741a73abc904cb6',1,4,'f4c9385f1902f7334b00b9b4ecd164de',1795397958516,'{}',NULL);
INSERT INTO "parts" VALUES('dfbc338b365d4b348b63ebed8aff8d39dfbc338b365d4b348b63ebed8aff8d39',1,4,'f4c9385f1902f7334b00b9b4ecd164de',1795397958523,'{}',NULL);
CREATE TABLE uploads (
        id TEXT PRIMARY KEY,
        bucket TEXT NOT NULL REFERENCES buckets (name) ON DELETE CASCADE, key BLOB NOT NULL,
        file_id TEXT NOT NULL UNIQUE, initiated_ms INTEGER NOT NULL, slot INTEGER, record TEXT NOT NULL
    );
INSERT INTO "uploads" VALUES('426390e9524f48e4b741a73abc904cb6426390e9524f48e4b741a73abc904cb6','bucket-123456789012',X'7570','9d032777f4174f0aae43b1f6cfa668ad',1795397958514,4,'{"attributes": {}, "tags": {}, "checksum_algorithm": null, "checksum_type": null}');
INSERT INTO "uploads" VALUES('dfbc338b365d4b348b63ebed8aff8d39dfbc338b365d4b348b63ebed8aff8d39','bucket-210987654321',X'7570','77d1d9cb52f2418785fcc16d86cbda1f',1795397958522,4,'{"attributes": {}, "tags": {}, "checksum_algorithm": null, "checksum_type": null}');
CREATE INDEX buckets_by_account ON buckets (account, name);
CREATE INDEX uploads_by_key ON uploads (bucket, key, id);
CREATE INDEX completions_by_bucket ON completions (bucket);
CREATE INDEX completions_by_age ON completions (completed_ms);
COMMIT;
PRAGMA user_version = 2;
