"""Evaluates IAM policies as far as the credentials of jobs need it, and holds the policy of every job.

Conditions are not evaluated: a statement with a condition allows nothing, and denies what it names. Resources count for
S3 and for roles that are assumed or passed. For other services an allowing statement about any resource allows, and a
denial counts if it names all resources.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from sagelet_api.protocol.calls import Call
from sagelet_engine.base.wire import JsonObject

#: Services whose name in policies differs from their signing name.
_PREFIXES = {"monitoring": "cloudwatch"}
#: S3's operations whose permission has another name
#: (docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html).
_S3_ACTIONS = {
    "ListBuckets": "ListAllMyBuckets",
    "ListObjects": "ListBucket",
    "ListObjectsV2": "ListBucket",
    "HeadBucket": "ListBucket",
    "ListObjectVersions": "ListBucketVersions",
    "HeadObject": "GetObject",
    "CopyObject": "PutObject",
    "CreateMultipartUpload": "PutObject",
    "UploadPart": "PutObject",
    "UploadPartCopy": "PutObject",
    "CompleteMultipartUpload": "PutObject",
    "ListParts": "ListMultipartUploadParts",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "DeleteObjects": "DeleteObject",
}
#: Actions whose resource is known when they are authorized.
_EXACT = ("s3:", "sts:AssumeRole", "iam:PassRole")


@dataclass(frozen=True)
class Element:
    """`Action` or `Resource` of a statement, or the opposite (`NotAction`). `*` and `?` are wildcards."""

    patterns: tuple[str, ...]
    negated: bool

    @classmethod
    def of(cls, statement: JsonObject, name: str) -> "Element":
        negated = f"Not{name}" in statement
        return cls(_texts(statement.get(f"Not{name}" if negated else name)), negated)

    def names(self, value: str, *, fold: bool = False) -> bool:
        """`fold`: letters in capitals are the same. A bracket is itself."""
        wanted = value.lower() if fold else value
        patterns = [(one.lower() if fold else one).replace("[", "[[]") for one in self.patterns]
        return any(fnmatchcase(wanted, one) for one in patterns) != self.negated


@dataclass(frozen=True)
class Statement:
    """A statement of a policy. Members that IAM's language does not have are left out."""

    #: `Allow` or `Deny`; any other has no effect.
    effect: object
    actions: Element
    resources: Element
    #: True if `Resource` names all resources.
    every_resource: bool
    conditional: bool

    @classmethod
    def of(cls, statement: JsonObject) -> "Statement":
        return cls(
            statement.get("Effect"),
            Element.of(statement, "Action"),
            Element.of(statement, "Resource"),
            "*" in _texts(statement.get("Resource")),
            bool(statement.get("Condition")),
        )


@dataclass(frozen=True)
class Policy:
    statements: tuple[Statement, ...]

    @classmethod
    def parse(cls, text: str) -> "Policy":
        """Parses a policy. A malformed policy allows nothing."""
        try:
            document = json.loads(text)
        except ValueError:
            return cls(())
        given = document.get("Statement") if isinstance(document, dict) else None
        return cls(tuple(Statement.of(one) for one in _listed(given) if isinstance(one, dict)))


def action_of(service: str, operation: str) -> str:
    """Returns the action: `logs`, `PutLogEvents` -> `logs:PutLogEvents`.

    An operation that only its route identifies is `?`. No policy names it, so only `*` allows it.
    """
    if service == "s3":
        operation = _S3_ACTIONS.get(operation, operation)
    return f"{_PREFIXES.get(service, service)}:{operation or '?'}"


def resource_of(call: Call) -> str:
    """Returns the resource of an operation of any service but S3, as policies see it: all that the account has."""
    return f"arn:aws:{call.service}:{call.region}:{call.account}:*"


def allows(policies: Sequence[Policy], action: str, resource: str) -> bool:
    """Applies IAM's rule: a denial wins, and what nothing allows is denied."""
    statements = [one for policy in policies for one in policy.statements if one.actions.names(action, fold=True)]
    exact = action.startswith(_EXACT)
    if any(
        one.effect == "Deny" and (one.resources.names(resource) if exact else one.every_resource) for one in statements
    ):
        return False
    return any(
        one.effect == "Allow" and not one.conditional and (not exact or one.resources.names(resource))
        for one in statements
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(one for one in _listed(value) if isinstance(one, str))


def _listed(value: Any) -> list[Any]:
    """Returns a list. IAM writes a list of one item as the item."""
    return value if isinstance(value, list) else [] if value is None else [value]


#: What a job's role needs (docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html, "CreateTrainingJob API:
#: Execution Role Permissions"), with what AmazonSageMakerFullAccess has for S3 objects and for experiments, which
#: training scripts use. It does not allow starting, changing or seeing jobs, roles and users.
TRAINING_POLICY_TEXT = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": [
                    "s3:GetObject*",
                    "s3:PutObject*",
                    "s3:DeleteObject*",
                    "s3:ListBucket*",
                    "s3:ListAllMyBuckets",
                    "s3:GetBucketLocation",
                    "s3:CreateBucket",
                    "s3:ListMultipartUploadParts",
                    "s3:AbortMultipartUpload",
                    "logs:CreateLogGroup",
                    "logs:CreateLogStream",
                    "logs:PutLogEvents",
                    "logs:DescribeLogStreams",
                    "cloudwatch:PutMetricData",
                    "ecr:GetAuthorizationToken",
                    "ecr:BatchCheckLayerAvailability",
                    "ecr:GetDownloadUrlForLayer",
                    "ecr:BatchGetImage",
                    "sagemaker:BatchPutMetrics",
                    "sagemaker:BatchGetMetrics",
                    "sagemaker:*TrialComponent*",
                    "sagemaker:*Trial",
                    "sagemaker:*Trials",
                    "sagemaker:*Experiment",
                    "sagemaker:*Experiments",
                    "sagemaker:*Association*",
                    "sagemaker:*Artifact*",
                    # Needs no permission on AWS.
                    "sts:GetCallerIdentity",
                ],
                "Resource": "*",
            }
        ],
    }
)

#: What an execution of a pipeline may do whose role nobody gave any right: what its steps call, and what every job may.
EXECUTION_POLICY_TEXT = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            *json.loads(TRAINING_POLICY_TEXT)["Statement"],
            {
                "Effect": "Allow",
                "Action": [
                    *(
                        f"sagemaker:{verb}{noun}"
                        for noun in ("TrainingJob", "ProcessingJob", "HyperParameterTuningJob")
                        for verb in ("Create", "Describe", "Stop")
                    ),
                    "sagemaker:ListTrainingJobsForHyperParameterTuningJob",
                    "sagemaker:CreateModel",
                    "sagemaker:DescribeModel",
                    "sagemaker:CreateModelPackage",
                    "sagemaker:CreateModelPackageGroup",
                    "sagemaker:DescribeModelPackage",
                    "sqs:SendMessage",
                    "lambda:InvokeFunction",
                    "iam:PassRole",
                ],
                "Resource": "*",
            },
        ],
    }
)
