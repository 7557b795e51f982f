"""Jobs of Python functions: `@remote` and `@step` of the SageMaker SDKs.

Their bootstrap asks for the user's name. Unless it is root, it makes the job's directories writable with `sudo`. In
AWS's containers the user is root. Here the directories already belong to the job's user, and there is no sudo.
"""

from sagelet_engine.model.spec import TrainingSpec

#: The channel that holds the bootstrap (SDK v2, `remote_function/job.py`; v3 has the same name).
BOOTSTRAP_CHANNEL = "sagemaker_remote_function_bootstrap"


def environment(spec: TrainingSpec) -> dict[str, str]:
    """Returns the variable that Python's `getpass.getuser` reads first."""
    return {"LOGNAME": "root"} if any(one.name == BOOTSTRAP_CHANNEL for one in spec.channels) else {}
