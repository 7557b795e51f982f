"""A client of one job that writes down everything it does and sees."""

import io
import json
import tarfile
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from sagelet_engine.images.variants import training_image
from support.describe_rules import OPTIONAL, TERMINAL, check
from support.server import GROUP, ROLE, until
from support.transcripts import Stage, Step, Transcript

#: The lab's clock begins at this whole second, so that sums of whole seconds are easy to read.
BEGINNING = 1_700_000_000
PATIENCE = 120.0
#: Seconds that the client lets pass at each status.
DWELL = 1.3
RESULT = ("TrainingJobStatus", "SecondaryStatus", "ModelArtifacts", "CreationTime", "LastModifiedTime")


class Story:
    """A client. Everything goes through boto3, except for what happens around the server (`stage`)."""

    def __init__(self, stage: Stage, name: str, *, watched: bool = True) -> None:
        self.name = name
        self._watched = watched
        self.stage = stage
        self.sagemaker, self.s3, self.logs = (stage.client(service) for service in ("sagemaker", "s3", "logs"))
        self._bucket = f"{name}-{uuid.uuid4().hex[:8]}"[-63:].strip("-")
        self.s3.create_bucket(Bucket=self._bucket)
        self._events: list[dict[str, Any]] = []
        self._request: dict[str, Any] = {}
        self._held: Step | None = None
        self._printed: Counter[str] = Counter()
        #: The number of entries of SecondaryStatusTransitions waited for so far.
        self._passed = 0

    # --- what the client does -----------------------------------------------------------------------------------

    def create(self, script: str, **changes: Any) -> None:
        """Calls CreateTrainingJob with `sh -c SCRIPT`. `$BUCKET` in a value is the story's bucket."""
        algorithm = {
            "TrainingImage": changes.pop("image", self.stage.image),
            "TrainingInputMode": "File",
            "ContainerEntrypoint": changes.pop("entrypoint", ["/bin/sh", "-c", script]),
            **changes.pop("algorithm", {}),
        }
        request = {
            "TrainingJobName": self.name,
            "AlgorithmSpecification": algorithm,
            "RoleArn": ROLE,
            "OutputDataConfig": {"S3OutputPath": "s3://$BUCKET/out"},
            "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 10},
            "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
            **changes,
        }
        self._request = json.loads(json.dumps(request).replace("$BUCKET", self._bucket))
        if self._watched:
            self.stage.watch(self.name)
        answer = self.sagemaker.create_training_job(**self._request)
        self._note(call="CreateTrainingJob", request=self._request, answers=_members(answer))

    def stop(self) -> None:
        self._stand_still()
        self._call("StopTrainingJob", self.sagemaker.stop_training_job)
        self.look()

    def delete(self) -> None:
        self._call("DeleteTrainingJob", self.sagemaker.delete_training_job)

    def describe_refused(self) -> None:
        self._call("DescribeTrainingJob", self.sagemaker.describe_training_job)

    def interrupt(self) -> None:
        self._stand_still()
        self.stage.interrupt(self.name)
        self._note(call=f"POST /_sagelet/jobs/{self.name}/interrupt")
        self.look()

    def put(self, key: str, text: str) -> None:
        self.s3.put_object(Bucket=self._bucket, Key=key, Body=text.encode())
        self._note(call="PutObject", key=key, body=text)

    def remove(self, key: str) -> None:
        self.s3.delete_object(Bucket=self._bucket, Key=key)
        self._note(call="DeleteObject", key=key)

    def stop_refused(self) -> None:
        """Calls StopTrainingJob for a job that has ended."""
        self._call("StopTrainingJob", self.sagemaker.stop_training_job)

    def create_refused(self) -> None:
        """Calls CreateTrainingJob again with the same request."""
        self._call("CreateTrainingJob", lambda **_: self.sagemaker.create_training_job(**self._request))

    def reads_metric(self, name: str) -> None:
        """Reads the average of each minute, as SDK v2's TrainingJobAnalytics does."""
        job = self.describe()
        found = self.stage.client("cloudwatch").get_metric_statistics(
            Namespace=GROUP,
            MetricName=name,
            Dimensions=[{"Name": "TrainingJobName", "Value": self.name}],
            StartTime=job["TrainingStartTime"],
            EndTime=job["TrainingEndTime"] + timedelta(minutes=1),
            Period=60,
            Statistics=["Average"],
        )["Datapoints"]
        found.sort(key=lambda point: point["Timestamp"])
        self._note(call="GetMetricStatistics", metric=name, averages=[point["Average"] for point in found])

    def another(self, name: str) -> "Story":
        """Returns a story for another job of the same server, which the transcript leaves out."""
        return Story(self.stage, name, watched=False)

    # --- what happens around it ---------------------------------------------------------------------------------

    def turn(self, seconds: float) -> None:
        """Lets time pass. While the server is held in a status, no other time passes."""
        self._stand_still()
        self.stage.turn(seconds)
        self._note(seconds_pass=seconds)

    def touch(self, word: str) -> None:
        """Makes what the script waits for happen."""
        self.stage.touch(word)
        self._note(the_script_is_told=word)

    def lose_host(self) -> None:
        self.stage.lose_host()
        self._note(the_host="vanishes")

    # --- what the client sees -----------------------------------------------------------------------------------

    def look(self) -> dict[str, Any]:
        """One DescribeTrainingJob."""
        answer = self.describe()
        check(self._request, answer)
        last = answer["SecondaryStatusTransitions"][-1]
        status = f"{answer['TrainingJobStatus']} / {answer['SecondaryStatus']}: {last['StatusMessage']}"
        self.stage.seen(self.name)
        self._note(sees=status, since=_seconds(last["StartTime"]), has=[name for name in OPTIONAL if name in answer])
        return answer

    def until(self, status: str, message: str = "") -> None:
        """Looks at every status until this one, in which the server is held if the stage can do that.

        On a stage that cannot, the job may be past the status already. Then its transitions tell.
        """

        def there() -> bool:
            answer = self.look() if self.stage.tells_time else self.describe()
            entries = answer["SecondaryStatusTransitions"]
            first = len(entries) - 1 if self.stage.tells_time else self._passed
            for number, entry in enumerate(entries[first:], first):
                if entry["Status"] == status and message in entry["StatusMessage"]:
                    self._passed = number + 1
                    return True
            assert answer["TrainingJobStatus"] not in TERMINAL, answer
            return False

        while not self._next(there):
            continue

    def waits_for(self, status: str) -> None:
        """Waits for a status of a job whose statuses are not watched."""
        until(lambda: self.describe()["SecondaryStatus"] == status, PATIENCE, 0.02)

    def ran(self) -> float:
        """Returns the seconds between TrainingStartTime and now, by the lab's clock."""
        started: float = self.describe()["TrainingStartTime"].timestamp()
        return round(self.stage.now() - started, 3)

    def prints_after(self, status: str, line: str) -> None:
        """Looks at every status until this one, then waits for the line."""
        self.until(status)
        self.prints(line)

    def prints(self, line: str) -> None:
        """Waits for the next occurrence of the line in the job's log."""
        self.go_on()
        self._printed[line] += 1
        until(
            lambda: sum(lines.count(line) for lines in self._streams().values()) >= self._printed[line], PATIENCE, 0.02
        )
        self._note(prints=line)

    def finds(self, key: str, body: str | None) -> None:
        """Waits until an object exists and holds this text, or does not exist if `body` is None."""
        self.go_on()
        until(lambda: self._bodies().get(key) == body, PATIENCE, 0.02)
        self._note(finds=key, body=body)

    def go_on(self) -> None:
        """Lets the server go on from the status in which it is held. Time passes, except while it trains."""
        held, self._held = self._held, None
        if held is not None:
            if held.dwell:
                self.stage.turn(held.dwell)
            held.release.set()

    def ended(self) -> None:
        """Goes on to the end of the job, and looks at everything that it left."""
        while not self._next(self._saw_end):
            continue
        self.go_on()
        answer = self.describe()
        check(self._request, answer)
        self._note(describes=_result(answer))
        streams = self._streams()
        if streams:
            names = [f"{self.name}/algo-1-<start {number}>" for number in range(1, len(streams) + 1)]
            self._note(reads=dict(zip(names, streams.values(), strict=True)))
        self._note(lists=self._bodies())

    def transcript(self) -> Transcript:
        text = json.dumps({"transcript": self._events}).replace(self._bucket, "bucket")
        text = text.replace(training_image(), "sagelet/training:VERSION")
        transcript: Transcript = json.loads(text.replace(f'"{self.stage.image}"', '"IMAGE"'))
        return transcript

    # --- inner --------------------------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        return _members(self.sagemaker.describe_training_job(TrainingJobName=self.name))

    def _saw_end(self) -> bool:
        answer = self.look() if self.stage.tells_time else self.describe()
        return answer["TrainingJobStatus"] in TERMINAL

    def _next(self, there: Callable[[], bool]) -> bool:
        """Goes to the next status and returns whether it is `there`. Polls `there` if the stage holds no status."""
        if not self.stage.tells_time:
            until(there, PATIENCE, 0.05)
            return True
        self.go_on()
        self._held = self.stage.next_step()
        self._held.dwell = 0.0 if self.describe()["SecondaryStatus"] == "Training" else DWELL
        return there()

    def _stand_still(self) -> None:
        """Lets no more time pass in the held status, because a thread that is not held acts now, at an exact time."""
        if self._held is not None:
            self._held.dwell = 0.0

    def _call(self, operation: str, method: Any) -> None:
        try:
            answer = _members(method(TrainingJobName=self.name))
        except ClientError as error:
            answer = error.response["Error"]
        self._note(call=operation, answers=answer)

    def _note(self, **event: Any) -> None:
        self._events.append(event)

    def _streams(self) -> dict[str, list[str]]:
        """Returns the messages of each log stream, ordered by name, which is the order of the attempts."""
        try:
            found = self.logs.describe_log_streams(logGroupName=GROUP, logStreamNamePrefix=f"{self.name}/")
        except self.logs.exceptions.ResourceNotFoundException:
            return {}
        return {name: self._messages(name) for name in sorted(one["logStreamName"] for one in found["logStreams"])}

    def _messages(self, stream: str) -> list[str]:
        page = self.logs.get_log_events(logGroupName=GROUP, logStreamName=stream, startFromHead=True)
        return [event["message"] for event in page["events"]]

    def _bodies(self) -> dict[str, Any]:
        """Returns every object of the bucket: its text, or the files of an archive."""
        found = self.s3.list_objects_v2(Bucket=self._bucket).get("Contents", [])
        return {entry["Key"]: self._body(entry["Key"]) for entry in found}

    def _body(self, key: str) -> Any:
        try:
            body = self.s3.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        except self.s3.exceptions.NoSuchKey:
            return None
        if not key.endswith(".tar.gz"):
            return body.decode()
        with tarfile.open(fileobj=io.BytesIO(body)) as archive:
            files = sorted((one for one in archive.getmembers() if one.isfile()), key=lambda one: one.name)
            return {one.name: archive.extractfile(one).read().decode() for one in files}  # type: ignore[union-attr]


def _members(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name != "ResponseMetadata"}


def _seconds(time: datetime) -> float:
    """Returns the seconds since the lab's clock began."""
    return round(time.timestamp() - BEGINNING, 3)


def _result(answer: dict[str, Any]) -> dict[str, Any]:
    """Returns the job's results. Other tests check members that only repeat the request."""
    names = (*RESULT, *OPTIONAL, "SecondaryStatusTransitions")
    told: dict[str, Any] = _told({name: answer[name] for name in names if name in answer})
    return {**told, "absent": [name for name in OPTIONAL if name not in answer]}


def _told(value: Any) -> Any:
    if isinstance(value, datetime):
        return _seconds(value)
    if isinstance(value, dict):
        return {name: _told(inner) for name, inner in value.items()}
    return [_told(inner) for inner in value] if isinstance(value, list) else value
