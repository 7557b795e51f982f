"""The roles that every account has from the start: the console's for a new Studio domain, and those of examples."""

import json

#: The SDK takes a session of a role so named for one at path /service-role/ (sagemaker/session.py, get_execution_role).
NAME = "AmazonSageMaker-ExecutionRole-20211130T180000"
PATH = "/service-role/"
#: Paths by names. AWS's examples, and the tests of the SDKs, pass the short ones: `role="SageMakerRole"`.
ROLES = {NAME: PATH, "AmazonSageMaker-ExecutionRole": PATH, "SageMakerRole": "/"}
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
    """The seeded roles': their account may assume them, too, whose owner calls as a session of one."""
    by_owner = {**_BY_SAGEMAKER, "Principal": {"AWS": f"arn:{partition}:iam::{account}:root"}}
    return json.dumps({"Version": "2012-10-17", "Statement": [_BY_SAGEMAKER, by_owner]})
