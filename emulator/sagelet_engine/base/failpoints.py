"""Named places between a job's state writes and its side effects, where a test can have the server killed.

For tests only. The environment variable SAGELET_FAILPOINTS of `sagelet up` arms them: `after-launch=kill:3` makes the
server `kill -9` itself at the third pass; commas separate several. An unarmed failpoint costs one look at a module's
variable. tests/reliability kills a server at each failpoint, so it finds those that no job passes any more.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from enum import Enum

from sagelet_engine.base.errors import SettingsError
from sagelet_engine.base.number_text import whole_number_in

VARIABLE = "SAGELET_FAILPOINTS"


class Failpoint(str, Enum):
    """In the order in which a job passes them. The comment at each says what is true there."""

    # CreateTrainingJob
    BEFORE_INSERT = "before-insert"
    #: The job is durable. Nothing else knows of it yet.
    AFTER_INSERT = "after-insert"
    #: The job is queued. The client has no answer yet.
    BEFORE_ANSWER = "before-answer"

    # The scheduler
    #: The GPUs are leased, in memory only.
    BEFORE_PLACING = "before-placing"
    #: The job's place is in its record. No supervisor runs yet.
    AFTER_PLACING = "after-placing"
    #: The record says that the job has to wait.
    AFTER_WAITING = "after-waiting"
    #: A warm pool and the job that takes it are written, both or neither.
    AFTER_REUSE = "after-reuse"
    #: The end of a warm pool is written. Its cache is still on the disk.
    AFTER_POOL_END = "after-pool-end"

    # Every change of a record by the job's own thread
    BEFORE_RECORD = "before-record"
    AFTER_RECORD = "after-record"

    # Downloading
    #: One host has its inputs.
    AFTER_STAGING_HOST = "after-staging-host"
    #: All hosts have their inputs.
    AFTER_STAGING = "after-staging"
    #: The list of restored checkpoints is written.
    AFTER_CHECKPOINTS_BEGIN = "after-checkpoints-begin"

    # Launch
    #: The feeder of Pipe channels runs.
    BEFORE_LAUNCH = "before-launch"
    #: A host's plan is on the disk (process), or its network exists (docker).
    BEFORE_HOST = "before-host"
    #: A container was created and is not started yet.
    AFTER_CONTAINER = "after-container"
    #: A host runs.
    AFTER_HOST = "after-host"
    #: All hosts run. The record does not say so yet.
    AFTER_LAUNCH = "after-launch"
    #: The record says that all hosts run. Nothing follows them yet.
    AFTER_LAUNCHED = "after-launched"

    # Training
    BEFORE_LINES = "before-lines"
    #: Lines and their position are committed. Their metric points are not in CloudWatch yet.
    AFTER_LINES = "after-lines"
    #: The ledger of checkpoints names a file that is not in S3 yet.
    BEFORE_CHECKPOINT = "before-checkpoint"
    #: The file is in S3.
    AFTER_CHECKPOINT = "after-checkpoint"
    #: A deleted file is no longer in S3. The ledger still names it.
    AFTER_CHECKPOINT_DELETE = "after-checkpoint-delete"

    # StopTrainingJob and interruptions
    BEFORE_STOP = "before-asking-to-stop"
    #: The stop is in the record. The job's thread does not know of it yet.
    AFTER_STOP = "after-stop"
    #: The interruption is in the record.
    AFTER_INTERRUPT = "after-interrupt"
    BEFORE_SIGNAL = "before-signal"
    #: A host was sent SIGTERM or SIGKILL.
    AFTER_SIGNAL = "after-signal"

    # The end of hosts
    #: All hosts are down, and their lines are stored.
    AFTER_HOSTS = "after-hosts"
    #: The compile report is stored.
    AFTER_REPORT = "after-report"
    #: Processes of the hosts that still ran are killed. The runtime still knows the hosts.
    BEFORE_REAP = "before-reap"
    AFTER_REAP = "after-reap"
    #: The last sync of checkpoints is done.
    AFTER_FINAL_SYNC = "after-final-sync"
    #: The next attempt is in the record. The files of the last attempt still exist.
    AFTER_RESTART = "after-restart"

    # Uploading
    BEFORE_UPLOAD = "before-upload"
    #: The bytes of one of the job's objects are staged. The object does not exist yet.
    BEFORE_OBJECT = "before-object"
    #: The row of an object is committed. Its file is not in its place yet.
    AFTER_OBJECT_ROW = "after-object-row"
    #: An object exists, and others may follow.
    AFTER_OBJECT = "after-object"
    #: All objects exist. The job has not ended yet.
    AFTER_UPLOAD = "after-upload"

    # The end
    #: The terminal status is written. The job's place and GPUs are still held.
    AFTER_END = "after-end"
    #: A change of status was sent. The record does not say so yet.
    AFTER_ANNOUNCEMENT = "after-announcement"
    #: DeleteTrainingJob has removed the job's directory.
    BEFORE_DELETE = "before-delete"
    AFTER_DELETE = "after-delete"

    # Tuning jobs
    #: CreateHyperParameterTuningJob has made the record durable. Nothing drives it yet.
    AFTER_ORCHESTRATION = "after-orchestration"
    #: It is known how trials ended and which come next. The record does not say so yet.
    BEFORE_DECISION = "before-decision"
    #: The record says it. No training job of a new trial exists yet.
    AFTER_DECISION = "after-decision"
    BEFORE_CHILD = "before-child"
    #: A trial's training job exists. The record does not say so yet.
    AFTER_CHILD = "after-child"
    #: The stop is in the tuning job's record. No training job of it was stopped yet.
    AFTER_ORCHESTRATION_STOP = "after-orchestration-stop"
    #: One of its training jobs was asked to stop, and others may follow.
    AFTER_CHILD_STOP = "after-child-stop"

    # Multipart uploads and deletions in S3
    #: An upload is in the catalogue. The client does not know its id yet.
    AFTER_UPLOAD_BEGAN = "after-upload-began"
    #: The bytes of a part are on the disk. The catalogue does not name it yet.
    BEFORE_PART = "before-part"
    #: The catalogue names the part. The file of the part that it replaces still exists.
    AFTER_PART = "after-part"
    #: All parts are one staged file. No row names it yet.
    BEFORE_COMPLETION = "before-completion"
    #: The object is in its place and the upload is deleted. The upload's files still exist.
    AFTER_COMPLETION = "after-completion"
    #: The upload is deleted. Its files still exist.
    AFTER_ABORT = "after-abort"
    #: The files of deleted objects are staged. Their rows still exist.
    BEFORE_OBJECT_DELETE = "before-object-delete"
    #: The rows are deleted. The files still exist.
    AFTER_OBJECT_DELETE = "after-object-delete"
    #: A bucket and its uploads are deleted. The uploads' files still exist.
    AFTER_BUCKET_DELETE = "after-bucket-delete"

    # IAM
    #: moto's IAM has a change. It is not durable yet, and the client has no answer.
    BEFORE_IAM = "before-iam"
    #: The change is durable. The client has no answer yet.
    AFTER_IAM = "after-iam"

    # `sagelet hub`, whose commands need no server
    #: The files of a new revision are in their place. No repository names them yet.
    AFTER_HUB_BLOBS = "after-hub-blobs"
    #: A repository names the files. The command has not reported it yet.
    AFTER_HUB_RECORD = "after-hub-record"
    #: A repository is deleted. Its files still exist.
    AFTER_HUB_REMOVAL = "after-hub-removal"

    # The next start
    #: Earlier points are in CloudWatch. No job is adopted yet.
    BEFORE_RECOVERY = "before-recovery"
    #: A job was adopted.
    AFTER_ADOPTION = "after-adoption"


#: Called at each pass. None outside of tests.
_listener: Callable[[Failpoint], None] | None = None


def failpoint(name: Failpoint) -> None:
    """Does nothing unless the failpoints are armed."""
    if _listener is not None:
        _listener(name)


def listen(listener: Callable[[Failpoint], None] | None) -> None:
    """Calls `listener` at each pass, in the thread that passes."""
    global _listener
    _listener = listener


def arm(text: str) -> None:
    """Arms failpoints from `NAME=kill:N`, several separated by commas. An empty text arms none. Raises
    SettingsError.
    """
    passes = dict(_parsed(word) for word in text.split(",") if word)
    listen(_Killer(passes) if passes else None)


def _parsed(word: str) -> tuple[Failpoint, int]:
    name, _, action = word.strip().partition("=")
    kind, _, number = action.partition(":")
    try:
        found = Failpoint(name)
    except ValueError as error:
        raise SettingsError(f"{VARIABLE}: there is no failpoint {name!r}; see `sagelet docs reliability`") from error
    passes = whole_number_in(number or "1")
    if kind != "kill" or passes is None or passes < 1:
        raise SettingsError(f"{VARIABLE}: {word!r}: must be {name}=kill or {name}=kill:N, with N from 1")
    return found, passes


class _Killer:
    """Kills this process at the n-th pass of a failpoint, as `kill -9` would."""

    def __init__(self, passes: dict[Failpoint, int]) -> None:
        self._left = passes
        self._guard = threading.Lock()

    def __call__(self, name: Failpoint) -> None:
        with self._guard:
            if name not in self._left:
                return
            self._left[name] -= 1
            if self._left[name]:
                return
            print(f"failpoint {name.value}: kill -9", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
