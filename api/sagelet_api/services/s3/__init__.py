"""S3's REST API on the object store `sagelet_engine.s3`."""
