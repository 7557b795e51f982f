BEGIN TRANSACTION;
CREATE TABLE buckets (
        name TEXT PRIMARY KEY, account TEXT NOT NULL, region TEXT NOT NULL, created_ms INTEGER NOT NULL
    );
INSERT INTO "buckets" VALUES('bucket-123456789012','123456789012','us-east-1',1795634555451);
INSERT INTO "buckets" VALUES('bucket-210987654321','210987654321','eu-west-1',1795634555555);
CREATE TABLE completions (
        upload_id TEXT PRIMARY KEY,
        bucket TEXT NOT NULL REFERENCES buckets (name) ON DELETE CASCADE, key BLOB NOT NULL,
        named TEXT NOT NULL, file_id TEXT NOT NULL, size INTEGER NOT NULL, etag TEXT NOT NULL,
        completed_ms INTEGER NOT NULL, record TEXT NOT NULL
    ) WITHOUT ROWID;
INSERT INTO "completions" VALUES('129ec17db3df448c8df8dfb1c18b6706129ec17db3df448c8df8dfb1c18b6706','bucket-123456789012',X'612F62','a8fc45e3329f22c235a097bc0a74bac9681298600fefe624213e7907ee22fcac','bb675e84bc844debbb230a3e55488da4',5,'c82c5860a0e2b9020b1a9af4cff67c34-1',1795634555536,'{"attributes": {}, "checksums": {}, "checksum_type": "FULL_OBJECT", "tags": {}, "parts": []}');
INSERT INTO "completions" VALUES('5ed92ae4ec3b4923a720d0fa2ab92c265ed92ae4ec3b4923a720d0fa2ab92c26','bucket-210987654321',X'612F62','a8fc45e3329f22c235a097bc0a74bac9681298600fefe624213e7907ee22fcac','500e6950533745239e309ef49052768b',5,'c82c5860a0e2b9020b1a9af4cff67c34-1',1795634555682,'{"attributes": {}, "checksums": {}, "checksum_type": "FULL_OBJECT", "tags": {}, "parts": []}');
CREATE TABLE configuration (
        bucket TEXT NOT NULL REFERENCES buckets (name) ON DELETE CASCADE,
        kind TEXT NOT NULL, id TEXT NOT NULL, document TEXT NOT NULL, PRIMARY KEY (bucket, kind, id)
    ) WITHOUT ROWID;
INSERT INTO "configuration" VALUES('bucket-123456789012','policy','','null');
INSERT INTO "configuration" VALUES('bucket-123456789012','tagging','','{"TagSet": [{"Key": "k", "Value": "\u00fc"}]}');
INSERT INTO "configuration" VALUES('bucket-210987654321','policy','','null');
INSERT INTO "configuration" VALUES('bucket-210987654321','tagging','','{"TagSet": [{"Key": "k", "Value": "\u00fc"}]}');
CREATE TABLE objects (
        id INTEGER PRIMARY KEY,
        bucket TEXT NOT NULL REFERENCES buckets (name), key BLOB NOT NULL,
        file_id TEXT NOT NULL UNIQUE, path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, etag TEXT NOT NULL,
        modified_ms INTEGER NOT NULL, linked_ns INTEGER, record TEXT NOT NULL,
        UNIQUE (bucket, key)
    );
INSERT INTO "objects" VALUES(1,'bucket-123456789012',X'61','331d3c37924741fa9c05ebf5dd5d0253','bucket-123456789012/a',1,'0cc175b9c0f1b6a831c399e269772661',1795634555468,NULL,'{"attributes": {"ContentType": "text/plain", "Metadata": {"m": "1"}}, "checksums": {"CRC32": "6Le+Qw=="}, "checksum_type": "FULL_OBJECT", "tags": {"t": "a"}, "parts": []}');
INSERT INTO "objects" VALUES(2,'bucket-123456789012',X'612F62','bb675e84bc844debbb230a3e55488da4','.escaped/bucket-123456789012/a%2Fb',5,'c82c5860a0e2b9020b1a9af4cff67c34-1',1795634555536,NULL,'{"attributes": {}, "checksums": {}, "checksum_type": "FULL_OBJECT", "tags": {}, "parts": [{"number": 1, "size": 5, "checksums": {}}]}');
INSERT INTO "objects" VALUES(3,'bucket-123456789012',X'642F2F00C3BC','455ec702d8694663a8acb3305255ded8','.escaped/bucket-123456789012/d%2F%2F%00%C3%BC',6,'b814b8b0dcbc1abc4b94ee3d0de543d6',1795634555504,NULL,'{"attributes": {"ContentType": "text/plain", "Metadata": {"m": "1"}}, "checksums": {"CRC32": "u2eQeA=="}, "checksum_type": "FULL_OBJECT", "tags": {"t": "d"}, "parts": []}');
INSERT INTO "objects" VALUES(4,'bucket-210987654321',X'61','3e875b5f38534e83a3162fbe0a72449a','bucket-210987654321/a',1,'0cc175b9c0f1b6a831c399e269772661',1795634555576,NULL,'{"attributes": {"ContentType": "text/plain", "Metadata": {"m": "1"}}, "checksums": {"CRC32": "6Le+Qw=="}, "checksum_type": "FULL_OBJECT", "tags": {"t": "a"}, "parts": []}');
INSERT INTO "objects" VALUES(5,'bucket-210987654321',X'612F62','500e6950533745239e309ef49052768b','.escaped/bucket-210987654321/a%2Fb',5,'c82c5860a0e2b9020b1a9af4cff67c34-1',1795634555682,NULL,'{"attributes": {}, "checksums": {}, "checksum_type": "FULL_OBJECT", "tags": {}, "parts": [{"number": 1, "size": 5, "checksums": {}}]}');
INSERT INTO "objects" VALUES(6,'bucket-210987654321',X'642F2F00C3BC','632b6d82c85e404ab66c997102dc2778','.escaped/bucket-210987654321/d%2F%2F%00%C3%BC',6,'b814b8b0dcbc1abc4b94ee3d0de543d6',1795634555615,NULL,'{"attributes": {"ContentType": "text/plain", "Metadata": {"m": "1"}}, "checksums": {"CRC32": "u2eQeA=="}, "checksum_type": "FULL_OBJECT", "tags": {"t": "d"}, "parts": []}');
CREATE TABLE parts (
        upload_id TEXT NOT NULL REFERENCES uploads (id) ON DELETE CASCADE, number INTEGER NOT NULL,
        size INTEGER NOT NULL, etag TEXT NOT NULL, modified_ms INTEGER NOT NULL, checksums TEXT NOT NULL,
        file_id TEXT, PRIMARY KEY (upload_id, number)
    ) WITHOUT ROWID;
INSERT INTO "parts" VALUES('703e6489102040c48428428503096bb4703e6489102040c48428428503096bb4',1,4,'f4c9385f1902f7334b00b9b4ecd164de',1795634555641,'{}',NULL);
INSERT INTO "parts" VALUES('fada0c26c74d4ddb824feb07cde1a974fada0c26c74d4ddb824feb07cde1a974',1,4,'f4c9385f1902f7334b00b9b4ecd164de',1795634555519,'{}',NULL);
CREATE TABLE uploads (
        id TEXT PRIMARY KEY,
        bucket TEXT NOT NULL REFERENCES buckets (name) ON DELETE CASCADE, key BLOB NOT NULL,
        file_id TEXT NOT NULL UNIQUE, initiated_ms INTEGER NOT NULL, slot INTEGER, record TEXT NOT NULL
    );
INSERT INTO "uploads" VALUES('fada0c26c74d4ddb824feb07cde1a974fada0c26c74d4ddb824feb07cde1a974','bucket-123456789012',X'7570','fd308126b05a4af6b0c5fb7001b60fa7',1795634555510,4,'{"attributes": {}, "tags": {}, "checksum_algorithm": null, "checksum_type": null}');
INSERT INTO "uploads" VALUES('703e6489102040c48428428503096bb4703e6489102040c48428428503096bb4','bucket-210987654321',X'7570','880579519b7846fa931410716196e9c0',1795634555622,4,'{"attributes": {}, "tags": {}, "checksum_algorithm": null, "checksum_type": null}');
CREATE INDEX buckets_by_account ON buckets (account, name);
CREATE INDEX uploads_by_key ON uploads (bucket, key, id);
CREATE INDEX completions_by_bucket ON completions (bucket);
CREATE INDEX completions_by_age ON completions (completed_ms);
COMMIT;
PRAGMA user_version = 3;
