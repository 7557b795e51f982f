"""Every operation with requests made of its model, right, half right and broken: nothing is a server's error.

SAGELET_TEST_HOSTILE=N makes N requests of each operation; a failure names the seed, and SAGELET_TEST_HOSTILE_SEED=S
runs that one alone.
"""

import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from sagelet_api.protocol.s3.request import routes
from sagelet_api.protocol.validation import rule_book
from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ACCOUNT, ApiWorld
from support.hostile_bodies import TEXTS, Bodies
from support.tuning import definition, tuning_request
from support.world import IMAGE, request

COUNT = int(os.environ.get("SAGELET_TEST_HOSTILE", "150"))
ONE = os.environ.get("SAGELET_TEST_HOSTILE_SEED")
GROUP = "/aws/sagemaker/TrainingJobs"
ARN = f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:training-job/a-job"

TRAINING = (
    "CreateTrainingJob", "DescribeTrainingJob", "ListTrainingJobs", "StopTrainingJob", "UpdateTrainingJob", "Search",
    "DeleteTrainingJob", "ListTrainingJobsForHyperParameterTuningJob", "GetSearchSuggestions", "ListTags", "AddTags",
    "DeleteTags",
)  # fmt: skip
TUNING = (
    "CreateHyperParameterTuningJob", "DescribeHyperParameterTuningJob", "ListHyperParameterTuningJobs",
    "StopHyperParameterTuningJob", "DeleteHyperParameterTuningJob",
)  # fmt: skip
LOGS = (
    "DescribeLogStreams", "GetLogEvents", "FilterLogEvents", "DeleteLogStream", "DescribeLogGroups",
    "PutRetentionPolicy", "DeleteRetentionPolicy", "CreateLogGroup", "TagLogGroup", "ListTagsLogGroup",
    "UntagLogGroup", "PutLogEvents", "TagResource", "UntagResource", "ListTagsForResource",
)  # fmt: skip
METRICS = {"BatchPutMetrics": "PUT", "BatchGetMetrics": "POST"}
#: Values that lead past the first check.
KNOWN: dict[str, Any] = {
    **{name: value for name, value in request("a-job").items() if name != "TrainingJobName"},
    "TrainingJobName": "a-job",
    "ResourceArn": ARN,
    "resourceArn": f"arn:aws:logs:us-east-1:{ACCOUNT}:log-group:{GROUP}",
    "TrainingImage": IMAGE,
    "Resource": "TrainingJob",
    "logGroupName": GROUP,
    "logStreamName": "a-job/algo-1-1",
    "retentionInDays": 7,
    "TrialComponentName": "a-job-aws-training-job",
    "S3Uri": "s3://in/data",
    **{name: value for name, value in tuning_request("tune").items() if name.startswith("Hyper")},
    "TrainingJobDefinition": definition(),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiWorld]:
    bridge = MotoBridge()
    with ApiWorld(tmp_path_factory.mktemp("world"), bridge) as running:
        running.stream("a-job", ["loss=1", "a line"])
        yield running
    # What was left there is the process's, and so the next test's.
    bridge.process.forget()


def seeds() -> Iterator[int]:
    yield from (range(COUNT) if ONE is None else [int(ONE)])


def is_typed(status: int, body: bytes) -> bool:
    """Success, or one of AWS's errors in JSON: a code and a message."""
    if status == 200:
        return True
    answer = json.loads(body)
    said = answer.get("message", answer.get("Message"))
    return 400 <= status < 500 and bool(answer["__type"]) and isinstance(said, str)


OWN = [*(("sagemaker", one) for one in (*TRAINING, *TUNING)), *(("logs", one) for one in LOGS)]


@pytest.mark.parametrize(("service", "operation"), OWN)
def test_every_operation_answers_in_its_own_words(world: ApiWorld, service: str, operation: str) -> None:
    shape = rule_book(service).input_shape(operation)
    for seed in seeds():
        bodies = Bodies(seed, KNOWN)
        data = bodies.encoded(bodies.of(shape))
        target = {"sagemaker": "SageMaker", "logs": "Logs_20140328"}[service]
        status, _, body = world.ask("POST", "/", data, service=service, x_amz_target=f"{target}.{operation}")
        assert is_typed(status, body), f"seed {seed}: {status} {body[:500]!r} for {data[:2000]!r}"


@pytest.mark.parametrize("operation", METRICS)
def test_every_metrics_operation_answers_in_its_own_words(world: ApiWorld, operation: str) -> None:
    shape = rule_book("sagemaker-metrics").input_shape(operation)
    for seed in seeds():
        bodies = Bodies(seed, KNOWN)
        data = bodies.encoded(bodies.of(shape))
        status, _, body = world.ask(METRICS[operation], f"/{operation}", data, service="sagemaker")
        assert is_typed(status, body), f"seed {seed}: {status} {body[:500]!r} for {data[:2000]!r}"


def test_identity_answers_any_form(world: ApiWorld) -> None:
    for seed in seeds():
        chance = random.Random(seed)
        fields = [("Action", "GetCallerIdentity")] * chance.randrange(3)
        fields += [(chance.choice(TEXTS), chance.choice(TEXTS)) for _ in range(chance.randrange(4))]
        chance.shuffle(fields)
        data = urlencode(fields).encode() if chance.random() < 0.8 else chance.randbytes(50)
        form = "application/x-www-form-urlencoded"
        status, _, body = world.ask("POST", "/", data, service="sts", content_type=form)
        assert status == 200 or (400 <= status < 500 and b"<Code>" in body), f"seed {seed}: {status} {body[:500]!r}"


# --- S3 ---------------------------------------------------------------------------------------------------------------

KEYS = (
    "k", "a/b", "..", "../x", "a/../../x", "/", "//", "/etc/passwd", ".", "./a", "a/.", "a/", "a//b", "\0", "a\0b",
    "k" * 1024, "k" * 1025, "\u00fc" * 512, "\u00fc" * 513, "e\u0301", "\u00e9", "%2e%2e/x", "%", "a%00b", "con",
    "nul.txt", "a. ", "a ", " a", "~", "-rf", "$(id)", "`id`", "\r\n", "\x1b[2J", "\x7f", "\u202e", "\ufeff", "\ud7ff",
    "\U0010ffff", "a\\b", ".escaped/x", ".escaped", "s3.db", "?versionId=1", "#", "&", "+", "a b", "x/" * 512, "K",
    "a" * 256, "a/" + "b" * 300 + "/c", ".tmp", ".sagelet", "catalog.db",
)  # fmt: skip
VALUES = (
    "",
    "0",
    "-1",
    "1",
    "10001",
    "9" * 30,
    "a",
    "null",
    "%00",
    "\u00fc",
    "../x",
    "bytes=0-",
    "bytes=-",
    "bytes=5-1",
    "bytes=0-0,2-3",
    *TEXTS,
)
HEADERS = (
    "range", "if-match", "if-none-match", "if-modified-since", "content-md5", "x-amz-checksum-crc32",
    "x-amz-copy-source", "x-amz-copy-source-range", "x-amz-tagging", "x-amz-storage-class", "x-amz-acl",
    "x-amz-meta-a", "content-type", "expires", "x-amz-decoded-content-length", "content-encoding",
    "x-amz-content-sha256", "x-amz-trailer", "x-amz-sdk-checksum-algorithm", "x-amz-metadata-directive",
    "x-amz-object-attributes", "x-amz-expected-bucket-owner", "x-amz-mp-object-size",
)  # fmt: skip
XML = (
    b"", b"<", b"<a/>", b"x" * 1000, b"<Delete><Object><Key>k</Key></Object></Delete>",
    b"<Delete>" + b"<Object/>" * 1001 + b"</Delete>",
    b"<CompleteMultipartUpload><Part><PartNumber>9999999999999</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>",
    b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><Delete><Object><Key>&x;</Key></Object></Delete>',
    b'<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><Delete><Object><Key>&b;</Key></Object></Delete>',
    b"<Delete><Object><Key>\xff</Key></Object></Delete>", b"<Delete><Object><Key>&#0;</Key></Object></Delete>",
    b"<a>" * 5000, b"5;chunk-signature=0\r\nhello\r\n0;chunk-signature=0\r\n\r\n", b"-5\r\nhello\r\n",
    b"fffffffff\r\nx", b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>",
)  # fmt: skip


BUCKETS = ("bucket", "bucket", "bucket", "no-such", "..", "BUCKET", "b", "x" * 64, "a\0b", "-", "127.0.0.1")
QUERY = ("max-keys", "prefix", "delimiter", "marker", "encoding-type", "partNumber", "uploadId", "versionId")


def test_s3_answers_any_request(world: ApiWorld) -> None:
    world.client("s3").create_bucket(Bucket="bucket")
    table = [route for entries in routes().values() for route in entries]
    for seed in range(COUNT * 10) if ONE is None else [int(ONE)]:
        chance = random.Random(seed)
        route = chance.choice(table)
        bucket = chance.choice(BUCKETS)
        path = "/" if route.depth == 0 else f"/{bucket}" if route.depth == 1 else f"/{bucket}/{chance.choice(KEYS)}"
        query = {name: chance.choice(VALUES) if value is None else value for name, value in route.query}
        query |= {chance.choice(QUERY): chance.choice(VALUES) for _ in range(chance.randrange(3))}
        names = (*route.headers, *chance.sample(HEADERS, chance.randrange(4)))
        headers = {name.replace("-", "_"): header(chance.choice(VALUES)) for name in names}
        data = chance.choice(XML) if route.method in ("PUT", "POST") else b""
        encoded = urlencode(query, quote_via=quote)
        status, _, body = world.ask(route.method, path, data, service="s3", query=encoded, **headers)
        told = (
            f"seed {seed}: {status} {body[:500]!r} for {route.operation} {path[:99]!r} {query} {headers} {data[:99]!r}"
        )
        assert status < 400 or route.method == "HEAD" or b"<Code>" in body, told
        assert status < 500 or status == 501, told


def header(text: str) -> str:
    """As the server hands it on: without what it refuses itself."""
    return re.sub(r"[\0-\x08\x0a-\x1f\x7f]", "", text).strip().encode().decode("latin-1")


def outside(world: ApiWorld) -> set[Path]:
    """What there is beside the object store; a database comes and goes with its log."""
    data = world.settings.data
    found = {path for path in data.parent.rglob("*") if not path.is_relative_to(data / "s3")}
    return {path for path in found if "sagelet.db" not in path.name}


def test_keys_are_kept_as_they_are(world: ApiWorld) -> None:
    """Each key is an object of its own, comes back in the list as it was sent, and no file is outside of the store."""
    s3 = world.client("s3")
    s3.create_bucket(Bucket="odd-keys")
    before = outside(world)
    kept = [key for key in KEYS if 0 < len(key.encode()) <= 1024]
    for number, key in enumerate(kept):
        status, _, body = world.ask("PUT", f"/odd-keys/{key}", str(number).encode(), service="s3")
        assert status == 200, (key, body)
    for number, key in enumerate(kept):
        assert world.ask("GET", f"/odd-keys/{key}", b"", service="s3")[2] == str(number).encode(), key
    page = s3.list_objects_v2(Bucket="odd-keys")
    assert sorted(entry["Key"] for entry in page["Contents"]) == sorted(kept)
    assert outside(world) == before
    for key in ("k" * 1025, "\u00fc" * 513):
        status, _, body = world.ask("PUT", f"/odd-keys/{key}", b"", service="s3")
        assert (status, b"<Code>KeyTooLongError</Code>" in body) == (400, True)


# --- what goes to moto --------------------------------------------------------------------------------------------

OTHERS = {
    "dynamodb": ("DynamoDB_20120810", "1.0", ("CreateTable", "PutItem", "Query", "UpdateItem")),
    "events": ("AWSEvents", "1.1", ("PutRule", "PutTargets", "PutEvents", "DescribeRule")),
    "ecr": ("AmazonEC2ContainerRegistry_V20150921", "1.1", ("CreateRepository", "PutImage", "DescribeImages")),
    "sagemaker": ("SageMaker", "1.1", ("CreateModel", "CreateExperiment", "CreateEndpointConfig", "DescribeModel")),
    "logs": ("Logs_20140328", "1.1", ("PutMetricFilter", "PutSubscriptionFilter", "StartQuery")),
}


@pytest.mark.parametrize("service", OTHERS)
def test_what_goes_to_moto_ends_in_an_aws_error(world: ApiWorld, service: str) -> None:
    """moto fails at much of this; its caller gets an error that an SDK can read, and the server goes on."""
    prefix, version, operations = OTHERS[service]
    for operation in operations:
        shape = rule_book(service).input_shape(operation)
        for seed in range(COUNT // 10) if ONE is None else [int(ONE)]:
            bodies = Bodies(seed, {})
            data = bodies.encoded(bodies.of(shape))
            status, _, body = world.ask(
                "POST", "/", data, service=service, x_amz_target=f"{prefix}.{operation}",
                content_type=f"application/x-amz-json-{version}",
            )  # fmt: skip
            if status >= 300:
                answer = json.loads(body)
                assert "__type" in answer, f"{operation}, seed {seed}: {status} {body[:500]!r}"
