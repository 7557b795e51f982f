"""Containers and processes that mean harm: each ends as a job that says why, and its neighbour never notices.

SAGELET_TEST_FLOOD=N is the number of lines of the flood.
"""

import os
import tarfile
from io import BytesIO

from support.server import until
from support.shell_jobs import Neighbour, ShellJobs

LINES = int(os.environ.get("SAGELET_TEST_FLOOD", "100000"))


def test_a_flood_of_lines(shell_jobs: ShellJobs, neighbour: Neighbour) -> None:
    name = shell_jobs.start(f"$B yes 0123456789abcdef | $B head -n {LINES}; echo last")
    until(lambda: shell_jobs.streams(name))
    neighbour.lives()
    job = shell_jobs.ended(name)
    assert job["TrainingJobStatus"] == "Completed", job
    page = shell_jobs.logs.get_log_events(
        logGroupName="/aws/sagemaker/TrainingJobs",
        logStreamName=shell_jobs.streams(name)[0]["logStreamName"],
        startFromHead=False,
        limit=1,
    )
    assert [event["message"] for event in page["events"]] == ["last"]
    assert int(page["nextForwardToken"].partition("/")[2]) == LINES + 1
    assert neighbour.grown_mib() < 200


def test_lines_that_are_none(shell_jobs: ShellJobs, neighbour: Neighbour) -> None:
    """10 MB without an end of line, bytes that are not UTF-8, NULs, a progress bar, escapes of a terminal."""
    name = shell_jobs.start(
        "$B dd if=/dev/zero bs=1000 count=10000 2>/dev/null | $B tr '\\0' x; echo; printf '\\377\\376 \\303\\n';"
        " printf 'a\\0b\\n'; for i in 1 2 3; do printf \"\\r$i%%\"; done; echo;"
        " printf '\\033]0;title\\007\\033[31mred\\n'"
    )
    job = shell_jobs.ended(name)
    assert job["TrainingJobStatus"] == "Completed", job
    log = shell_jobs.log(name)
    assert "".join(log[:-4]) == "x" * 10_000_000
    assert max(len(line) for line in log) <= 256 * 1024
    assert log[-4:] == ["\ufffd\ufffd \ufffd", "a\0b", "\r1%\r2%\r3%", "\x1b]0;title\x07\x1b[31mred"]


def test_a_regex_that_backtracks_for_ever(shell_jobs: ShellJobs, neighbour: Neighbour) -> None:
    metrics = [{"Name": "evil", "Regex": "(a+)+$"}, {"Name": "loss", "Regex": "loss=([0-9.]+)"}]
    name = shell_jobs.start("echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!; echo loss=0.5", metrics=metrics)
    job = shell_jobs.ended(name)
    assert job["TrainingJobStatus"] == "Completed", job
    assert [(one["MetricName"], one["Value"]) for one in job["FinalMetricDataList"]] == [("loss", 0.5)]


def test_sigterm_ignored(shell_jobs: ShellJobs, neighbour: Neighbour) -> None:
    name = shell_jobs.start("trap '' TERM INT HUP; echo deaf; while true; do $B usleep 100000; done")
    shell_jobs.wait_for_line(name, "deaf")
    assert shell_jobs.stopped(name)["TrainingJobStatus"] == "Stopped"


def test_a_huge_failure_file(shell_jobs: ShellJobs, neighbour: Neighbour) -> None:
    name = shell_jobs.start("$B yes fail | $B head -c 50000000 > /opt/ml/output/failure; exit 3")
    job = shell_jobs.ended(name)
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("AlgorithmError: fail")
    assert job["FailureReason"].endswith("exit code: 3")
    assert len(job["FailureReason"]) == 1024
    assert neighbour.grown_mib() < 100


def test_a_failure_file_that_is_none(shell_jobs: ShellJobs, neighbour: Neighbour) -> None:
    for make in ("$B mkfifo", "$B ln -s /etc/passwd", "$B mkdir"):
        job = shell_jobs.ended(shell_jobs.start(f"{make} /opt/ml/output/failure; exit 4"))
        assert job["FailureReason"] == "AlgorithmError: , exit code: 4", make


def test_a_model_of_links_pipes_and_depths(shell_jobs: ShellJobs, neighbour: Neighbour) -> None:
    """Only files and links are kept. Links stay links, and show nothing of this machine."""
    name = shell_jobs.start(
        "cd /opt/ml/model; echo good > good; $B ln -s /etc/passwd out; $B ln -s /proc/1/environ env; $B ln -s . loop;"
        " $B mkfifo pipe; $B ln good hard; printf x > \"$(printf 'new\\nline')\"; printf x > \"$(printf '\\377')\";"
        " i=0; while [ $i -lt 300 ]; do $B mkdir d; cd d; i=$((i+1)); done; echo deep > deep; cd /opt/ml/model;"
        " i=0; while [ $i -lt 2000 ]; do : > f$i; i=$((i+1)); done"
    )
    job = shell_jobs.ended(name)
    assert job["TrainingJobStatus"] == "Completed", job
    body = shell_jobs.s3.get_object(Bucket="tests", Key=f"out/{name}/output/model.tar.gz")["Body"].read()
    with tarfile.open(fileobj=BytesIO(body), errors="surrogateescape") as model:
        members = {member.name: member for member in model}
        assert model.extractfile(members["good"]).read() == b"good\n"  # type: ignore[union-attr]
    assert "pipe" not in members
    assert {name: members[name].linkname for name in ("out", "env", "loop")} == {
        "out": "/etc/passwd",
        "env": "/proc/1/environ",
        "loop": ".",
    }
    assert {"new\nline", "\udcff", "d/" * 300 + "deep", "f1999"} <= members.keys()


def test_a_model_that_only_pretends_to_be_large(shell_jobs: ShellJobs, neighbour: Neighbour) -> None:
    """A petabyte of holes takes no disk, and would take for ever to pack."""
    name = shell_jobs.start("$B truncate -s 8000G /opt/ml/model/holes")
    job = shell_jobs.ended(name)
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("ClientError: ")
    assert "VolumeSizeInGB" in job["FailureReason"]
