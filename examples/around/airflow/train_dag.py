"""An Airflow DAG that trains on SageMaker, or on sagelet when the connection `aws_default` says so.

AIRFLOW_CONN_AWS_DEFAULT='{"conn_type": "aws", "login": "123456789012", "password": "sagelet",
"extra": {"region_name": "us-east-1", "endpoint_url": "http://127.0.0.1:4599"}}' airflow dags test train
"""

import os
from datetime import datetime

from airflow import DAG
from airflow.providers.amazon.aws.operators.sagemaker import SageMakerTrainingOperator

BUCKET = os.environ.get("TRAINING_BUCKET", "training-data")
CONFIG = {
    "TrainingJobName": "airflow-train",
    "RoleArn": "arn:aws:iam::123456789012:role/SageMakerTraining",
    "AlgorithmSpecification": {
        "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:1.13.1-gpu-py39",
        "TrainingInputMode": "File",
        # A real job has its script in sagemaker_submit_directory instead.
        "ContainerEntrypoint": ["/bin/sh", "-c", "echo loss=0.5 && cp -r /opt/ml/input/data/train /opt/ml/model/"],
    },
    "InputDataConfig": [
        {
            "ChannelName": "train",
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/train/"}},
        }
    ],
    "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/models"},
    "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 10},
    "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
}

with DAG(dag_id="train", start_date=datetime(2026, 1, 1), schedule=None, catchup=False) as dag:
    SageMakerTrainingOperator(
        task_id="train",
        config=CONFIG,
        wait_for_completion=True,
        check_interval=1,
        action_if_job_exists="timestamp",
    )
