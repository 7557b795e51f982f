"""Paths of jobs that start again: spot interruptions, and faults of the platform that RetryStrategy covers."""

from support.story import Story
from support.transcripts import path
from transcripts.ends import FAILED_END, FAILED_UPLOAD, WAIT

SPOT = (
    "Interrupted is InProgress: botocore; then Starting again, with a log stream of its own: inferred, as AWS names "
    "streams by host and start. The texts of Interrupted and Restarting are sagelet's: AWS's are not public"
)
BILL = (
    "Billable time below training time, by sagelet's documented discount of 0.7 on the time that the attempts ran, "
    "each from the start of its Downloading"
)
RESTORED = "Checkpoints are copied in at each start and synced out as they are: developer guide, checkpoints"
RETRY = (
    "RetryStrategy is for InternalServerError only: botocore. Its text, with one space since 2024, is AWS's and whole; "
    "what sagelet knows of the cause is in the StatusMessage"
)
TEACHES = {
    "EnableManagedSpotTraining": True,
    "StoppingCondition": {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 7200},
    "CheckpointConfig": {"S3Uri": "s3://$BUCKET/run"},
}
#: Says what checkpoint it finds, and saves one when it is interrupted.
STEPS = (
    "cd /opt/ml/checkpoints;f=$(cat step 2>/dev/null);echo from ${f:-none};"
    f"trap 'echo ${{f:-0}}1>step;exit 1' TERM;echo ready;{WAIT};echo end>../model/weights"
)


@path("spot-interrupted", SPOT, BILL, RESTORED)
def interrupted(story: Story) -> None:
    """Interrupted after 100 s of training; the next attempt goes on from the checkpoint that SIGTERM made it save."""
    story.create(STEPS, **TEACHES)
    story.prints_after("Training", "ready")
    story.turn(100)
    story.interrupt()
    story.until("Starting", "Preparing")
    story.prints_after("Training", "ready")
    story.turn(100)
    story.touch("go")
    story.ended()


@path("spot-interrupted-in-downloading", SPOT, BILL)
def interrupted_in_downloading(story: Story) -> None:
    """Interrupted before the script runs: there is one log stream, and nothing to save."""
    story.put("run/step", "7")
    story.create(STEPS, **TEACHES)
    story.until("Downloading")
    story.interrupt()
    story.until("Starting", "Preparing")
    story.prints_after("Training", "ready")
    story.touch("go")
    story.ended()


@path("spot-interrupted-by-tag", SPOT, BILL, "The tag sagelet:interrupt-after: sagelet's own")
def interrupted_by_tag(story: Story) -> None:
    """The tag interrupts the first attempt after 30 s of Training, the second after 60; the third runs on."""
    story.create(STEPS, **TEACHES, Tags=[{"Key": "sagelet:interrupt-after", "Value": "30 60"}])
    for seconds in (30, 60):
        story.prints_after("Training", "ready")
        story.turn(seconds - 0.001)
        story.look()
        story.turn(0.001)
        story.until("Starting", "Preparing")
    story.prints_after("Training", "ready")
    story.turn(1000)
    story.touch("go")
    story.ended()


@path("spot-interruption-ignored", SPOT, BILL, "The grace of 120 s is that of a stop")
def interruption_ignored(story: Story) -> None:
    """The script does not end on SIGTERM: it is killed after 120 s, and its last checkpoint is there."""
    story.create(
        "cd /opt/ml/checkpoints;f=$(cat step 2>/dev/null);trap 'echo not yet' TERM;echo from ${f:-none};"
        f'[ -n "$f" ]&&exit 0;echo 9 >step;echo ready;{WAIT}',
        **TEACHES,
    )
    story.prints_after("Training", "ready")
    story.interrupt()
    story.prints("not yet")
    story.turn(120)
    story.until("Starting", "Preparing")
    story.ended()


@path("stop-while-interrupted", SPOT, BILL, "A stop wins: Stopping, Stopped; no attempt follows")
def stopped_while_interrupted(story: Story) -> None:
    """StopTrainingJob in the grace of an interruption."""
    story.create(
        f"trap 'echo late>/opt/ml/checkpoints/step;echo saving' TERM;echo ready;{WAIT};exit 1",
        **TEACHES,
    )
    story.prints_after("Training", "ready")
    story.turn(10)
    story.interrupt()
    story.prints("saving")
    story.stop()
    story.touch("go")
    story.ended()


@path(
    "max-runtime-over-attempts", SPOT, "MaxRuntimeInSeconds is for all attempts in total: botocore, StoppingCondition"
)
def max_runtime_over_attempts(story: Story) -> None:
    """The second attempt has what the first left of MaxRuntimeInSeconds."""
    story.create(STEPS, **{**TEACHES, "StoppingCondition": {"MaxRuntimeInSeconds": 100, "MaxWaitTimeInSeconds": 7200}})
    story.prints_after("Training", "ready")
    story.turn(60)
    story.interrupt()
    story.until("Starting", "Preparing")
    story.prints_after("Training", "ready")
    story.turn(40)
    story.ended()


@path("host-vanishes", RETRY, FAILED_UPLOAD, FAILED_END)
def host_vanishes(story: Story) -> None:
    """The platform loses the host of a job without RetryStrategy."""
    story.create(f"echo ready;{WAIT}")
    story.prints_after("Training", "ready")
    story.turn(10)
    story.lose_host()
    story.ended()


@path("host-vanishes-retried", RETRY, SPOT)
def host_vanishes_retried(story: Story) -> None:
    """RetryStrategy grants another attempt, which ends well; on demand all of the time is billed."""
    story.create(f"echo ready;{WAIT};echo end>/opt/ml/model/weights", RetryStrategy={"MaximumRetryAttempts": 1})
    story.prints_after("Training", "ready")
    story.turn(10)
    story.lose_host()
    story.prints_after("Training", "ready")
    story.turn(10)
    story.touch("go")
    story.ended()


@path("host-vanishes-retries-used-up", RETRY, FAILED_UPLOAD, FAILED_END)
def retries_used_up(story: Story) -> None:
    """The second attempt loses its host, too."""
    story.create(f"echo ready;{WAIT}", RetryStrategy={"MaximumRetryAttempts": 1})
    for _ in range(2):
        story.prints_after("Training", "ready")
        story.turn(10)
        story.lose_host()
    story.ended()


@path("algorithm-error-not-retried", RETRY, FAILED_UPLOAD, FAILED_END)
def not_retried(story: Story) -> None:
    """RetryStrategy does not cover a script that fails."""
    story.create("exit 1", RetryStrategy={"MaximumRetryAttempts": 30})
    story.ended()
