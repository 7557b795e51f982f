"""`ModelTrainer(...).train(wait=True, logs=True)` of the SageMaker SDK v3. Prints one JSON object.

`trainer_v3.py SOURCE_DIRECTORY IMAGE HYPERPARAMETERS ENVIRONMENT basic|torchrun`, two of them JSON; torchrun starts
two workers.
"""

import json
import logging
import sys
import threading

from sagemaker.core.helper.session_helper import Session, get_execution_role
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, InputData, SourceCode
from sagemaker.train.distributed import Torchrun


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    source_dir, image, hyperparameters, environment, driver = sys.argv[1:]
    session = Session()
    bucket = session.default_bucket()
    data = session.upload_string_as_file_body("1,2,3\n", bucket, "v3/in/data.csv")
    trainer = ModelTrainer(
        training_image=image,
        source_code=SourceCode(source_dir=source_dir, entry_script="train.py", requirements="requirements.txt"),
        compute=Compute(instance_type="ml.p3.2xlarge", instance_count=1),
        hyperparameters=json.loads(hyperparameters),
        environment=json.loads(environment),
        distributed=Torchrun(process_count_per_node=2) if driver == "torchrun" else None,
        base_job_name=f"v3-{driver}",
        sagemaker_session=session,
    )
    inputs = [InputData(channel_name="training", data_source=data.rpartition("/")[0])]
    trainer.train(input_data_config=inputs, wait=True, logs=True)
    job = trainer._latest_training_job
    job.refresh()
    answer = {
        "name": job.training_job_name,
        "status": job.training_job_status,
        "hyperparameters": job.hyper_parameters,
        "model": job.model_artifacts.s3_model_artifacts,
        "role": get_execution_role(),
        "job_role": job.role_arn,
    }
    # The SDK reports its use from a thread that dies with a short program, but not with a notebook.
    for thread in threading.enumerate():
        if thread.name == "sagemaker-telemetry":
            thread.join(60)
    print("ANSWER " + json.dumps(answer))


if __name__ == "__main__":
    main()
