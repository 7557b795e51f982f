"""Processors of the SageMaker SDK v3. Prints one JSON object.

`processors_v3.py DIRECTORY`: of `prepare.py`.
"""

import json
import sys

from sagemaker.core import image_uris
from sagemaker.core.helper.session_helper import Session
from sagemaker.core.processing import FrameworkProcessor
from sagemaker.core.shapes import ProcessingInput, ProcessingOutput, ProcessingS3Input, ProcessingS3Output


def main() -> None:
    session = Session()
    bucket = session.default_bucket()
    raw = session.upload_string_as_file_body("1,2\n3,4\n", bucket, "raw/rows.csv")
    image = image_uris.retrieve("sklearn", "us-east-1", version="1.2-1", py_version="py3", instance_type="ml.m5.xlarge")
    processor = FrameworkProcessor(
        image_uri=image,
        command=["python3"],
        role="arn:aws:iam::123456789012:role/SageMakerRole",
        instance_count=1,
        instance_type="ml.m5.xlarge",
        sagemaker_session=session,
    )
    source = ProcessingS3Input(
        s3_uri=raw, local_path="/opt/ml/processing/input/raw", s3_data_type="S3Prefix", s3_input_mode="File"
    )
    target = ProcessingS3Output(
        s3_uri=f"s3://{bucket}/sum", local_path="/opt/ml/processing/output/sum", s3_upload_mode="EndOfJob"
    )
    processor.run(
        code="prepare.py",
        source_dir=sys.argv[1],
        inputs=[ProcessingInput(input_name="raw", s3_input=source)],
        outputs=[ProcessingOutput(output_name="sum", s3_output=target)],
        arguments=["v3"],
    )
    job = processor.latest_job.refresh()
    print("ANSWER " + json.dumps({"status": job.processing_job_status, "message": job.exit_message}))


if __name__ == "__main__":
    main()
