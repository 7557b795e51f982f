"""boto3 1.26, which knows no AWS_ENDPOINT_URL and no checksums. Usage: s3_old_boto3.py DIRECTORY_OF_BOTO3 [ENDPOINT]

Without an endpoint it is as in a notebook: whoever starts it takes care of that.
"""

import base64
import hashlib
import json
import os
import sys
import urllib.request

sys.path.insert(0, sys.argv[1])
import boto3
from boto3.s3.transfer import TransferConfig

options = {"endpoint_url": sys.argv[2]} if len(sys.argv) > 2 else {}
s3 = boto3.client("s3", **options)
s3.create_bucket(Bucket="old")
with open("big", "wb") as out:
    out.write(os.urandom(11 << 20))
parts = TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20)
s3.upload_file("big", "old", "k", Config=parts, ExtraArgs={"Metadata": {"a": "b"}})
s3.download_file("old", "k", "back", Config=parts)
with open("big", "rb") as one, open("back", "rb") as two:
    same = one.read() == two.read()
digest = base64.b64encode(hashlib.md5(b"z").digest()).decode()
s3.put_object(Bucket="old", Key="ü/ x+y", Body=b"z", ContentMD5=digest)
s3.copy({"Bucket": "old", "Key": "k"}, "old", "copy")
url = s3.generate_presigned_url("get_object", Params={"Bucket": "old", "Key": "ü/ x+y"})
presigned = urllib.request.urlopen(url).read().decode()
keys = [entry["Key"] for entry in s3.list_objects(Bucket="old")["Contents"]]
metadata = s3.head_object(Bucket="old", Key="k")["Metadata"]
bucket = boto3.resource("s3", **options).Bucket("old")
bucket.objects.all().delete()
bucket.delete()
print("ANSWER", json.dumps({
    "version": boto3.__version__, "same": same, "presigned": presigned, "keys": keys, "metadata": metadata,
    "buckets": len(s3.list_buckets()["Buckets"]),
}))  # fmt: skip
