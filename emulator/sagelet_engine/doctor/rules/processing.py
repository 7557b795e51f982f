"""The rules for processing jobs. What happened is seen as in a training job; the reason and the remedy are others."""

from dataclasses import replace

from sagelet_engine.doctor.finding import Rule, Section
from sagelet_engine.doctor.rules import (
    job_ends,
    missing_files,
    missing_package,
    no_gpu,
    not_in_the_hub,
    out_of_memory,
    processing_files,
    processing_programs,
    script_failures,
    unreached,
)

_OUT_OF_MEMORY = replace(
    out_of_memory.RULE,
    why="A processing job has the memory of its instance type, or of this machine if that has less. pandas takes "
    "several times the size of a file.",
    instead="Read the data in parts (`pandas.read_csv(..., chunksize=100_000)`), read only the needed columns, "
    "ask for a larger instance type, or deal the input out among several instances (ShardedByS3Key).",
    section=Section.DESCRIBE_PROCESSING,
)
_PACKAGE = replace(
    missing_package.RULE,
    why="A job has what its image has; in the process runtime, what the Python of sagelet has. The image is not AWS's: "
    "it lacks some packages, and others are newer. Only a FrameworkProcessor installs a requirements.txt.",
)
_HUB = replace(
    not_in_the_hub.RULE,
    instead="Add it to the hub of the data directory: `sagelet hub add DIR --as NAME`. A job with "
    "EnableNetworkIsolation reaches no hub: bring the files by an input (`sagelet docs hub`).",
)
_ARGUMENTS = replace(
    script_failures.ARGUMENTS,
    why="ContainerArguments reach the script as they are written. A script that declares its arguments with argparse "
    "ends with exit code 2 if one is unknown, missing, or of another type.",
    instead="Make ContainerArguments (`arguments` of the processor's run) and add_argument agree: the same name, and a "
    "value that the argument's type can read.",
    section=Section.PROCESSING,
)
_GPU = replace(
    no_gpu.RULE,
    why="A GPU instance type gets real GPUs where the machine has them. Otherwise the job has no CUDA device.",
    instead="Use torch.device('cuda' if torch.cuda.is_available() else 'cpu') to choose the device. `--gpus require` "
    "refuses such a job at its start instead (`sagelet docs gpu`).",
    section=Section.PROCESSING,
)
_UNWRITABLE = replace(
    missing_files.UNWRITABLE,
    instead="Write results to the LocalPath of an output, such as /opt/ml/processing/output/NAME, and what is in "
    "passing to /tmp (`sagelet docs containers`).",
    section=Section.PROCESSING,
)
_NETWORK = replace(
    unreached.NETWORK,
    instead="Bring the data as an input (ProcessingInputs). Behind a proxy set HTTPS_PROXY in the job's Environment.",
    section=Section.PROCESSING,
)
_AWS = replace(unreached.AWS, section=Section.PROCESSING)
_TIME_LIMIT = replace(
    job_ends.TIME_LIMIT,
    why="A job that runs longer than StoppingCondition allows is stopped. It gets SIGTERM first, and what is in the "
    "outputs' directories by then is uploaded.",
    instead="Raise MaxRuntimeInSeconds (`max_runtime_in_seconds` of the processor), or deal the input out to several "
    "instances (ShardedByS3Key).",
    section=Section.DESCRIBE_PROCESSING,
)
_NOT_RUN = replace(job_ends.NOT_RUN, section=Section.DESCRIBE_PROCESSING)
_ERROR = replace(
    script_failures.ERROR,
    why="A script that raises an error ends with exit code 1, and its job fails. On AWS FailureReason has the exit "
    "code only; the log has the traceback.",
    instead="Correct the script at this place. `sagelet processing logs` shows the whole traceback.",
    section=Section.DESCRIBE_PROCESSING,
)
_ENDED = replace(
    script_failures.ENDED,
    why="Any exit code but 0 fails the job. What a processing job says of its end is its ExitMessage and its log.",
    instead="Raise an exception instead of calling sys.exit: its traceback is then in the log. Or write the reason to "
    "/opt/ml/output/message, which becomes the ExitMessage.",
    section=Section.DESCRIBE_PROCESSING,
)

#: In the order of docs/reference/doctor.md.
RULES: tuple[Rule, ...] = (
    _OUT_OF_MEMORY,
    _PACKAGE,
    _HUB,
    processing_programs.INSTALL,
    processing_programs.ENTRY_POINT,
    _ARGUMENTS,
    _GPU,
    processing_files.MISSING_INPUT,
    processing_files.MISSING_FILE,
    _UNWRITABLE,
    _NETWORK,
    _AWS,
    _TIME_LIMIT,
    processing_files.NOTHING_WRITTEN,
    _NOT_RUN,
    _ERROR,
    _ENDED,
)
