"""The actions and resources of requests, as policies see them."""

import json
from typing import Any

import pytest

from sagelet_api.auth import iam_resources
from sagelet_api.auth.iam_actions import PREFIXES, actions_of, prefix_of
from sagelet_api.auth.iam_resources import needed, texts_of
from sagelet_api.auth.policies import NO_RESOURCE, UNKNOWN, Policy, evaluate
from sagelet_api.protocol import botocore_parts
from sagelet_api.protocol.operation_names import models_of, signing_names

ACCOUNT, REGION = "123456789012", "us-east-1"
HERE = f"{REGION}:{ACCOUNT}"


def need(service: str, operation: str, **members: Any) -> list[tuple[str, str]]:
    return [*needed(service, operation, REGION, ACCOUNT, texts_of(members))]


@pytest.mark.parametrize(
    ("service", "operation", "action"),
    [
        ("lambda", "Invoke", "lambda:InvokeFunction"),
        ("lambda", "InvokeWithResponseStream", "lambda:InvokeFunction"),
        ("s3", "PutBucketEncryption", "s3:PutEncryptionConfiguration"),
        ("s3", "DeleteBucketEncryption", "s3:PutEncryptionConfiguration"),
        ("s3", "PutBucketLifecycleConfiguration", "s3:PutLifecycleConfiguration"),
        ("s3", "GetBucketReplication", "s3:GetReplicationConfiguration"),
        ("s3", "PutPublicAccessBlock", "s3:PutBucketPublicAccessBlock"),
        ("s3", "ListObjectsV2", "s3:ListBucket"),
        ("s3", "HeadObject", "s3:GetObject"),
        ("monitoring", "PutMetricData", "cloudwatch:PutMetricData"),
        ("sqs", "SendMessageBatch", "sqs:SendMessage"),
        ("kms", "ReEncrypt", "kms:ReEncryptFrom"),
        ("sagemaker", "BatchPutMetrics", "sagemaker:BatchPutMetrics"),
    ],
)
def test_operations_have_the_names_of_iams_actions(service: str, operation: str, action: str) -> None:
    assert actions_of(service, operation)[0].name == action


def test_every_operation_of_every_service_has_an_action_or_an_unknown_one() -> None:
    unknown: dict[str, list[str]] = {}
    for service in signing_names():
        for operation in sorted({one for model in models_of(service) for one in model.operations}):
            for action in actions_of(service, operation):
                assert action.name.startswith(f"{prefix_of(service)}:")
                assert action.known is not action.name.endswith(UNKNOWN)
                if not action.known:
                    unknown.setdefault(service, []).append(operation)
    # Operations that jobs are likely to call are all known. The others are newer than the data set, or rare.
    assert {"s3", "sts", "sqs", "sns"}.isdisjoint({name for name in unknown if len(unknown[name]) > 20})
    assert sum(map(len, unknown.values())) < 1600, unknown
    assert PREFIXES.keys() <= {*signing_names()}


@pytest.mark.parametrize(
    ("service", "operation", "members", "resources"),
    [
        ("sagemaker", "StopTrainingJob", {"TrainingJobName": "a"}, [f"arn:aws:sagemaker:{HERE}:training-job/a"]),
        ("sagemaker", "StopTrainingJob", {}, [f"arn:aws:sagemaker:{HERE}:training-job/{UNKNOWN}"]),
        ("sagemaker", "StopTrainingJob", {"TrainingJobName": "a:b"},
         [f"arn:aws:sagemaker:{HERE}:training-job/{UNKNOWN}"]),
        ("sagemaker", "ListTrainingJobs", {}, [NO_RESOURCE]),
        ("sagemaker", "AddTags", {"ResourceArn": f"arn:aws:sagemaker:{HERE}:training-job/a"},
         [f"arn:aws:sagemaker:{HERE}:training-job/a"]),
        ("sagemaker", "AddTags", {"ResourceArn": "arn:aws:sagemaker:eu-west-1:1:training-job/a"},
         [f"arn:aws:sagemaker:{HERE}:{UNKNOWN}"]),
        ("sagemaker", "AddTags", {}, [f"arn:aws:sagemaker:{HERE}:{UNKNOWN}"]),
        ("monitoring", "PutMetricData", {"Namespace": "n"}, [NO_RESOURCE]),
        ("logs", "PutLogEvents", {"logGroupName": "/g", "logStreamName": "s"},
         [f"arn:aws:logs:{HERE}:log-group:/g:log-stream:s"]),
        ("logs", "CreateLogGroup", {"logGroupName": "/g"}, [f"arn:aws:logs:{HERE}:log-group:/g:*"]),
        ("logs", "FilterLogEvents", {"logGroupName": "/g", "logGroupIdentifier": f"arn:aws:logs:{HERE}:log-group:/h"},
         [f"arn:aws:logs:{HERE}:log-group:/h:*", f"arn:aws:logs:{HERE}:log-group:/g:*"]),
        ("lambda", "Invoke", {"FunctionName": "f"}, [f"arn:aws:lambda:{HERE}:function:f"]),
        ("lambda", "Invoke", {"FunctionName": "f", "Qualifier": "1"}, [f"arn:aws:lambda:{HERE}:function:f:1"]),
        ("lambda", "Invoke", {"FunctionName": f"{ACCOUNT}:function:f:1"}, [f"arn:aws:lambda:{HERE}:function:f:1"]),
        ("lambda", "Invoke", {"FunctionName": f"arn:aws:lambda:{HERE}:function:f:1"},
         [f"arn:aws:lambda:{HERE}:function:f:1"]),
        ("lambda", "Invoke", {"FunctionName": "f:1", "Qualifier": "2"}, [f"arn:aws:lambda:{HERE}:function:{UNKNOWN}"]),
        ("lambda", "Invoke", {"FunctionName": ["f", "g"]},
         [f"arn:aws:lambda:{HERE}:function:f", f"arn:aws:lambda:{HERE}:function:g"]),
        ("sqs", "SendMessage", {"QueueUrl": f"http://localhost:4599/{ACCOUNT}/q"}, [f"arn:aws:sqs:{HERE}:q"]),
        ("sqs", "SendMessage", {"QueueUrl": f"http://localhost:4599/{ACCOUNT}/a?b/q"},
         [f"arn:aws:sqs:{HERE}:{UNKNOWN}"]),
        ("sns", "Publish", {"TopicArn": f"arn:aws:sns:{HERE}:t"}, [f"arn:aws:sns:{HERE}:t"]),
        ("sns", "Publish", {"PhoneNumber": "1"}, [f"arn:aws:sns:{HERE}:{UNKNOWN}"]),
        ("dynamodb", "GetItem", {"TableName": "t"}, [f"arn:aws:dynamodb:{HERE}:table/t"]),
        ("dynamodb", "BatchGetItem", {"RequestItems": {"t": {}}}, [f"arn:aws:dynamodb:{HERE}:table/{UNKNOWN}"]),
        ("kms", "Decrypt", {"KeyId": "alias/a"}, [f"arn:aws:kms:{HERE}:key/{UNKNOWN}"]),
        ("secretsmanager", "GetSecretValue", {"SecretId": "s"}, [f"arn:aws:secretsmanager:{HERE}:secret:s-{UNKNOWN}"]),
        ("secretsmanager", "GetSecretValue", {"SecretId": f"arn:aws:secretsmanager:{HERE}:secret:s"},
         [f"arn:aws:secretsmanager:{HERE}:secret:s{UNKNOWN}"]),
        ("iam", "GetRole", {"RoleName": "r", "Path": "/decoy/"}, [f"arn:aws:iam::{ACCOUNT}:role/{UNKNOWN}r"]),
        ("ssm", "GetParameter", {"Name": "/a/b"}, [f"arn:aws:ssm:{HERE}:parameter/a/b"]),
    ],
)  # fmt: skip
def test_the_resources_of_a_request(
    service: str, operation: str, members: dict[str, Any], resources: list[str]
) -> None:
    assert [resource for _, resource in need(service, operation, **members)] == resources


def test_resources_are_of_the_regions_partition() -> None:
    asked = [*needed("sqs", "SendMessage", "cn-north-1", ACCOUNT, texts_of({"QueueName": "q"}))]
    assert asked == [("sqs:SendMessage", f"arn:aws-cn:sqs:cn-north-1:{ACCOUNT}:q")]


def test_an_unknown_operation_needs_an_unknown_action_on_anything() -> None:
    assert need("sqs", "NewOperation", QueueName="q") == [(f"sqs:{UNKNOWN}", UNKNOWN)]
    assert need("nobody", "Knows") == [(f"nobody:{UNKNOWN}", UNKNOWN)]


def decided(statement: dict[str, Any], service: str, operation: str, **members: Any) -> bool:
    everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    text = json.dumps({"Version": "2012-10-17", "Statement": [everything, statement]})
    return all(evaluate([[Policy.parse(text)]], *one) for one in need(service, operation, **members))


@pytest.mark.parametrize(
    ("action", "resource", "service", "operation", "members"),
    [
        ("lambda:InvokeFunction", f"arn:aws:lambda:{HERE}:function:f", "lambda", "Invoke",
         {"FunctionName": "f", "Qualifier": "1"}),
        ("logs:PutLogEvents", f"arn:aws:logs:{HERE}:log-group:/g", "logs", "PutLogEvents",
         {"logGroupName": "/g", "logStreamName": "s"}),
        ("logs:*", f"arn:aws:logs:{HERE}:log-group:/g", "logs", "PutRetentionPolicy", {"logGroupName": "/g"}),
        ("kms:Decrypt", f"arn:aws:kms:{HERE}:key/1234", "kms", "Decrypt", {"KeyId": "alias/a"}),
        ("sqs:SendMessage", f"arn:aws:sqs:{HERE}:q", "sqs", "SendMessageBatch",
         {"QueueUrl": f"http://localhost/{ACCOUNT}/q"}),
        ("cloudwatch:PutMetricData", f"arn:aws:cloudwatch:{HERE}:*", "monitoring", "PutMetricData", {}),
    ],
)  # fmt: skip
def test_a_denial_of_a_resource_holds_however_the_request_names_it(
    action: str, resource: str, service: str, operation: str, members: dict[str, Any]
) -> None:
    denial = {"Effect": "Deny", "Action": action, "Resource": resource}
    assert not decided(denial, service, operation, **members)
    assert decided({**denial, "Resource": "arn:aws:s3:::other"} | {"Action": "s3:*"}, service, operation, **members)


def test_a_denial_of_another_resource_does_not_hold() -> None:
    denial = {"Effect": "Deny", "Action": "lambda:*", "Resource": f"arn:aws:lambda:{HERE}:function:f"}
    assert decided(denial, "lambda", "Invoke", FunctionName="g")
    assert decided(denial, "lambda", "ListFunctions")
    assert not decided(denial, "lambda", "Invoke", FunctionName="f")


def test_a_services_model_is_read_once_for_all_its_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    model_data = botocore_parts.model_data
    monkeypatch.setattr(botocore_parts, "model_data", lambda name: read.append(name) or model_data(name))
    iam_resources._path_of.cache_clear()
    iam_resources._templates.cache_clear()
    for operation in ("GetFunction", "ListFunctions", "DeleteFunction"):
        assert iam_resources._path_of("lambda", operation).pattern.startswith("/2015")
    assert read == ["lambda"]
