"""Evaluates IAM policies as far as the credentials of jobs need it, and holds the policy of every job.

Conditions are not evaluated: a statement with a condition allows nothing, and denies what it names. Resources count for
S3 and for roles that are assumed or passed. For other services an allowing statement about any resource allows, and a
denial counts if it names all resources.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from sagelet_api.protocol.calls import Call, Environ, read_body, rewind
from sagelet_api.protocol.operation_names import form_fields
from sagelet_api.protocol.operations import MAX_BODY
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


def needs(call: Call, environ: Environ) -> Iterator[tuple[str, str]]:
    """Yields IAM's actions and their resources, all of which must be allowed to the caller, for any service but S3."""
    yield action_of(call.service, call.operation), _assumed(call, environ) or resource_of(call)
    for action in _called(call, environ):
        yield action, resource_of(call)
    for passed in _passed(call, environ):
        yield "iam:PassRole", passed


def _assumed(call: Call, environ: Environ) -> str:
    """Returns the role that a caller wants to assume."""
    if call.service != "sts" or not call.operation.startswith("AssumeRole"):
        return ""
    return {**call.query, **dict(form_fields(environ))}.get("RoleArn", "")


def _passed(call: Call, environ: Environ) -> list[str]:
    """Returns the roles that a caller passes to a new job, tuning job, pipeline or function, except its own."""
    if call.operation not in PASSING.get(call.service, {}):
        return []
    body = read_body(environ, MAX_BODY)
    rewind(environ, body)
    try:
        roles = PASSING[call.service][call.operation](json.loads(body))
    except (ValueError, AttributeError, TypeError, RecursionError):
        return []  # The handler reports what is wrong with it.
    own = call.session.role if call.session else call.job.request["RoleArn"] if call.job else ""
    return [role for role in dict.fromkeys(roles) if role != own]


def _roles_of_definitions(body: JsonObject) -> list[str]:
    """Returns the roles in a CreateHyperParameterTuningJob body."""
    found = (body.get("TrainingJobDefinition"), *_listed(body.get("TrainingJobDefinitions")))
    return [role for one in found if isinstance(one, dict) for role in _texts(one.get("RoleArn"))]


def _roles_of_pipeline(body: JsonObject) -> list[str]:
    """Returns the roles in a CreatePipeline or UpdatePipeline body: the pipeline's, and those of its steps.

    A role that is known only when the pipeline runs is any role.
    """
    text = body.get("PipelineDefinition")
    steps = [ANY_ROLE] if "PipelineDefinitionS3Location" in body else []
    if isinstance(text, str):
        try:
            steps += _roles_within(json.loads(text))
        except (ValueError, RecursionError):
            steps = []  # The handler reports what is wrong with it.
    return [*_texts(body.get("RoleArn")), *steps]


#: What the steps of a pipeline call. On AWS the pipeline's role needs these; here whoever writes the pipeline does.
_STEPS = {
    "Training": "sagemaker:CreateTrainingJob",
    "Processing": "sagemaker:CreateProcessingJob",
    "Tuning": "sagemaker:CreateHyperParameterTuningJob",
    "Model": "sagemaker:CreateModel",
    "RegisterModel": "sagemaker:CreateModelPackage",
    "Callback": "sqs:SendMessage",
}


def _called(call: Call, environ: Environ) -> list[str]:
    """Returns the actions of the steps in a CreatePipeline or UpdatePipeline request."""
    if call.service != "sagemaker" or call.operation not in ("CreatePipeline", "UpdatePipeline"):
        return []
    body = read_body(environ, MAX_BODY)
    rewind(environ, body)
    try:
        given = json.loads(body)
        if "PipelineDefinitionS3Location" in given:
            return sorted(_STEPS.values())
        found = _types_within(json.loads(given.get("PipelineDefinition", "null")))
    except (ValueError, AttributeError, TypeError, RecursionError):
        return []  # The handler reports what is wrong with it.
    return sorted({_STEPS[one] for one in found if one in _STEPS})


def _types_within(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _types_within(one)
    elif isinstance(value, dict):
        if isinstance(value.get("Type"), str):
            yield value["Type"]
        for one in value.values():
            yield from _types_within(one)


def _roles_within(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _roles_within(one)
    elif isinstance(value, dict):
        for name, one in value.items():
            if name in ("RoleArn", "ExecutionRoleArn"):
                yield one if isinstance(one, str) else ANY_ROLE
            else:
                yield from _roles_within(one)


def _role(body: JsonObject) -> list[str]:
    return list(_texts(body.get("RoleArn")))


def _role_of_function(body: JsonObject) -> list[str]:
    return list(_texts(body.get("Role")))


#: The resource of iam:PassRole for a role that cannot be known from the request.
ANY_ROLE = "*"
#: Operations that get roles, by the service's signing name: how to find these in a body.
PASSING: dict[str, dict[str, Callable[[JsonObject], list[str]]]] = {
    "sagemaker": {
        "CreateTrainingJob": _role,
        "CreateProcessingJob": _role,
        "CreateHyperParameterTuningJob": _roles_of_definitions,
        "CreatePipeline": _roles_of_pipeline,
        "UpdatePipeline": _roles_of_pipeline,
        "StartPipelineExecution": _role,
    },
    "lambda": {"CreateFunction": _role_of_function, "UpdateFunctionConfiguration": _role_of_function},
}


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
TRAINING_POLICY = Policy.parse(TRAINING_POLICY_TEXT)
