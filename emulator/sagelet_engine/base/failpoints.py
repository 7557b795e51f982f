"""Named places between a job's state writes and its side effects, where a test can have the server killed.

For tests only. The environment variable SAGELET_FAILPOINTS of `sagelet up` arms them: `after-launch=kill:3` makes the
server `kill -9` itself at the third pass; commas separate several. An unarmed pass costs one look at a module's
variable. tests/reliability kills a server at each of them, so it finds one that no job passes any more.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from enum import Enum

from sagelet_engine.base.errors import SettingsError

VARIABLE = "SAGELET_FAILPOINTS"


class Failpoint(str, Enum):
    """In the order in which a job passes them; the comment says what is true there."""

    # CreateTrainingJob
    BEFORE_INSERT = "before-insert"
    #: The job is durable; nobody knows of it.
    AFTER_INSERT = "after-insert"
    #: It is queued; the client has no answer.
    BEFORE_ANSWER = "before-answer"

    # The scheduler
    #: The GPUs are leased in memory.
    BEFORE_PLACING = "before-placing"
    #: The place is in the record; no supervisor runs.
    AFTER_PLACING = "after-placing"
    #: The job was told that it has to wait.
    AFTER_WAITING = "after-waiting"
    #: A warm pool and the job that takes it are written, both or neither.
    AFTER_REUSE = "after-reuse"
    #: The end of a warm pool is written; its cache is on the disk.
    AFTER_POOL_END = "after-pool-end"

    # Every change of a record by the job's own thread
    BEFORE_RECORD = "before-record"
    AFTER_RECORD = "after-record"

    # Downloading
    #: One host has its inputs.
    AFTER_STAGING_HOST = "after-staging-host"
    #: All have.
    AFTER_STAGING = "after-staging"
    #: What was restored of checkpoints is noted.
    AFTER_CHECKPOINTS_BEGIN = "after-checkpoints-begin"

    # Launch
    #: The feeder of Pipe channels runs.
    BEFORE_LAUNCH = "before-launch"
    #: A host's plan is on the disk (process), or its network is there (docker).
    BEFORE_HOST = "before-host"
    #: A container was created, and not started.
    AFTER_CONTAINER = "after-container"
    #: A host runs.
    AFTER_HOST = "after-host"
    #: All run; the record does not say so.
    AFTER_LAUNCH = "after-launch"
    #: It does; nobody follows them.
    AFTER_LAUNCHED = "after-launched"

    # Training
    BEFORE_LINES = "before-lines"
    #: Lines and their position are committed; their metric points are not in CloudWatch.
    AFTER_LINES = "after-lines"
    #: The ledger of checkpoints names a file that S3 has not.
    BEFORE_CHECKPOINT = "before-checkpoint"
    #: S3 has it.
    AFTER_CHECKPOINT = "after-checkpoint"
    #: S3 has a deleted one no more; the ledger names it.
    AFTER_CHECKPOINT_DELETE = "after-checkpoint-delete"

    # StopTrainingJob and interruptions
    BEFORE_STOP = "before-asking-to-stop"
    #: The stop is in the record; the job's thread does not know.
    AFTER_STOP = "after-stop"
    #: The interruption is.
    AFTER_INTERRUPT = "after-interrupt"
    BEFORE_SIGNAL = "before-signal"
    #: A host has SIGTERM or SIGKILL.
    AFTER_SIGNAL = "after-signal"

    # The end of hosts
    #: All are down, and their lines are in.
    AFTER_HOSTS = "after-hosts"
    #: The compile report is kept.
    AFTER_REPORT = "after-report"
    #: What runs of the hosts still is killed; the runtime knows them.
    BEFORE_REAP = "before-reap"
    AFTER_REAP = "after-reap"
    #: The last sync of checkpoints is done.
    AFTER_FINAL_SYNC = "after-final-sync"
    #: The next attempt is in the record; the files of the last are there.
    AFTER_RESTART = "after-restart"

    # Uploading
    BEFORE_UPLOAD = "before-upload"
    #: The bytes of an object of a job's are staged; the object is not.
    BEFORE_OBJECT = "before-object"
    #: The row of an object is committed; its file is not in its place.
    AFTER_OBJECT_ROW = "after-object-row"
    #: An object is there, and others may follow.
    AFTER_OBJECT = "after-object"
    #: All are; the job has not ended.
    AFTER_UPLOAD = "after-upload"

    # The end
    #: The terminal status is written; place and GPUs are held.
    AFTER_END = "after-end"
    #: A change of status went out, but its note says that it did not.
    AFTER_ANNOUNCEMENT = "after-announcement"
    #: DeleteTrainingJob: the directory is gone.
    BEFORE_DELETE = "before-delete"
    AFTER_DELETE = "after-delete"

    # Multipart uploads and deletions in S3
    #: An upload is in the catalogue; the client does not know its id.
    AFTER_UPLOAD_BEGAN = "after-upload-began"
    #: The bytes of a part are on the disk; the catalogue does not name it.
    BEFORE_PART = "before-part"
    #: It does; the file of the part that it replaces is there.
    AFTER_PART = "after-part"
    #: All parts are one staged file; no row names it.
    BEFORE_COMPLETION = "before-completion"
    #: The object is in its place, the upload is no more; its files are there.
    AFTER_COMPLETION = "after-completion"
    #: The upload is no more; its files are there.
    AFTER_ABORT = "after-abort"
    #: The files of deleted objects are staged; their rows are there.
    BEFORE_OBJECT_DELETE = "before-object-delete"
    #: The rows are gone; the files are there.
    AFTER_OBJECT_DELETE = "after-object-delete"
    #: A bucket and its uploads are gone; the uploads' files are there.
    AFTER_BUCKET_DELETE = "after-bucket-delete"

    # `sagelet hub`, whose commands need no server
    #: The files of a new revision are in their place; no repository has them.
    AFTER_HUB_BLOBS = "after-hub-blobs"
    #: It has; the command has not said so.
    AFTER_HUB_RECORD = "after-hub-record"
    #: A repository is gone; its files are there.
    AFTER_HUB_REMOVAL = "after-hub-removal"

    # The next start
    #: CloudWatch has the points of before; no job is taken up.
    BEFORE_RECOVERY = "before-recovery"
    #: A job was taken up.
    AFTER_ADOPTION = "after-adoption"


#: Called at each pass, or None outside of tests.
_listener: Callable[[Failpoint], None] | None = None


def failpoint(name: Failpoint) -> None:
    """Does nothing, unless the failpoints are armed."""
    if _listener is not None:
        _listener(name)


def listen(listener: Callable[[Failpoint], None] | None) -> None:
    """Tells `listener` of each pass, in the thread that passes."""
    global _listener
    _listener = listener


def arm(text: str) -> None:
    """`NAME=kill:N`, several with commas; an empty text arms none. Raises SettingsError."""
    passes = dict(_parsed(word) for word in text.split(",") if word)
    listen(_Killer(passes) if passes else None)


def _parsed(word: str) -> tuple[Failpoint, int]:
    name, _, action = word.strip().partition("=")
    kind, _, number = action.partition(":")
    try:
        found = Failpoint(name)
    except ValueError as error:
        raise SettingsError(f"{VARIABLE}: there is no failpoint {name!r}; see docs/reliability.md") from error
    if kind != "kill" or not (number or "1").isdecimal() or int(number or 1) < 1:
        raise SettingsError(f"{VARIABLE}: {word!r}: must be {name}=kill or {name}=kill:N, with N from 1")
    return found, int(number or 1)


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
