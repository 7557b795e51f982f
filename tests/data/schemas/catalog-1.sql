BEGIN TRANSACTION;
CREATE TABLE buckets (
        name TEXT PRIMARY KEY, account TEXT NOT NULL, region TEXT NOT NULL, created_ms INTEGER NOT NULL
    );
INSERT INTO "buckets" VALUES('bucket-123456789012','123456789012','us-east-1',1795277664281);
INSERT INTO "buckets" VALUES('bucket-210987654321','210987654321','eu-west-1',1795277664379);
CREATE TABLE objects (
        id INTEGER PRIMARY KEY,
        bucket TEXT NOT NULL REFERENCES buckets (name), key BLOB NOT NULL,
        file_id TEXT NOT NULL UNIQUE, path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, etag TEXT NOT NULL,
        modified_ms INTEGER NOT NULL, linked_ns INTEGER, record TEXT NOT NULL,
        UNIQUE (bucket, key)
    );
INSERT INTO "objects" VALUES(1,'bucket-123456789012',X'61','215193bfa6e143c488430b0bf1a5e02f','bucket-123456789012/a',1,'0cc175b9c0f1b6a831c399e269772661',1795277664294,NULL,'{"attributes": {"ContentType": "text/plain", "Metadata": {"m": "1"}}, "checksums": {"CRC32": "6Le+Qw=="}, "checksum_type": "FULL_OBJECT", "tags": {"t": "a"}, "parts": []}');
INSERT INTO "objects" VALUES(2,'bucket-123456789012',X'612F62','143d80ebff9d4d52a8e2325257b78c3b','.escaped/bucket-123456789012/a%2Fb',3,'a7e86136543b019d72468ceebf71fb8e',1795277664314,NULL,'{"attributes": {"ContentType": "text/plain", "Metadata": {"m": "1"}}, "checksums": {"CRC32": "B/RAHA=="}, "checksum_type": "FULL_OBJECT", "tags": {"t": "a"}, "parts": []}');
INSERT INTO "objects" VALUES(3,'bucket-123456789012',X'642F2F00C3BC','2c5222d82b3547708f3201f6bbe89b6e','.escaped/bucket-123456789012/d%2F%2F%00%C3%BC',6,'b814b8b0dcbc1abc4b94ee3d0de543d6',1795277664342,NULL,'{"attributes": {"ContentType": "text/plain", "Metadata": {"m": "1"}}, "checksums": {"CRC32": "u2eQeA=="}, "checksum_type": "FULL_OBJECT", "tags": {"t": "d"}, "parts": []}');
INSERT INTO "objects" VALUES(4,'bucket-210987654321',X'61','da83c3abf4b64e3b8188c7458fa07fb3','bucket-210987654321/a',1,'0cc175b9c0f1b6a831c399e269772661',1795277664398,NULL,'{"attributes": {"ContentType": "text/plain", "Metadata": {"m": "1"}}, "checksums": {"CRC32": "6Le+Qw=="}, "checksum_type": "FULL_OBJECT", "tags": {"t": "a"}, "parts": []}');
INSERT INTO "objects" VALUES(5,'bucket-210987654321',X'612F62','6c1493df2c0d45bea9fe50fcfe2e57c5','.escaped/bucket-210987654321/a%2Fb',3,'a7e86136543b019d72468ceebf71fb8e',1795277664414,NULL,'{"attributes": {"ContentType": "text/plain", "Metadata": {"m": "1"}}, "checksums": {"CRC32": "B/RAHA=="}, "checksum_type": "FULL_OBJECT", "tags": {"t": "a"}, "parts": []}');
INSERT INTO "objects" VALUES(6,'bucket-210987654321',X'642F2F00C3BC','c4c1006412c046ffa720920e594774b5','.escaped/bucket-210987654321/d%2F%2F%00%C3%BC',6,'b814b8b0dcbc1abc4b94ee3d0de543d6',1795277664434,NULL,'{"attributes": {"ContentType": "text/plain", "Metadata": {"m": "1"}}, "checksums": {"CRC32": "u2eQeA=="}, "checksum_type": "FULL_OBJECT", "tags": {"t": "d"}, "parts": []}');
CREATE TABLE parts (
        upload_id TEXT NOT NULL REFERENCES uploads (id) ON DELETE CASCADE, number INTEGER NOT NULL,
        size INTEGER NOT NULL, etag TEXT NOT NULL, modified_ms INTEGER NOT NULL, checksums TEXT NOT NULL,
        file_id TEXT, PRIMARY KEY (upload_id, number)
    ) WITHOUT ROWID;
INSERT INTO "parts" VALUES('652f777df7504aed813445ce7e1a0c94652f777df7504aed813445ce7e1a0c94',1,4,'f4c9385f1902f7334b00b9b4ecd164de',1795277664374,'{}',NULL);
INSERT INTO "parts" VALUES('e69284c2e2004b51bf58c51095f6d420e69284c2e2004b51bf58c51095f6d420',1,4,'f4c9385f1902f7334b00b9b4ecd164de',1795277664470,'{}',NULL);
CREATE TABLE uploads (
        id TEXT PRIMARY KEY,
        bucket TEXT NOT NULL REFERENCES buckets (name) ON DELETE CASCADE, key BLOB NOT NULL,
        file_id TEXT NOT NULL UNIQUE, initiated_ms INTEGER NOT NULL, slot INTEGER, record TEXT NOT NULL
    );
INSERT INTO "uploads" VALUES('652f777df7504aed813445ce7e1a0c94652f777df7504aed813445ce7e1a0c94','bucket-123456789012',X'7570','be0b0371bbd140b2bb813405dbfba70e',1795277664351,4,'{"attributes": {}, "tags": {}, "checksum_algorithm": null, "checksum_type": null}');
INSERT INTO "uploads" VALUES('e69284c2e2004b51bf58c51095f6d420e69284c2e2004b51bf58c51095f6d420','bucket-210987654321',X'7570','133d6650da474402b1544c33601d3da6',1795277664446,4,'{"attributes": {}, "tags": {}, "checksum_algorithm": null, "checksum_type": null}');
CREATE INDEX buckets_by_account ON buckets (account, name);
CREATE INDEX uploads_by_key ON uploads (bucket, key, id);
COMMIT;
PRAGMA user_version = 1;
