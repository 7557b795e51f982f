"""CreateTrainingJob of AWS's "Run PyTorch Training Jobs with SageMaker Training Compiler", by boto3 alone.

The compiler's part of the request is as printed. The script is that of ../single_gpu, packed as the SDK would.
"""

import io
import tarfile
import time

import boto3

ROLE = "arn:aws:iam::123456789012:role/service-role/AmazonSageMaker-ExecutionRole-20211130T180000"
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-trcomp-training:1.13.1-gpu-py39"
BUCKET = "create-training-job"
SCRIPT = "../single_gpu/scripts/train.py"

name = f"create-training-job-{time.strftime('%Y-%m-%d-%H-%M-%S')}"
s3 = boto3.client("s3")
s3.create_bucket(Bucket=BUCKET)

# What AWS's container expects of a script: a tar file in S3, named by two hyperparameters.
packed = io.BytesIO()
with tarfile.open(fileobj=packed, mode="w:gz") as archive:
    archive.add(SCRIPT, arcname="train.py")
s3.put_object(Bucket=BUCKET, Key=f"{name}/sourcedir.tar.gz", Body=packed.getvalue())
rows = "\n".join(f"{x / 100},{3 * x / 100}" for x in range(640))
s3.put_object(Bucket=BUCKET, Key="data/data.csv", Body=rows.encode())

sagemaker = boto3.client("sagemaker")
sagemaker.create_training_job(
    TrainingJobName=name,
    AlgorithmSpecification={
        "TrainingImage": IMAGE,
        "TrainingInputMode": "File",
        "MetricDefinitions": [{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
    },
    HyperParameters={
        "sagemaker_training_compiler_enabled": "true",
        "sagemaker_training_compiler_debug_mode": "false",
        "sagemaker_pytorch_xla_multi_worker_enabled": "false",  # set to "true" for distributed training
        "sagemaker_program": "train.py",
        "sagemaker_submit_directory": f"s3://{BUCKET}/{name}/sourcedir.tar.gz",
        "batch_size": "64",
        "learning_rate": "0.001",
    },
    InputDataConfig=[
        {
            "ChannelName": "training",
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/data/"}},
        }
    ],
    OutputDataConfig={"S3OutputPath": f"s3://{BUCKET}/output"},
    ResourceConfig={"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
    StoppingCondition={"MaxRuntimeInSeconds": 3600},
    RoleArn=ROLE,
)
waiter = sagemaker.get_waiter("training_job_completed_or_stopped")
waiter.wait(TrainingJobName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 600})

logs = boto3.client("logs")
for event in logs.filter_log_events(logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix=name)["events"]:
    print(event["message"])
job = sagemaker.describe_training_job(TrainingJobName=name)
print(f"{job['TrainingJobStatus']}: {job['BillableTimeInSeconds']} billable seconds")
print(job["ModelArtifacts"]["S3ModelArtifacts"])
