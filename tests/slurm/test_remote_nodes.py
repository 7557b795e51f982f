"""`sagelet up --runtime slurm --slurm-files s3`: nodes with nothing of the server's but its address."""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.jobs import objects_below
from support.processing import given, result
from support.server import SageletProcess, until
from support.slurm_cluster import SlurmCluster
from support.slurm_processing import SlurmProcessing
from support.slurm_server import RESUMABLE, WAITING, SlurmJobs

pytestmark = pytest.mark.slurm

#: As an object of the channel: what an entry point may hold is one line.
SCRIPT = b"""
cat /opt/ml/input/data/train/a.txt
echo step > /opt/ml/checkpoints/$(hostname)
echo ready
while [ ! -e "$1" ]; do sleep 0.1; done
echo weights > /opt/ml/model/$(hostname)
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server") / "data"


@pytest.fixture(scope="module")
def cluster(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    data.mkdir()
    cluster = SlurmCluster(tmp_path_factory.mktemp("cluster"), private=data)
    try:
        yield cluster.start()
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def server(data: Path, cluster: SlurmCluster) -> Iterator[SageletProcess]:
    rules = data.with_name("rules.toml")
    rules.write_text('[[rule]]\ntags = { partition = "urgent" }\npartition = "urgent"\n')
    files = ("--slurm-files", "s3", "--slurm-address", "localhost", "--auth", "--tls")
    options = ("--runtime", "slurm", *files, "--slurm-rules", str(rules), "--stop-grace", "20")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in cluster.environment.items():
            patch.setenv(name, value)
        server = SageletProcess(data, *options).start()
        yield server
        server.stop()


def test_inputs_logs_checkpoints_and_models_cross_the_network_also_past_a_killed_server(
    server: SageletProcess, tmp_path: Path
) -> None:
    """With TLS and signatures; the next server goes on where the nodes are."""
    jobs, go = SlurmJobs(server), tmp_path / "go"
    jobs.s3.put_object(Bucket="tests", Key="train/a.txt", Body=b"from S3\n")
    jobs.s3.put_object(Bucket="tests", Key="train/run.sh", Body=SCRIPT)
    name = jobs.run(
        "sh /opt/ml/input/data/train/run.sh {go}",
        go,
        hosts=2,
        InputDataConfig=[
            {
                "ChannelName": "train",
                "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://tests/train"}},
            }
        ],
        CheckpointConfig={"S3Uri": "s3://tests/checkpoints"},
    )
    until(lambda: jobs.lines(name).count("ready") == 2)
    assert jobs.lines(name).count("from S3") == 2
    server.kill()
    go.touch()
    server.start()
    jobs = SlurmJobs(server)
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    uri = job["ModelArtifacts"]["S3ModelArtifacts"].removeprefix("s3://tests/")
    model = jobs.s3.get_object(Bucket="tests", Key=uri)["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(model)) as archive:
        assert sorted(archive.getnames()) == ["algo-1", "algo-2"]
    found = jobs.s3.list_objects_v2(Bucket="tests", Prefix="checkpoints/")["Contents"]
    assert [one["Key"] for one in found] == ["checkpoints/algo-1", "checkpoints/algo-2"]
    assert jobs.lines(name).count("from S3") == 2


def test_a_preempted_job_goes_on_from_its_checkpoint_and_slurms_own_limit_ends_it(
    server: SageletProcess, cluster: SlurmCluster, tmp_path: Path
) -> None:
    """What Slurm tells a script on its node reaches its hosts by the server."""
    jobs, other = SlurmJobs(server), tmp_path / "other"
    name = jobs.run(RESUMABLE, tmp_path / "never", CheckpointConfig={"S3Uri": "s3://tests/resumed"})
    jobs.training(name)
    urgent = jobs.run(WAITING, other, hosts=2, tags={"partition": "urgent"})
    jobs.training(urgent, 2)
    jobs.pending(name, "waiting for capacity")
    assert "Interrupted" in jobs.statuses(name)
    assert jobs.lines(name) == ["ready", "saved"]
    other.touch()
    assert jobs.ended(urgent)["TrainingJobStatus"] == "Completed"
    jobs.training(name, 2)
    cluster.update(f"JobId={cluster.number(name)}", "EndTime=now")
    job = jobs.ended(name)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded")
    # Of the signal to all of its processes a shell may speak, too.
    said = [line for line in jobs.lines(name) if line != "Terminated"]
    assert said[:5] == ["ready", "saved", "41", "ready", "saved"]
    assert all(line.startswith("sagelet doctor: ") for line in said[5:])
    assert jobs.s3.get_object(Bucket="tests", Key="resumed/step")["Body"].read() == b"41\n"


#: Lightning's link, one by an absolute path, and what cannot be an object.
LINKS = (
    "cd /opt/ml/checkpoints; echo 5 >five; ln -s five last.ckpt; ln -s /etc/passwd out; mkfifo pipe; "
    "cd ../model; echo w >w; ln -s /opt/ml/model/w weights; ln -s /etc/passwd out"
)


def test_links_cross_the_network_and_each_file_that_stays_has_a_line(server: SageletProcess) -> None:
    jobs = SlurmJobs(server)
    output = {"S3OutputPath": "s3://tests/links", "CompressionType": "NONE"}
    name = jobs.run(LINKS, CheckpointConfig={"S3Uri": "s3://tests/kept"}, OutputDataConfig=output)
    assert jobs.ended(name)["TrainingJobStatus"] == "Completed"
    assert objects_below(jobs.s3, "kept/") == {"five": b"5\n", "last.ckpt": b"5\n"}
    assert objects_below(jobs.s3, f"links/{name}/output/model/") == {"w": b"w\n", "weights": b"w\n"}
    link = "A link is uploaded if it names a file of the same directory: copy the file there"
    assert sorted(line for line in jobs.lines(name) if "not uploaded" in line) == [
        f"sagelet: warning: not uploaded from /opt/ml/checkpoints: 'out'. {link}",
        "sagelet: warning: not uploaded from /opt/ml/checkpoints: 'pipe'. "
        "Only files go to S3, not pipes, sockets and devices",
        f"sagelet: warning: not uploaded from /opt/ml/model: 'out'. {link}",
    ]


#: Changes its input, writes a part of its outputs at once, and the rest once a file exists.
PROCESS = """
cat /opt/ml/processing/input/rows/*; rm /opt/ml/processing/input/rows/*
echo one >/opt/ml/processing/output/early/$(hostname); echo ready
while [ ! -e {go} ]; do sleep 0.1; done
echo all >/opt/ml/processing/output/late/$(hostname)
echo finished >/opt/ml/output/message
"""


def test_a_processing_jobs_inputs_and_outputs_cross_the_network_also_past_a_killed_server(
    server: SageletProcess, tmp_path: Path
) -> None:
    jobs, go = SlurmProcessing(server), tmp_path / "go"
    rows = jobs.put("rows", a=b"row 1\n", b=b"row 2\n")
    directory = "/opt/ml/processing/output"
    name = jobs.run(
        PROCESS.format(go=go),
        hosts=2,
        ProcessingInputs=[
            given("rows", rows, "/opt/ml/processing/input/rows", S3DataDistributionType="ShardedByS3Key")
        ],
        ProcessingOutputConfig={
            "Outputs": [
                result("early", "s3://tests/early", f"{directory}/early", "Continuous"),
                result("late", "s3://tests/late", f"{directory}/late"),
            ]
        },
    )
    jobs.ready(name, 2)
    until(lambda: jobs.objects("early/") == {"algo-1": b"one\n", "algo-2": b"one\n"})
    assert jobs.objects("late/") == {}
    server.kill()
    go.touch()
    server.start()
    jobs = SlurmProcessing(server)
    job = jobs.ended(name)
    assert (job["ProcessingJobStatus"], job["ExitMessage"]) == ("Completed", "finished\n"), job
    assert jobs.lines(name, "algo-1") == ["row 1", "ready"]
    assert jobs.lines(name, "algo-2") == ["row 2", "ready"]
    assert jobs.objects("late/") == {"algo-1": b"all\n", "algo-2": b"all\n"}


def test_a_processing_job_is_stopped_and_its_outputs_come_back(server: SageletProcess) -> None:
    jobs = SlurmProcessing(server)
    script = "trap 'echo saved >/opt/ml/processing/state/a; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    outputs = {"Outputs": [result("state", "s3://tests/stopped", "/opt/ml/processing/state")]}
    name = jobs.run(script, ProcessingOutputConfig=outputs)
    jobs.ready(name)
    jobs.sagemaker.stop_processing_job(ProcessingJobName=name)
    assert jobs.ended(name)["ProcessingJobStatus"] == "Stopped"
    assert jobs.objects("stopped/") == {"a": b"saved\n"}
