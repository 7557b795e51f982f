"""The SageMaker SDK v2 in local mode, for the section `job`: run by the Python of the SDK's environment.

`local_mode.py IMAGE BUCKET SCRIPT`; S3 and credentials are in the environment. Each line of its input starts
a job. Each job's output is passed on, and ends with a line of JSON: begin and end of `fit`, seconds since the epoch.
"""

import json
import sys
import time


def main(image: str, bucket: str, script: str) -> None:
    from sagemaker.estimator import Estimator
    from sagemaker.local import LocalSession

    session = LocalSession(default_bucket=bucket)
    for number, _ in enumerate(sys.stdin):
        estimator = Estimator(
            image,
            "arn:aws:iam::123456789012:role/SageMakerRole",
            instance_count=1,
            instance_type="local",
            entry_point=script,
            output_path=f"s3://{bucket}/local-{number}",
            code_location=f"s3://{bucket}/code",
            sagemaker_session=session,
        )
        begin = time.time()
        estimator.fit()
        print(json.dumps({"begin": begin, "end": time.time(), "model": estimator.model_data}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
