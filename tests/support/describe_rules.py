"""Rules that every DescribeTrainingJob answer follows, whatever the job's status.

The rules about times come from public DescribeTrainingJob outputs of real jobs, and from the members' documentation in
botocore's model.
"""

from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any

TERMINAL = ("Completed", "Failed", "Stopped")
#: Members that may or may not be there while the job goes on.
OPTIONAL = (
    "TrainingStartTime", "TrainingEndTime", "TrainingTimeInSeconds", "BillableTimeInSeconds", "FailureReason",
    "FinalMetricDataList",
)  # fmt: skip
#: A request member that the answer does not simply repeat: it fills in what was left out.
FILLED_IN = ("InputDataConfig", "OutputDataConfig", "Tags")


def check(request: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
    """Checks an answer. Fails with the rule that is broken."""
    for name, value in request.items():
        assert name in FILLED_IN or answer[name] == value, f"{name} is not echoed"
    _check_transitions(answer)
    _check_clock(answer)
    assert ("FailureReason" in answer) == (answer["TrainingJobStatus"] == "Failed")
    assert len(answer.get("FailureReason", "")) <= 1024


def _check_transitions(answer: Mapping[str, Any]) -> None:
    entries = answer["SecondaryStatusTransitions"]
    assert entries[0]["StartTime"] == answer["CreationTime"]
    for entry, following in pairwise(entries):
        assert entry["EndTime"] == following["StartTime"], "each EndTime is the next StartTime"
        assert entry["Status"] != following["Status"], "one entry a status, its message updated in place"
    last = entries[-1]
    assert last["Status"] == answer["SecondaryStatus"]
    if answer["TrainingJobStatus"] in TERMINAL:
        assert last["EndTime"] == last["StartTime"]
    else:
        assert "EndTime" not in last
    assert answer["LastModifiedTime"] >= last["StartTime"]
    for entry in entries:
        assert entry["StartTime"].microsecond % 1000 == 0, "times have milliseconds"


def _check_clock(answer: Mapping[str, Any]) -> None:
    entries = answer["SecondaryStatusTransitions"]
    downloads = [entry["StartTime"] for entry in entries if entry["Status"] == "Downloading"]
    assert answer.get("TrainingStartTime") == next(iter(downloads), None), "the start of the first Downloading"
    ended = answer["TrainingJobStatus"] in TERMINAL and bool(downloads)
    for name in ("TrainingEndTime", "TrainingTimeInSeconds", "BillableTimeInSeconds"):
        assert (name in answer) == ended, f"{name} is there once a job that was billed has ended"
    if not ended:
        return
    end = answer["TrainingEndTime"]
    assert end == _end(answer)
    spot = bool(answer.get("EnableManagedSpotTraining"))
    seconds = _floor(end) - _floor(answer["TrainingStartTime"])
    assert answer["TrainingTimeInSeconds"] == max(seconds, int(spot)), "whole epoch seconds, end minus start"
    billed = answer["BillableTimeInSeconds"]
    assert 0 < billed <= answer["TrainingTimeInSeconds"] if spot else billed == answer["TrainingTimeInSeconds"]


def _end(answer: Mapping[str, Any]) -> datetime:
    """Returns the end: after the upload, or when a failure was detected (botocore: TrainingEndTime)."""
    entries = answer["SecondaryStatusTransitions"]
    detected = answer["TrainingJobStatus"] == "Failed" and entries[-2]["Status"] == "Uploading"
    time: datetime = entries[-2 if detected else -1]["StartTime"]
    return time


def _floor(time: datetime) -> int:
    return int(time.timestamp())
