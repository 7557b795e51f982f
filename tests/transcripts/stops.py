"""Paths of jobs that are stopped: by StopTrainingJob, or by a limit of StoppingCondition."""

from support.story import Story
from support.transcripts import path
from transcripts.ends import CLOCK, WAIT

STOP = (
    "Status Stopping at once, SIGTERM, 120 s, SIGKILL, then Stopped: botocore, StopTrainingJob; texts: SDK v2's print "
    "of real jobs; in Stopped: awslabs/benchmark-ai#928"
)
SAVED = "What the script leaves is uploaded; TrainingEndTime of a stopped job is after the upload: botocore"
EARLY = "A job that is stopped before Downloading has no training clock: botocore, DescribeTrainingJob"
LIMIT = "TrainingJobStatus Stopped with the secondary status of the limit: botocore; this StatusMessage is from memory"
HANDLER = "trap 'echo saving;echo saved>/opt/ml/model/weights;exit 0' TERM;echo ready"
DEAF = "trap 'echo not yet' TERM;echo ready"


@path("stop-in-starting", STOP, EARLY)
def in_starting(story: Story) -> None:
    """StopTrainingJob before the job has its instances."""
    story.create("echo never")
    story.until("Starting")
    story.stop()
    story.ended()
    story.stop_refused()


@path("stop-in-pending", STOP, EARLY)
def in_pending(story: Story) -> None:
    """StopTrainingJob while the job waits for capacity."""
    other = story.another("other")
    other.create("until [ -e /opt/ml/free ];do sleep 0.05;done")
    other.waits_for("Training")
    story.create("echo never")
    story.until("Pending")
    story.turn(30)
    story.stop()
    story.ended()


@path("stop-in-downloading", STOP, CLOCK)
def in_downloading(story: Story) -> None:
    """StopTrainingJob while data is downloaded: nothing runs, nothing is uploaded, the time is billed."""
    story.put("in/a.txt", "hello")
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://$BUCKET/in"}}
    story.create("echo never", InputDataConfig=[{"ChannelName": "training", "DataSource": source}])
    story.until("Downloading")
    story.turn(5)
    story.stop()
    story.ended()


@path("stop-in-training", STOP, SAVED, CLOCK)
def in_training(story: Story) -> None:
    """The script saves its model when SIGTERM comes. A job that has ended cannot be stopped."""
    story.create(f"{HANDLER};{WAIT}")
    story.prints_after("Training", "ready")
    story.turn(90)
    story.stop()
    story.ended()
    story.stop_refused()


@path(
    "stop-ignored", STOP, "The grace counts from the first StopTrainingJob; another in Stopping is accepted: inferred"
)
def ignored(story: Story) -> None:
    """The script does not end on SIGTERM: it is killed 120 s after StopTrainingJob, and what it left is uploaded."""
    story.create(f"{DEAF};echo 1 >/opt/ml/model/step;{WAIT};echo on;rm /opt/ml/go;while :;do sleep 0.05;done")
    story.prints_after("Training", "ready")
    story.stop()
    story.prints("not yet")
    story.turn(60)
    story.stop()
    story.turn(59.999)
    story.touch("go")
    story.prints("on")
    story.look()
    story.turn(0.001)
    story.ended()


@path("stop-and-a-failing-handler", STOP, "A job that was stopped is Stopped, whatever its script returns")
def failing_handler(story: Story) -> None:
    """The handler fails and leaves a failure file: the job is Stopped all the same."""
    story.create(f"trap 'echo oops>/opt/ml/output/failure;exit 1' TERM;echo ready;{WAIT}")
    story.prints_after("Training", "ready")
    story.stop()
    story.ended()


@path("max-runtime", LIMIT, STOP, SAVED, CLOCK)
def max_runtime(story: Story) -> None:
    """24 hours after the start of Downloading; the script has its 120 s to save."""
    story.create(f"{HANDLER};{WAIT}", StoppingCondition={"MaxRuntimeInSeconds": 86_400})
    story.prints_after("Training", "ready")
    story.turn(round(86_400 - story.ran() - 0.001, 3))
    story.look()
    story.turn(0.001)
    story.ended()


@path("max-runtime-in-downloading", LIMIT, "The limit counts from TrainingStartTime, the start of Downloading", CLOCK)
def max_runtime_in_downloading(story: Story) -> None:
    """The limit is over before the data is down: the script never runs."""
    story.put("in/a.txt", "hello")
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://$BUCKET/in"}}
    story.create(
        "echo never",
        InputDataConfig=[{"ChannelName": "training", "DataSource": source}],
        StoppingCondition={"MaxRuntimeInSeconds": 600},
    )
    story.until("Downloading")
    story.turn(600)
    story.ended()


@path("max-wait-while-pending", LIMIT, EARLY)
def max_wait_pending(story: Story) -> None:
    """A spot job waits for capacity until MaxWaitTimeInSeconds is over."""
    other = story.another("other")
    other.create("until [ -e /opt/ml/free ];do sleep 0.05;done", StoppingCondition={"MaxRuntimeInSeconds": 86_400})
    other.waits_for("Training")
    story.create(
        "echo never",
        EnableManagedSpotTraining=True,
        StoppingCondition={"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 7200},
    )
    story.until("Pending")
    story.turn(7200)
    story.ended()


@path("max-wait-while-training", LIMIT, STOP, SAVED, "MaxWait is the waiting and the running together: botocore")
def max_wait_training(story: Story) -> None:
    """A spot job waits for 50 minutes; its hour of MaxWaitTimeInSeconds is over 10 minutes later, while it trains."""
    other = story.another("other")
    other.create("until [ -e /opt/ml/free ];do sleep 0.05;done")
    other.waits_for("Training")
    story.create(
        f"{HANDLER};{WAIT}",
        EnableManagedSpotTraining=True,
        StoppingCondition={"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 3600},
    )
    story.until("Pending")
    story.turn(3000)
    story.touch("free")
    story.prints_after("Training", "ready")
    story.turn(600)
    story.ended()
