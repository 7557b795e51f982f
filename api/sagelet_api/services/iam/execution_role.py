"""The roles that every account has from the start: that of the console for a new Studio domain, and those of AWS's
examples.
"""

import json

#: The SDK looks for a role with this name at the path /service-role/ (sagemaker/session.py, get_execution_role).
NAME = "AmazonSageMaker-ExecutionRole-20211130T180000"
PATH = "/service-role/"
#: Paths by names. AWS's examples and the SDKs' tests use the short names: `role="SageMakerRole"`.
ROLES = {NAME: PATH, "AmazonSageMaker-ExecutionRole": PATH, "SageMakerRole": "/"}
#: The name that SageMaker gives its own sessions of the role, on notebook instances and in training jobs.
SESSION = "SageMaker"
#: The name of its inline policy, which says what every job may do.
POLICY = "AmazonSageMakerTrainingJob"
DESCRIPTION = "SageMaker execution role, made by sagelet"
_BY_SAGEMAKER = {
    "Effect": "Allow",
    "Principal": {"Service": "sagemaker.amazonaws.com"},
    "Action": "sts:AssumeRole",
}
#: SDK v3 wants this principal and action (docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html).
TRUST_POLICY = json.dumps({"Version": "2012-10-17", "Statement": [_BY_SAGEMAKER]})


def is_seeded(arn: str) -> bool:
    """True for the ARN of a role that is there from the start, in any account."""
    path, _, name = arn.rpartition(":role")[2].rpartition("/")
    return ROLES.get(name) == f"{path}/"


def trust_policy(account: str, partition: str) -> str:
    """Returns the trust policy of the seeded roles. Their account may assume them, too, because its owner calls as a
    session of one.
    """
    by_owner = {**_BY_SAGEMAKER, "Principal": {"AWS": f"arn:{partition}:iam::{account}:root"}}
    return json.dumps({"Version": "2012-10-17", "Statement": [_BY_SAGEMAKER, by_owner]})
