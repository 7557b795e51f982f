"""Paths by what a job leaves: metrics, outputs, checkpoints, and its name."""

from support.story import Story
from support.transcripts import path
from transcripts.ends import CLOCK, WAIT

FLOAT32 = (
    "FinalMetricDataList: group 1 of the regex, the last value as float32, whole seconds: public DescribeTrainingJob "
    "outputs (0.0036 reads 0.003599999938160181)"
)


@path("metrics", FLOAT32, "CloudWatch: namespace /aws/sagemaker/TrainingJobs, dimension TrainingJobName: AWS's guide")
def metrics(story: Story) -> None:
    """Numbers in the log become FinalMetricDataList and points in CloudWatch; no match, no point."""
    definitions = [
        {"Name": "loss", "Regex": "'loss': ([0-9.]*)"},
        {"Name": "rate", "Regex": r"'learning_rate': ([0-9]+(.|e\-)[0-9]+)"},
        {"Name": "never", "Regex": "accuracy=([0-9.]+)"},
    ]
    story.create(
        f"echo \"{{'loss': 0.5, 'learning_rate': 2.38e-05}}\";echo ready;{WAIT};echo \"{{'loss': 0.0036}}\"",
        algorithm={"MetricDefinitions": definitions},
    )
    story.prints_after("Training", "ready")
    story.turn(61.5)
    story.touch("go")
    story.ended()
    story.reads_metric("loss")


@path(
    "compression-none", "CompressionType NONE: files under output/model/, and no archive; that keys are so is inferred"
)
def compression_none(story: Story) -> None:
    """Model and output go up as files."""
    story.create(
        "cd /opt/ml;mkdir model/deep;echo w>model/deep/weights;echo n>output/data/notes",
        OutputDataConfig={"S3OutputPath": "s3://$BUCKET/out/", "CompressionType": "NONE"},
    )
    story.ended()


@path(
    "nothing-to-upload",
    CLOCK,
    "ModelArtifacts is required in DescribeTrainingJob: botocore; an empty directory leaves no object",
)
def nothing_to_upload(story: Story) -> None:
    """A script that saves nothing: the job completes, and S3 holds nothing of it."""
    story.create("echo nothing")
    story.ended()


@path(
    "checkpoints",
    "Restored at start; synced out while the job runs, as they are; deletions propagate; what others put there stays: "
    "developer guide, checkpoints",
)
def checkpoints(story: Story) -> None:
    """One checkpoint is restored and deleted, another comes while the job runs, a third in its last moment."""
    story.put("run/old", "restored")
    story.create(
        "cd /opt/ml/checkpoints;cat old;echo;mkdir deep;printf 1 >deep/step;"
        f"{WAIT};rm old;printf 2 >deep/step;"
        "until [ -e /opt/ml/end ];do sleep 0.05;done;printf 3 >last",
        CheckpointConfig={"S3Uri": "s3://$BUCKET/run", "LocalPath": "/opt/ml/checkpoints"},
    )
    story.prints_after("Training", "restored")
    story.finds("run/deep/step", "1")
    story.put("run/of-others", "stays")
    story.touch("go")
    story.finds("run/old", None)
    story.finds("run/deep/step", "2")
    story.touch("end")
    story.ended()


@path(
    "network-isolation",
    "EnableNetworkIsolation: no traffic in or out of the container; channels and outputs still work: developer guide",
)
def network_isolation(story: Story) -> None:
    """The container has its loopback only; its data is there, its model comes out."""
    story.put("in/a.txt", "hello")
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://$BUCKET/in"}}
    story.create(
        "cat /opt/ml/input/data/training/a.txt;echo;while read a b;do case $a in *:)echo interface $a;;esac;"
        "done</proc/net/dev;echo w>/opt/ml/model/weights",
        EnableNetworkIsolation=True,
        InputDataConfig=[{"ChannelName": "training", "DataSource": source}],
    )
    story.ended()


@path(
    "deleted-and-used-again",
    "DeleteTrainingJob: terminal jobs only, all metadata is lost, the name may be used again: botocore",
    "A missing job: ValidationException, Requested resource not found.: aws/aws-sdk#165, boto/boto3#2808",
    "The text for a job that has not ended is sagelet's; ResourceInUse is the modelled error",
)
def deleted(story: Story) -> None:
    """Refused while the job runs; then nothing is left of it but what is in S3, and its name is free."""
    story.create(f"echo first;{WAIT};echo 1 >/opt/ml/model/weights")
    story.prints_after("Training", "first")
    story.delete()
    story.touch("go")
    story.ended()
    story.create_refused()
    story.delete()
    story.describe_refused()
    story.create("echo second;echo 2 >/opt/ml/output/data/notes")
    story.ended()
