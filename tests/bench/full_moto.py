"""moto_server with a bucket of very many empty objects, which it has before it serves: over HTTP that takes minutes.

full_moto.py BUCKET COUNT
"""

import sys


def key(number: int) -> str:
    return f"data/{number // 1000:03}/part-{number:06}.bin"


def main(bucket: str, count: int) -> None:
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends
    from moto.server import main as serve

    backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    backend.create_bucket(bucket, "us-east-1")
    for number in range(count):
        backend.put_object(bucket, key(number), b"")
    serve(["--port", "0"])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
