"""Jobs of `sagelet up --runtime slurm`, on a cluster of two nodes of one CPU each."""

from pathlib import Path

import pytest

from support.server import ENDED, SageletProcess, until
from support.slurm_cluster import SlurmCluster
from support.slurm_server import RESUMABLE, WAITING, SlurmJobs

pytestmark = pytest.mark.slurm


def test_a_job_of_two_nodes_completes(jobs: SlurmJobs, slurm_cluster: SlurmCluster) -> None:
    # A second, so that there is one to bill.
    script = "echo $(hostname) sees $(grep -c algo- /etc/hosts); echo model > /opt/ml/model/weights; sleep 1"
    name = jobs.run(script, hosts=2)
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert sorted(jobs.lines(name)) == ["algo-1 sees 2", "algo-2 sees 2"]
    assert jobs.artifact(name)["weights"] == b"model\n"
    assert job["BillableTimeInSeconds"] == job["TrainingTimeInSeconds"] > 0
    statuses = jobs.statuses(name)
    assert [one for one in statuses if one != "Pending"] == [
        "Starting",
        "Downloading",
        "Training",
        "Uploading",
        "Completed",
    ]
    told = slurm_cluster.run("squeue", "--noheader", "--states=all", f"--name={name}", "--Format=NumNodes,State")
    assert told.split() == ["2", "COMPLETED"]


def test_a_job_that_has_to_wait_says_why_in_slurms_words(jobs: SlurmJobs, go: Path) -> None:
    first = jobs.run(WAITING, go, hosts=2)
    jobs.training(first, 2)
    second = jobs.run("true")
    message = jobs.pending(second, "Resources")
    assert message == "Training job waiting for capacity (Resources)"
    assert "TrainingStartTime" not in jobs.describe(second)
    go.touch()
    assert jobs.ended(first)["TrainingJobStatus"] == "Completed"
    assert jobs.ended(second)["TrainingJobStatus"] == "Completed"


def test_a_waiting_job_is_stopped_and_leaves_slurms_queue(
    jobs: SlurmJobs, slurm_cluster: SlurmCluster, go: Path
) -> None:
    first = jobs.run(WAITING, go, hosts=2)
    jobs.training(first, 2)
    second = jobs.run("echo never")
    jobs.pending(second, "Resources")
    jobs.sagemaker.stop_training_job(TrainingJobName=second)
    assert jobs.ended(second)["TrainingJobStatus"] == "Stopped"
    assert jobs.lines(second) == []
    until(lambda: slurm_cluster.run("squeue", "--noheader", "--states=pending").strip() == "")


def test_stop_gives_the_script_its_grace(jobs: SlurmJobs, go: Path) -> None:
    name = jobs.run("trap 'echo saving; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done")
    jobs.training(name)
    jobs.sagemaker.stop_training_job(TrainingJobName=name)
    assert jobs.ended(name)["TrainingJobStatus"] == "Stopped"
    assert jobs.lines(name) == ["ready", "saving", "saved"]


def test_a_host_that_fails_ends_the_others(jobs: SlurmJobs) -> None:
    script = "echo ready; [ $(hostname) = algo-1 ] && exec sleep 600; exit 9"
    job = jobs.ended(jobs.run(script, hosts=2))
    assert job["FailureReason"] == "AlgorithmError: , exit code: 9"


def test_the_time_limit(jobs: SlurmJobs) -> None:
    name = jobs.run("trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done", max_runtime=2)
    job = jobs.ended(name)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded")
    said = jobs.lines(name)
    assert said[:2] == ["ready", "saved"]
    assert "sagelet doctor: warning time-limit: The job was ended when it had run for" in said[3]


def test_a_limit_that_slurm_itself_enforces(jobs: SlurmJobs, slurm_cluster: SlurmCluster) -> None:
    """As when no server is there to do it."""
    name = jobs.run("trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done")
    jobs.training(name)
    slurm_cluster.update(f"JobId={slurm_cluster.number(name)}", "EndTime=now")
    job = jobs.ended(name)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded")
    # At the very end Slurm signals all processes, the shell's `sleep` among them, of which the shell speaks.
    assert set(jobs.lines(name)) >= {"ready", "saved"}


def test_a_preempted_job_starts_again_from_its_checkpoint(
    jobs: SlurmJobs, slurm_cluster: SlurmCluster, go: Path, tmp_path: Path
) -> None:
    checkpoints = {"CheckpointConfig": {"S3Uri": "s3://tests/checkpoints"}}
    name = jobs.run(RESUMABLE, go, hosts=1, **checkpoints)
    jobs.training(name)
    other = tmp_path / "other"
    urgent = jobs.run(WAITING, other, hosts=2, tags={"partition": "urgent"})
    jobs.training(urgent, 2)
    jobs.pending(name, "Training job waiting for capacity")
    assert jobs.lines(name) == ["ready", "saved"]
    assert "Interrupted" in jobs.statuses(name)
    other.touch()
    jobs.training(name, 2)
    go.touch()
    assert jobs.ended(name)["TrainingJobStatus"] == "Completed"
    assert jobs.lines(name) == ["ready", "saved", "41", "ready", "done"]
    assert jobs.ended(urgent)["TrainingJobStatus"] == "Completed"


def test_a_node_that_dies_is_an_internal_fault_which_retries_cover(
    jobs: SlurmJobs, slurm_cluster: SlurmCluster, go: Path
) -> None:
    name = jobs.run(WAITING, go, hosts=2, RetryStrategy={"MaximumRetryAttempts": 1})
    jobs.training(name, 2)
    slurm_cluster.kill_node("n2")
    until(lambda: "Restarting" in jobs.statuses(name) or jobs.failed(name))
    jobs.pending(name, "waiting for capacity")
    (restarting,) = [one for one in jobs.describe(name)["SecondaryStatusTransitions"] if one["Status"] == "Restarting"]
    assert "NODE_FAIL" in restarting["StatusMessage"]
    slurm_cluster.start_node("n2")
    jobs.training(name, 4)
    go.touch()
    assert jobs.ended(name)["TrainingJobStatus"] == "Completed"


def test_the_controller_restarts_in_the_middle_of_a_job(jobs: SlurmJobs, slurm_cluster: SlurmCluster, go: Path) -> None:
    name = jobs.run(WAITING, go, hosts=2)
    jobs.training(name, 2)
    slurm_cluster.stop_controller()
    waiting = jobs.run("echo later")
    jobs.pending(waiting, "Unable to contact slurm controller")
    assert jobs.describe(name)["SecondaryStatus"] == "Training"
    slurm_cluster.start_controller()
    go.touch()
    assert jobs.ended(name)["TrainingJobStatus"] == "Completed"
    assert sorted(jobs.lines(name)) == ["done", "done", "ready", "ready"]
    assert jobs.ended(waiting)["TrainingJobStatus"] == "Completed"


def test_a_job_ends_while_the_controller_is_away(jobs: SlurmJobs, slurm_cluster: SlurmCluster, go: Path) -> None:
    name = jobs.run(WAITING, go)
    jobs.training(name)
    slurm_cluster.stop_controller()
    go.touch()
    until(lambda: "done" in jobs.lines(name))
    slurm_cluster.start_controller()
    assert jobs.ended(name)["TrainingJobStatus"] == "Completed"


def test_a_server_that_is_killed_adopts_what_runs_and_what_waits(
    server: SageletProcess, slurm_cluster: SlurmCluster, jobs: SlurmJobs, go: Path
) -> None:
    running = jobs.run(WAITING, go, hosts=2)
    jobs.training(running, 2)
    waiting = jobs.run("echo once")
    jobs.pending(waiting, "Resources")
    before = {slurm_cluster.number(running), slurm_cluster.number(waiting)}
    server.kill()
    go.touch()
    until(lambda: slurm_cluster.run("squeue", "--noheader", "--states=running", f"--name={running}").strip() == "")
    server.start()
    again = SlurmJobs(server)
    assert again.ended(running)["TrainingJobStatus"] == "Completed"
    assert sorted(again.lines(running)) == ["done", "done", "ready", "ready"]
    assert again.ended(waiting)["TrainingJobStatus"] == "Completed"
    assert again.lines(waiting) == ["once"]
    assert {slurm_cluster.number(running), slurm_cluster.number(waiting)} == before


def test_fifty_jobs_drain_in_order(jobs: SlurmJobs, slurm_cluster: SlurmCluster, tmp_path: Path) -> None:
    order = tmp_path / "order"
    gate = jobs.run(WAITING, tmp_path / "gate", hosts=2)
    jobs.training(gate, 2)
    names = [jobs.run(f"echo {number} >> {order}") for number in range(50)]
    until(lambda: len(slurm_cluster.run("squeue", "--noheader", "--states=pending").splitlines()) == 50)
    (tmp_path / "gate").touch()
    until(lambda: all(jobs.describe(name)["TrainingJobStatus"] in ENDED for name in names), 600, every=1)
    assert {jobs.describe(name)["TrainingJobStatus"] for name in names} == {"Completed"}
    ran = [int(line) for line in order.read_text().splitlines()]
    assert sorted(ran) == list(range(50))
    starts = slurm_cluster.starts()
    begun = [starts[name] for name in names]
    assert begun == sorted(begun)


def test_drained_nodes_are_waited_for(jobs: SlurmJobs, slurm_cluster: SlurmCluster) -> None:
    for node in slurm_cluster.nodes:
        slurm_cluster.update(f"NodeName={node}", "State=DRAIN", "Reason=broken")
    name = jobs.run("true")
    assert "DRAINED" in jobs.pending(name, "DRAINED")
    slurm_cluster.heal()
    assert jobs.ended(name)["TrainingJobStatus"] == "Completed"


@pytest.mark.parametrize(
    ("hosts", "tags", "reason"),
    [
        (1, {"partition": "gone"}, "ClientError: Slurm: Batch job submission failed: Invalid partition name specified"),
        (3, {}, "CapacityError: Slurm: Batch job submission failed: "),
        (1, {"team": "banned"}, "ClientError: this team has no hours left"),
    ],
)
def test_refused_submissions(jobs: SlurmJobs, hosts: int, tags: dict[str, str], reason: str) -> None:
    job = jobs.ended(jobs.run("true", hosts=hosts, tags=tags))
    assert job["FailureReason"].startswith(reason)
    assert "TrainingStartTime" not in job


def test_a_tag_chooses_the_partition(jobs: SlurmJobs, slurm_cluster: SlurmCluster) -> None:
    name = jobs.run("true", tags={"partition": "tiny"})
    assert jobs.ended(name)["TrainingJobStatus"] == "Completed"
    told = slurm_cluster.run("squeue", "--noheader", "--states=all", f"--name={name}", "--Format=Partition")
    assert told.split() == ["tiny"]


def test_a_job_that_somebody_cancels_in_slurm(jobs: SlurmJobs, slurm_cluster: SlurmCluster, go: Path) -> None:
    name = jobs.run(WAITING, go)
    jobs.training(name)
    slurm_cluster.run("scancel", slurm_cluster.number(name))
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Failed"
    assert "cancelled by somebody other than sagelet" in jobs.message(name) + job["FailureReason"]
