"""A warm pool on a running server: its cache reaches the next matching job over `kill -9`, and no other job."""

from pathlib import Path

from support.jobs import Jobs
from support.on_runtimes import own_in_docker
from support.server import SageletProcess, until

SCRIPT = """
    import os
    cache = os.environ.get("SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY")
    print("cache", cache, sorted(os.listdir(cache)) if cache else None, flush=True)
    if cache:
        assert cache == "/opt/ml/sagemaker/warmpoolcache"
        os.makedirs(f"{cache}/compiled/deep", exist_ok=True)
        open(f"{cache}/{os.environ['TRAINING_JOB_NAME']}", "w").close()
"""
CACHE = "cache /opt/ml/sagemaker/warmpoolcache"


def ran(jobs: Jobs, name: str, **resources: int) -> str:
    """Runs the script to its end. Returns what it saw."""
    jobs.submit(SCRIPT, name=name, resources=resources)
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    (line,) = [line for line in jobs.log(name) if line.startswith("cache ")]
    return line


def pool(jobs: Jobs, name: str) -> dict[str, object] | None:
    found: dict[str, object] | None = jobs.describe(name).get("WarmPoolStatus")
    return found


@own_in_docker
def test_the_next_matching_job_gets_the_cache_and_no_other(own_server: SageletProcess, tmp_path: Path) -> None:
    jobs = Jobs(own_server)
    assert ran(jobs, "one", KeepAlivePeriodInSeconds=3600) == f"{CACHE} []"
    assert pool(jobs, "one") == {"Status": "Available"}
    own_server.kill()
    own_server.start()
    assert ran(jobs, "plain", VolumeSizeInGB=11) == "cache None None"
    assert ran(jobs, "other", VolumeSizeInGB=12, KeepAlivePeriodInSeconds=3600) == f"{CACHE} []"
    assert pool(jobs, "one") == {"Status": "Available"}
    assert ran(jobs, "two", KeepAlivePeriodInSeconds=3600) == f"{CACHE} ['compiled', 'one']"
    one = pool(jobs, "one")
    assert one is not None
    assert (one["Status"], one["ReusedByJob"]) == ("Reused", "two")
    assert ran(jobs, "three") == f"{CACHE} ['compiled', 'one', 'two']"
    assert pool(jobs, "three") == {"Status": "Terminated", "ResourceRetainedBillableTimeInSeconds": 0}
    assert ran(jobs, "four") == "cache None None"
    jobs.sagemaker.update_training_job(TrainingJobName="other", ResourceConfig={"KeepAlivePeriodInSeconds": 0})
    until(lambda: list((tmp_path / "data" / "warm-pools").iterdir()) == [])
