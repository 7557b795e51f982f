"""The policies of every job, and of an execution whose role nobody gave any right."""

import json

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
