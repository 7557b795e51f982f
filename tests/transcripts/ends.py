"""Paths of jobs that end by themselves, well or not."""

from support.story import Story
from support.transcripts import path

SDK_OUTPUT = (
    "Texts and order: what SageMaker SDK v2 printed of real jobs in 2024, Starting to Completed; one entry a status, "
    "its message updated in place: public DescribeTrainingJob outputs"
)
CLOCK = (
    "TrainingStartTime is the start of Downloading, TrainingTimeInSeconds whole epoch seconds, end minus start, billed "
    "in full on demand: public DescribeTrainingJob outputs"
)
FAILED_END = "TrainingEndTime of a failed job is when the failure was detected, before the upload: botocore"
FAILED_UPLOAD = "Uploading comes before Failed: aws/amazon-sagemaker-examples#3444, aws/sagemaker-python-sdk#658"
EXIT_CODE = "AlgorithmError: FAILURE FILE, exit code: N; without a file its text is empty: FailureReasons of real jobs"
WAIT = "until [ -e /opt/ml/go ];do sleep 0.05;done"


@path("completed", SDK_OUTPUT, CLOCK, "S3OutputPath/JOB/output/model.tar.gz and output.tar.gz: developer guide")
def completed(story: Story) -> None:
    """A job with a channel that trains for a minute and ends well."""
    story.put("in/deep/a.txt", "hello")
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://$BUCKET/in"}}
    story.create(
        f"cd /opt/ml;cat input/data/training/deep/a.txt;echo;echo ready;{WAIT};"
        "echo w>model/weights;echo n>output/data/notes;echo '  done'",
        InputDataConfig=[{"ChannelName": "training", "DataSource": source}],
    )
    story.prints_after("Training", "ready")
    story.turn(60.25)
    story.touch("go")
    story.ended()


@path(
    "completed-after-waiting-for-capacity",
    SDK_OUTPUT,
    CLOCK,
    "Pending, then Preparing, in one entry: SDK v2's print of real jobs",
    "Waiting is not billed: it is before Downloading",
)
def waited_for_capacity(story: Story) -> None:
    """A job that finds every place taken; its time of waiting is not billed."""
    other = story.another("other")
    other.create("until [ -e /opt/ml/free ];do sleep 0.05;done")
    other.waits_for("Training")
    story.create("echo my turn>/opt/ml/model/weights")
    story.until("Pending")
    story.turn(600)
    story.touch("free")
    story.ended()


@path("script-error", EXIT_CODE, FAILED_UPLOAD, FAILED_END, CLOCK, "The model is uploaded after a failure, too")
def script_error(story: Story) -> None:
    """The script leaves a failure file, a model and an exit code, as the training toolkit does."""
    story.create(
        f"cd /opt/ml;echo ready;{WAIT};echo half>model/weights;echo n>output/data/notes;"
        "printf 'ExecuteUserScriptError:\\nExitCode 1\\nErrorMessage \"boom\"'>output/failure;echo boom;exit 1"
    )
    story.prints_after("Training", "ready")
    story.turn(20)
    story.touch("go")
    story.ended()


@path("no-failure-file", EXIT_CODE, FAILED_UPLOAD, FAILED_END)
def silent_error(story: Story) -> None:
    """The script ends with an exit code and says nothing."""
    story.create("exit 1")
    story.ended()


@path("empty-failure-file", EXIT_CODE, FAILED_UPLOAD, FAILED_END)
def empty_failure_file(story: Story) -> None:
    """A failure file with nothing in it: AWS's text is empty, whatever the log says."""
    story.create("touch /opt/ml/output/failure;echo a cause in the log;exit 3")
    story.ended()


@path(
    "failure-file-and-exit-code-0",
    "A failure file fails the job, whatever the exit code: examples/retcode of simple_sagemaker, run on AWS",
    FAILED_UPLOAD,
)
def failure_file_alone(story: Story) -> None:
    """A failure file fails the job even with exit code 0."""
    story.create("printf 'the data is empty'>/opt/ml/output/failure")
    story.ended()


@path(
    "failure-text-cut",
    EXIT_CODE,
    "FailureReason has at most 1024 characters: botocore; that the exit code stays is sagelet's choice",
)
def long_failure(story: Story) -> None:
    """A failure file of 3,000 characters is cut to AWS's limit."""
    story.create("i=0;while [ $i -lt 300 ];do printf 0123456789;i=$((i+1));done>/opt/ml/output/failure;exit 7")
    story.ended()


@path(
    "killed",
    EXIT_CODE,
    "128 + 9: how Docker reports a container whose first process was killed; AWS shows the container's exit code",
)
def killed(story: Story) -> None:
    """Something kills the script: exit code 137, and no failure file. Nothing says that memory was full."""
    story.create("echo allocating;kill -9 $$")
    story.ended()


@path(
    "bad-image",
    "ClientError is AWS's word for a fault of the request; the text is sagelet's and names the remedy",
    "Members of the training clock may be absent on an early failure: botocore, DescribeTrainingJob",
)
def bad_image(story: Story) -> None:
    """An image that nothing stands in for: the job never gets to Downloading, and is not billed."""
    story.create("true", image="my/own:1")
    story.ended()


@path(
    "data-download-failure",
    "ClientError: Data download failed:... FailureReason of real jobs; No S3 objects found...: "
    "aws/amazon-sagemaker-examples#2489",
    CLOCK,
)
def data_download_failure(story: Story) -> None:
    """The channel's only object goes between CreateTrainingJob and Downloading."""
    story.put("in/a.txt", "hello")
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://$BUCKET/in"}}
    story.create("true", InputDataConfig=[{"ChannelName": "training", "DataSource": source}])
    story.until("Starting", "Preparing")
    story.remove("in/a.txt")
    story.ended()
