"""Ends that no script has caused, and missing results."""

import re
from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity

_NO_OBJECTS = re.compile(r"No S3 objects found under S3 URL|Data download failed")
_DATA = (
    "List what is there with `aws s3 ls` through `sagelet run`, in the account and the region of the job. "
    "`sagelet s3 import DIRECTORY s3://BUCKET/PREFIX` brings files here."
)
_NO_BUCKET = "Data upload failed:the bucket of "
_BUCKET = "Create the bucket (`aws s3 mb` through `sagelet run`), in the account and the region of the job."
_CAPACITY = (
    "Ask for a smaller instance type or fewer instances, wait for other jobs to end (`sagelet jobs`), or let CPU "
    "workers stand in for GPUs (`--gpus auto`)."
)
_NOT_INSTALLED = "The process runtime cannot train"
_INSTALL = (
    "Run `sagelet install-torch` in the environment of the server, and start the server again. Or use Docker: `sagelet "
    "image build`, then `sagelet up --runtime docker`. Then create the job again under another name."
)
_INTERNAL = (
    "Look into the log of the server for the time of the failure, and start the job again. If it fails again, it is a "
    "defect of sagelet: please report it with that part of the log."
)
#: What a status says of a disk that is full or fails.
_DISK_FAULT = re.compile(
    r"No space left on device|Disk quota exceeded|Free space on its disk|no inode left|Read-only file system"
)
_DISK = (
    "Free space on the disk that the text names, or mend it, and create the job again under another name. `sagelet gc` "
    "removes what is no longer needed."
)


def not_run(case: Case) -> Iterator[Seen]:
    progress = case.progress
    kind, _, text = progress.reason.partition(": ")
    if not progress.failed or kind not in ("ClientError", "CapacityError", "InternalServerError"):
        return
    if kind == "ClientError":
        yield Seen(Severity.ERROR, text, instead=_remedy(text))
    elif kind == "CapacityError":
        yield Seen(Severity.ERROR, text, instead=_CAPACITY)
    else:
        yield Seen(
            Severity.ERROR, progress.cause or text, instead=_DISK if _DISK_FAULT.search(progress.cause) else _INTERNAL
        )


def _remedy(text: str) -> str | None:
    """Returns what to do about a ClientError. None if its text says it."""
    if _NO_OBJECTS.search(text):
        return _DATA
    if text.startswith(_NO_BUCKET):
        return _BUCKET
    return _INSTALL if text.startswith(_NOT_INSTALLED) else None


def time_limit(case: Case) -> Iterator[Seen]:
    if case.progress.timed_out:
        seconds = case.setup.max_runtime_seconds
        yield Seen(Severity.WARNING, f"The job was ended when it had run for {seconds} s, its MaxRuntimeInSeconds")


def nothing_saved(case: Case) -> Iterator[Seen]:
    """A script that saves nothing. A container that runs a command of its own may keep its results anywhere."""
    if case.sources and case.progress.status == "Completed" and case.progress.saved is False:
        yield Seen(Severity.WARNING, "The job completed without a model.tar.gz: nothing is in SM_MODEL_DIR")


NOT_RUN = Rule(
    name="not-run",
    why="The job could not run as it was asked for. The part of the FailureReason before the colon says where "
    "the cause is: ClientError in the request, or in what is installed for it; CapacityError in this machine; "
    "InternalServerError in sagelet.",
    instead="Do what the text says: change the request, or what it needs here. Then create the job again under another "
    "name.",
    section=Section.DESCRIBE,
    check=not_run,
    last_resort=True,
)
TIME_LIMIT = Rule(
    name="time-limit",
    why="A job that runs longer than StoppingCondition allows is stopped. It gets SIGTERM first, and what is in "
    "SM_MODEL_DIR by then is kept.",
    instead="Raise MaxRuntimeInSeconds (`max_run` of the estimator), or save checkpoints to /opt/ml/checkpoints, so "
    "that the next job goes on from there (`sagelet docs checkpoints-and-spot`).",
    section=Section.DESCRIBE,
    check=time_limit,
)
NOTHING_SAVED = Rule(
    name="nothing-saved",
    why="model.tar.gz is made of the directory that SM_MODEL_DIR names (/opt/ml/model). What a script saves elsewhere "
    "is lost when the job ends.",
    instead="Save the model there: `torch.save(model.state_dict(), os.path.join(os.environ['SM_MODEL_DIR'], "
    "'model.pt'))`, or trainer.save_model(os.environ['SM_MODEL_DIR']).",
    section=Section.OUTPUT,
    check=nothing_saved,
)
