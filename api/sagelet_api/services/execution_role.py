"""The role that every account has from the start, as SageMaker's console makes it for a new Studio domain."""

import json

#: The SDK takes a session of a role so named for one at path /service-role/ (sagemaker/session.py, get_execution_role).
NAME = "AmazonSageMaker-ExecutionRole-20211130T180000"
PATH = "/service-role/"
#: The name that SageMaker gives to its own sessions of the role, on notebook instances and in training jobs.
SESSION = "SageMaker"
#: Name of its inline policy: what every job may do.
POLICY = "AmazonSageMakerTrainingJob"
DESCRIPTION = "SageMaker execution role, made by sagelet"
_BY_SAGEMAKER = {
    "Effect": "Allow",
    "Principal": {"Service": "sagemaker.amazonaws.com"},
    "Action": "sts:AssumeRole",
}
#: SDK v3 wants this principal and action (docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html).
TRUST_POLICY = json.dumps({"Version": "2012-10-17", "Statement": [_BY_SAGEMAKER]})


def trust_policy(account: str, partition: str) -> str:
    """The seeded role's: its account may assume it, too, whose owner calls as a session of it."""
    by_owner = {**_BY_SAGEMAKER, "Principal": {"AWS": f"arn:{partition}:iam::{account}:root"}}
    return json.dumps({"Version": "2012-10-17", "Statement": [_BY_SAGEMAKER, by_owner]})
