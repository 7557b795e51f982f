"""Channels of every kind in one job, read by a real training script on both runtimes."""

import hashlib
import json
import random

from support.channels import channel
from support.jobs import Jobs
from support.on_runtimes import own_by_processes
from support.server import SageletProcess

SCRIPT = """
    import json, os, time

    root = "/opt/ml/input/data/"
    print("listed", sorted(os.listdir(root + "listed")), open(root + "listed/deep/c").read())
    print("manifest", open(root + "listed-manifest").read().split())
    print("fast", open(root + "fast/a").read())
    try:
        open(root + "fast/a", "w")
        print("fast is writable")
    except OSError as error:
        print("fast is read-only:", error.strerror)

    config = json.loads(os.environ["SM_INPUT_DATA_CONFIG"])
    modes = {name: config[name]["TrainingInputMode"] for name in sorted(config)}
    print("modes", modes)
    for epoch in range(2) if "piped" in modes else ():
        path = f"{root}piped_{epoch}"
        while not os.path.exists(path):
            time.sleep(0.01)
        with open(path, "rb") as pipe:
            print("epoch", epoch, pipe.read().decode())
"""


def submit(jobs: Jobs, *channels: dict[str, object]) -> str:
    jobs.s3.create_bucket(Bucket="tests")
    for name in ("a", "b", "deep/c"):
        jobs.s3.put_object(Bucket="tests", Key=f"channels/{name}", Body=f"<{name}>".encode())
    manifest = json.dumps([{"prefix": "s3://tests/channels/"}, "deep/c", "b"])
    jobs.s3.put_object(Bucket="tests", Key="channels.json", Body=manifest.encode())
    return jobs.submit(SCRIPT, InputDataConfig=list(channels))


def test_a_manifest_and_two_epochs_of_a_pipe(jobs: Jobs) -> None:
    """FastFile and Pipe do not go together in one job, as on AWS: the script's `fast` is a file channel here."""
    name = submit(
        jobs,
        channel("s3://tests/channels.json", "listed", kind="ManifestFile"),
        channel("s3://tests/channels/", "fast"),
        channel("s3://tests/channels/", "piped", "Pipe"),
    )
    job = jobs.ended(name)
    log = jobs.log(name)
    assert job["TrainingJobStatus"] == "Completed", (job["FailureReason"], log)
    assert "listed ['b', 'deep'] <deep/c>" in log
    assert "manifest ['channels/', 's3://tests/channels/deep/c', 's3://tests/channels/b']" in log
    assert "fast is writable" in log
    assert [line for line in log if line.startswith("epoch")] == ["epoch 0 <a><b><deep/c>", "epoch 1 <a><b><deep/c>"]
    assert "modes {'fast': 'File', 'listed': 'File', 'piped': 'Pipe'}" in log


def test_a_fast_file_channel_is_read_only(jobs: Jobs) -> None:
    name = submit(
        jobs,
        channel("s3://tests/channels.json", "listed", kind="ManifestFile"),
        channel("s3://tests/channels/", "fast", "FastFile"),
    )
    job = jobs.ended(name)
    log = jobs.log(name)
    assert job["TrainingJobStatus"] == "Completed", (job["FailureReason"], log)
    assert "fast <a>" in log
    assert next(line for line in log if line.startswith("fast is ")).startswith("fast is read-only: ")
    assert "modes {'fast': 'FastFile', 'listed': 'File'}" in log


READER = """
    import hashlib, time

    for epoch in range(2):
        digest = hashlib.sha256()
        with open(f"/opt/ml/input/data/piped_{epoch}", "rb") as pipe:
            for number in range(100):
                print("piece", epoch, number)
                digest.update(pipe.read(30_000))
                time.sleep(0.03)
            rest = len(pipe.read())
        print("epoch", epoch, digest.hexdigest(), rest)
"""


@own_by_processes
def test_a_stream_survives_kill_9_of_the_server(own_server: SageletProcess) -> None:
    jobs = Jobs(own_server)
    data = random.Random(1).randbytes(3_000_000)
    jobs.s3.create_bucket(Bucket="tests")
    jobs.s3.put_object(Bucket="tests", Key="big", Body=data)
    name = jobs.submit(READER, InputDataConfig=[channel("s3://tests/big", "piped", "Pipe")])
    jobs.wait_for_line(name, "piece 0 10")
    own_server.kill()
    own_server.start()
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Completed", job["FailureReason"]
    digest = hashlib.sha256(data).hexdigest()
    assert [line for line in jobs.log(name) if line.startswith("epoch")] == [f"epoch {n} {digest} 0" for n in range(2)]
