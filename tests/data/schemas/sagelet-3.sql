BEGIN TRANSACTION;
CREATE TABLE jobs (
        id TEXT PRIMARY KEY,
        account TEXT NOT NULL, region TEXT NOT NULL, name TEXT NOT NULL, arn TEXT NOT NULL UNIQUE,
        status TEXT NOT NULL, created_ms INTEGER NOT NULL, modified_ms INTEGER NOT NULL,
        terminal INTEGER NOT NULL, version INTEGER NOT NULL, record TEXT NOT NULL
    );
INSERT INTO "jobs" VALUES('12340000000000000000000000000000','123456789012','us-east-1','waits','arn:aws:sagemaker:us-east-1:123456789012:training-job/waits','InProgress',1700000000000,1700000000000,0,0,'{"key":{"account":"123456789012","region":"us-east-1","name":"waits"},"id":"12340000000000000000000000000000","request":{"TrainingJobName":"waits","AlgorithmSpecification":{"TrainingImage":"image","TrainingInputMode":"File"},"RoleArn":"arn:aws:iam::123456789012:role/SageMakerRole","HyperParameters":{"epochs":"3","text":"\"x y\" \u00fc"},"OutputDataConfig":{"S3OutputPath":"s3://bucket/out"},"ResourceConfig":{"InstanceType":"ml.m5.large","InstanceCount":1,"VolumeSizeInGB":10},"StoppingCondition":{"MaxRuntimeInSeconds":600}},"created_ms":1700000000000,"modified_ms":1700000000000,"status":"InProgress","secondary":"Starting","transitions":[{"status":"Starting","message":"Starting the training job","start_ms":1700000000000,"end_ms":null}],"training_start_ms":null,"training_end_ms":null,"attempts":[],"attempt_start_ms":null,"spot_discount":0.0,"stop_ms":null,"stop_cause":null,"verdict":null,"failure_reason":null,"placed_ms":null,"launched":false,"image":null,"gpus":[],"warm_pool":null,"stand_in":"","facts":{"training_seconds":null,"billable_seconds":null,"retained_seconds":null}}');
INSERT INTO "jobs" VALUES('12342000000000000000000000000000','123456789012','us-east-1','trains','arn:aws:sagemaker:us-east-1:123456789012:training-job/trains','InProgress',1700000000000,1700000020000,0,2,'{"key":{"account":"123456789012","region":"us-east-1","name":"trains"},"id":"12342000000000000000000000000000","request":{"TrainingJobName":"trains","AlgorithmSpecification":{"TrainingImage":"image","TrainingInputMode":"File"},"RoleArn":"arn:aws:iam::123456789012:role/SageMakerRole","HyperParameters":{"epochs":"3","text":"\"x y\" \u00fc"},"OutputDataConfig":{"S3OutputPath":"s3://bucket/out"},"ResourceConfig":{"InstanceType":"ml.m5.large","InstanceCount":1,"VolumeSizeInGB":10},"StoppingCondition":{"MaxRuntimeInSeconds":600}},"created_ms":1700000000000,"modified_ms":1700000020000,"status":"InProgress","secondary":"Training","transitions":[{"status":"Starting","message":"Starting the training job","start_ms":1700000000000,"end_ms":1700000010000},{"status":"Downloading","message":"Downloading input data","start_ms":1700000010000,"end_ms":1700000020000},{"status":"Training","message":"Training image download completed. Training in progress.","start_ms":1700000020000,"end_ms":null}],"training_start_ms":1700000010000,"training_end_ms":null,"attempts":[],"attempt_start_ms":1700000010000,"spot_discount":0.0,"stop_ms":null,"stop_cause":null,"verdict":null,"failure_reason":null,"placed_ms":1700000005000,"launched":true,"image":null,"gpus":[],"warm_pool":null,"stand_in":"","facts":{"training_seconds":null,"billable_seconds":null,"retained_seconds":null}}');
INSERT INTO "jobs" VALUES('12344000000000000000000000000000','123456789012','us-east-1','done','arn:aws:sagemaker:us-east-1:123456789012:training-job/done','Completed',1700000000000,1700000040000,1,4,'{"key":{"account":"123456789012","region":"us-east-1","name":"done"},"id":"12344000000000000000000000000000","request":{"TrainingJobName":"done","AlgorithmSpecification":{"TrainingImage":"image","TrainingInputMode":"File"},"RoleArn":"arn:aws:iam::123456789012:role/SageMakerRole","HyperParameters":{"epochs":"3","text":"\"x y\" \u00fc"},"OutputDataConfig":{"S3OutputPath":"s3://bucket/out"},"ResourceConfig":{"InstanceType":"ml.m5.large","InstanceCount":1,"VolumeSizeInGB":10},"StoppingCondition":{"MaxRuntimeInSeconds":600}},"created_ms":1700000000000,"modified_ms":1700000040000,"status":"Completed","secondary":"Completed","transitions":[{"status":"Starting","message":"Starting the training job","start_ms":1700000000000,"end_ms":1700000010000},{"status":"Downloading","message":"Downloading input data","start_ms":1700000010000,"end_ms":1700000020000},{"status":"Training","message":"Training image download completed. Training in progress.","start_ms":1700000020000,"end_ms":1700000030000},{"status":"Uploading","message":"Uploading generated training model","start_ms":1700000030000,"end_ms":1700000040000},{"status":"Completed","message":"Training job completed","start_ms":1700000040000,"end_ms":1700000040000}],"training_start_ms":1700000010000,"training_end_ms":1700000040000,"attempts":[],"attempt_start_ms":1700000010000,"spot_discount":0.0,"stop_ms":null,"stop_cause":null,"verdict":null,"failure_reason":null,"placed_ms":1700000005000,"launched":true,"image":null,"gpus":[],"warm_pool":null,"stand_in":"","facts":{"training_seconds":30,"billable_seconds":30,"retained_seconds":null}}');
INSERT INTO "jobs" VALUES('21090000000000000000000000000000','210987654321','eu-west-1','waits','arn:aws:sagemaker:eu-west-1:210987654321:training-job/waits','InProgress',1700000000000,1700000000000,0,0,'{"key":{"account":"210987654321","region":"eu-west-1","name":"waits"},"id":"21090000000000000000000000000000","request":{"TrainingJobName":"waits","AlgorithmSpecification":{"TrainingImage":"image","TrainingInputMode":"File"},"RoleArn":"arn:aws:iam::123456789012:role/SageMakerRole","HyperParameters":{"epochs":"3","text":"\"x y\" \u00fc"},"OutputDataConfig":{"S3OutputPath":"s3://bucket/out"},"ResourceConfig":{"InstanceType":"ml.m5.large","InstanceCount":1,"VolumeSizeInGB":10},"StoppingCondition":{"MaxRuntimeInSeconds":600}},"created_ms":1700000000000,"modified_ms":1700000000000,"status":"InProgress","secondary":"Starting","transitions":[{"status":"Starting","message":"Starting the training job","start_ms":1700000000000,"end_ms":null}],"training_start_ms":null,"training_end_ms":null,"attempts":[],"attempt_start_ms":null,"spot_discount":0.0,"stop_ms":null,"stop_cause":null,"verdict":null,"failure_reason":null,"placed_ms":null,"launched":false,"image":null,"gpus":[],"warm_pool":null,"stand_in":"","facts":{"training_seconds":null,"billable_seconds":null,"retained_seconds":null}}');
INSERT INTO "jobs" VALUES('21092000000000000000000000000000','210987654321','eu-west-1','trains','arn:aws:sagemaker:eu-west-1:210987654321:training-job/trains','InProgress',1700000000000,1700000020000,0,2,'{"key":{"account":"210987654321","region":"eu-west-1","name":"trains"},"id":"21092000000000000000000000000000","request":{"TrainingJobName":"trains","AlgorithmSpecification":{"TrainingImage":"image","TrainingInputMode":"File"},"RoleArn":"arn:aws:iam::123456789012:role/SageMakerRole","HyperParameters":{"epochs":"3","text":"\"x y\" \u00fc"},"OutputDataConfig":{"S3OutputPath":"s3://bucket/out"},"ResourceConfig":{"InstanceType":"ml.m5.large","InstanceCount":1,"VolumeSizeInGB":10},"StoppingCondition":{"MaxRuntimeInSeconds":600}},"created_ms":1700000000000,"modified_ms":1700000020000,"status":"InProgress","secondary":"Training","transitions":[{"status":"Starting","message":"Starting the training job","start_ms":1700000000000,"end_ms":1700000010000},{"status":"Downloading","message":"Downloading input data","start_ms":1700000010000,"end_ms":1700000020000},{"status":"Training","message":"Training image download completed. Training in progress.","start_ms":1700000020000,"end_ms":null}],"training_start_ms":1700000010000,"training_end_ms":null,"attempts":[],"attempt_start_ms":1700000010000,"spot_discount":0.0,"stop_ms":null,"stop_cause":null,"verdict":null,"failure_reason":null,"placed_ms":1700000005000,"launched":true,"image":null,"gpus":[],"warm_pool":null,"stand_in":"","facts":{"training_seconds":null,"billable_seconds":null,"retained_seconds":null}}');
INSERT INTO "jobs" VALUES('21094000000000000000000000000000','210987654321','eu-west-1','done','arn:aws:sagemaker:eu-west-1:210987654321:training-job/done','Completed',1700000000000,1700000040000,1,4,'{"key":{"account":"210987654321","region":"eu-west-1","name":"done"},"id":"21094000000000000000000000000000","request":{"TrainingJobName":"done","AlgorithmSpecification":{"TrainingImage":"image","TrainingInputMode":"File"},"RoleArn":"arn:aws:iam::123456789012:role/SageMakerRole","HyperParameters":{"epochs":"3","text":"\"x y\" \u00fc"},"OutputDataConfig":{"S3OutputPath":"s3://bucket/out"},"ResourceConfig":{"InstanceType":"ml.m5.large","InstanceCount":1,"VolumeSizeInGB":10},"StoppingCondition":{"MaxRuntimeInSeconds":600}},"created_ms":1700000000000,"modified_ms":1700000040000,"status":"Completed","secondary":"Completed","transitions":[{"status":"Starting","message":"Starting the training job","start_ms":1700000000000,"end_ms":1700000010000},{"status":"Downloading","message":"Downloading input data","start_ms":1700000010000,"end_ms":1700000020000},{"status":"Training","message":"Training image download completed. Training in progress.","start_ms":1700000020000,"end_ms":1700000030000},{"status":"Uploading","message":"Uploading generated training model","start_ms":1700000030000,"end_ms":1700000040000},{"status":"Completed","message":"Training job completed","start_ms":1700000040000,"end_ms":1700000040000}],"training_start_ms":1700000010000,"training_end_ms":1700000040000,"attempts":[],"attempt_start_ms":1700000010000,"spot_discount":0.0,"stop_ms":null,"stop_cause":null,"verdict":null,"failure_reason":null,"placed_ms":1700000005000,"launched":true,"image":null,"gpus":[],"warm_pool":null,"stand_in":"","facts":{"training_seconds":30,"billable_seconds":30,"retained_seconds":null}}');
CREATE TABLE log_events (
        stream_id INTEGER NOT NULL REFERENCES log_streams (id) ON DELETE CASCADE,
        seq INTEGER NOT NULL, time_ms INTEGER NOT NULL, ingested_ms INTEGER NOT NULL, text TEXT NOT NULL,
        PRIMARY KEY (stream_id, seq)
    ) WITHOUT ROWID;
INSERT INTO "log_events" VALUES(1,0,1700000011000,1700000012000,'first line');
INSERT INTO "log_events" VALUES(1,1,1700000011001,1700000012000,'loss: 0.5 ü 😀');
INSERT INTO "log_events" VALUES(1,2,1700000011002,1700000012000,'');
INSERT INTO "log_events" VALUES(2,0,1700000011000,1700000012000,'first line');
INSERT INTO "log_events" VALUES(2,1,1700000011001,1700000012000,'loss: 0.5 ü 😀');
INSERT INTO "log_events" VALUES(2,2,1700000011002,1700000012000,'');
INSERT INTO "log_events" VALUES(3,0,1700000011000,1700000012000,'first line');
INSERT INTO "log_events" VALUES(3,1,1700000011001,1700000012000,'loss: 0.5 ü 😀');
INSERT INTO "log_events" VALUES(3,2,1700000011002,1700000012000,'');
INSERT INTO "log_events" VALUES(4,0,1700000011000,1700000012000,'first line');
INSERT INTO "log_events" VALUES(4,1,1700000011001,1700000012000,'loss: 0.5 ü 😀');
INSERT INTO "log_events" VALUES(4,2,1700000011002,1700000012000,'');
CREATE TABLE log_streams (
        id INTEGER PRIMARY KEY,
        job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, host TEXT NOT NULL,
        account TEXT NOT NULL, region TEXT NOT NULL, name TEXT NOT NULL, created_ms INTEGER NOT NULL,
        position TEXT, first_ms INTEGER, last_ms INTEGER, ingested_ms INTEGER, events INTEGER NOT NULL DEFAULT 0,
        bytes INTEGER NOT NULL DEFAULT 0, attempt INTEGER NOT NULL DEFAULT 1, UNIQUE (account, region, name)
    );
INSERT INTO "log_streams" VALUES(1,'12342000000000000000000000000000','algo-1','123456789012','us-east-1','trains/algo-1-1700000010',1700000010000,'3',1700000011000,1700000011002,1700000012000,3,27,1);
INSERT INTO "log_streams" VALUES(2,'12344000000000000000000000000000','algo-1','123456789012','us-east-1','done/algo-1-1700000010',1700000010000,'3',1700000011000,1700000011002,1700000012000,3,27,1);
INSERT INTO "log_streams" VALUES(3,'21092000000000000000000000000000','algo-1','210987654321','eu-west-1','trains/algo-1-1700000010',1700000010000,'3',1700000011000,1700000011002,1700000012000,3,27,1);
INSERT INTO "log_streams" VALUES(4,'21094000000000000000000000000000','algo-1','210987654321','eu-west-1','done/algo-1-1700000010',1700000010000,'3',1700000011000,1700000011002,1700000012000,3,27,1);
CREATE TABLE metric_points (
        seq INTEGER PRIMARY KEY,
        job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
        name TEXT NOT NULL, value REAL NOT NULL, time_ms INTEGER NOT NULL
    );
INSERT INTO "metric_points" VALUES(1,'12342000000000000000000000000000','loss',0.5,1700000011001);
INSERT INTO "metric_points" VALUES(2,'12344000000000000000000000000000','loss',0.5,1700000011001);
INSERT INTO "metric_points" VALUES(3,'21092000000000000000000000000000','loss',0.5,1700000011001);
INSERT INTO "metric_points" VALUES(4,'21094000000000000000000000000000','loss',0.5,1700000011001);
CREATE TABLE tags (
        job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
        key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (job_id, key)
    ) WITHOUT ROWID;
INSERT INTO "tags" VALUES('12340000000000000000000000000000','k','waits');
INSERT INTO "tags" VALUES('12342000000000000000000000000000','k','trains');
INSERT INTO "tags" VALUES('12344000000000000000000000000000','k','done');
INSERT INTO "tags" VALUES('21090000000000000000000000000000','k','waits');
INSERT INTO "tags" VALUES('21092000000000000000000000000000','k','trains');
INSERT INTO "tags" VALUES('21094000000000000000000000000000','k','done');
CREATE INDEX jobs_by_creation ON jobs (account, region, created_ms, id);
CREATE INDEX jobs_by_name ON jobs (account, region, name, id);
CREATE INDEX jobs_by_status ON jobs (account, region, status, id);
CREATE INDEX jobs_unfinished ON jobs (created_ms, id) WHERE terminal = 0;
CREATE INDEX log_events_by_time ON log_events (stream_id, time_ms, seq);
CREATE INDEX metric_points_by_name ON metric_points (job_id, name, seq);
CREATE UNIQUE INDEX log_streams_by_attempt ON log_streams (job_id, host, attempt);
CREATE INDEX jobs_by_warm_pool ON jobs (json_extract(record, '$.warm_pool.status'), account, region)
        WHERE json_extract(record, '$.warm_pool.status') IS NOT NULL;
COMMIT;
PRAGMA user_version = 3;
