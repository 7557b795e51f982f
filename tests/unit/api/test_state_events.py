"""`SageMaker Training Job State Change` as people meet it: rules, patterns and targets put through boto3."""

import json
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.services.moto.event_input import target_input
from sagelet_api.services.sagemaker import event_documents
from sagelet_api.services.sagemaker.state_events import StateEvents
from sagelet_engine.model import training
from sagelet_engine.model.job import Job, JobKey, JobKind
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.processing import processing_request
from support.world import request, until

LIFE = ["Starting", "Downloading", "Training", "Uploading", "Completed"]
SOURCE = {"source": ["aws.sagemaker"], "detail-type": ["SageMaker Training Job State Change"]}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ApiWorld]:
    """A world with its own moto state, so that rules of other tests do not match."""
    bridge = MotoBridge()
    for service in ("events", "sqs", "logs"):
        bridge.process.backend(service).reset()
    with ApiWorld(tmp_path, bridge) as running:
        yield running


class NoRules:
    """An EventBus without rules."""

    has_any_rules = False

    def has_rules(self, _account: str, _region: str) -> bool:
        return False

    def put_event(self, account: str, region: str, event: Mapping[str, Any]) -> None:
        raise AssertionError(f"nobody takes {event} of {account} in {region}")


def test_an_event_is_made_only_for_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Job] = []
    monkeypatch.setattr(event_documents, "event_of", made.append)
    job = training.create(JobKey(ACCOUNT, REGION, "one"), "id", request("one"), {}, 0)
    StateEvents(NoRules()).announce(job)
    assert made == []


class Queue:
    """A queue that a rule sends to."""

    def __init__(self, world: ApiWorld, where: dict[str, str] | None = None, **attributes: str) -> None:
        self._sqs = world.client("sqs", **(where or {}))
        name = f"queue-{uuid.uuid4().hex[:8]}" + (".fifo" if "FifoQueue" in attributes else "")
        self.url = self._sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        found = self._sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=["QueueArn"])
        self.arn: str = found["Attributes"]["QueueArn"]
        self._seen: list[str] = []

    def bodies(self) -> list[str]:
        """Every message that ever came."""
        got = self._sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10, VisibilityTimeout=600)
        for message in got.get("Messages", []):
            self._seen.append(message["Body"])
            self._sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
        return self._seen

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.bodies()]

    def statuses(self) -> list[str]:
        return [event["detail"]["SecondaryStatus"] for event in self.events()]


def rule(
    world: ApiWorld, pattern: dict[str, Any], *targets: dict[str, Any] | Queue, where: dict[str, str] | None = None
) -> str:
    """Puts a rule on the default bus; returns its name."""
    events, name = world.client("events", **(where or {})), f"rule-{uuid.uuid4().hex[:8]}"
    events.put_rule(Name=name, EventPattern=json.dumps(pattern))
    wanted = [{"Arn": target.arn} if isinstance(target, Queue) else target for target in targets]
    put = events.put_targets(Rule=name, Targets=[{"Id": str(number), **target} for number, target in enumerate(wanted)])
    assert put["FailedEntryCount"] == 0
    return name


def run(world: ApiWorld, name: str = "one", **changes: Any) -> None:
    world.sagemaker.create_training_job(**request(name, **changes))
    world.host(name).end(0)
    world.ended(name)


def ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def test_a_target_that_is_gone_is_counted_and_its_event_is_kept(world: ApiWorld) -> None:
    """As EventBridge does: FailedInvocations of the rule, and the queue for dead letters."""
    gone, dead = Queue(world), Queue(world)
    name = rule(world, SOURCE, {"Arn": gone.arn, "DeadLetterConfig": {"Arn": dead.arn}})
    lost = rule(world, SOURCE, {"Arn": gone.arn, "DeadLetterConfig": {"Arn": gone.arn}})
    world.client("sqs").delete_queue(QueueUrl=gone.url)
    run(world)
    until(lambda: dead.statuses() == LIFE)

    def counted(metric: str, of: str) -> float:
        now = datetime.now(timezone.utc)
        found = world.client("cloudwatch").get_metric_statistics(
            Namespace="AWS/Events",
            MetricName=metric,
            Dimensions=[{"Name": "RuleName", "Value": of}],
            StartTime=now - timedelta(hours=1),
            EndTime=now + timedelta(hours=1),
            Period=7200,
            Statistics=["Sum"],
        )
        return sum(point["Sum"] for point in found["Datapoints"])

    until(lambda: counted("FailedInvocations", lost) == len(LIFE))
    assert counted("FailedInvocations", name) == len(LIFE)
    assert counted("InvocationsFailedToBeSentToDlq", name) == 0
    until(lambda: counted("InvocationsFailedToBeSentToDlq", lost) == len(LIFE))


def test_a_life_in_a_queue(world: ApiWorld) -> None:
    queue = Queue(world)
    rule(world, SOURCE, queue)
    hyperparameters = {"lr": "1e-3", "note": 'a "quoted" <time> <id>'}
    run(world, HyperParameters=hyperparameters, Tags=[{"Key": "team", "Value": "blue"}])
    until(lambda: queue.statuses() == LIFE)
    events = queue.events()
    description = world.sagemaker.describe_training_job(TrainingJobName="one")
    arn = description["TrainingJobArn"]
    for event, transition in zip(events, description["SecondaryStatusTransitions"], strict=True):
        began = transition["StartTime"].astimezone(timezone.utc)
        assert {name: value for name, value in event.items() if name not in ("id", "detail")} == {
            "version": "0",
            "detail-type": "SageMaker Training Job State Change",
            "source": "aws.sagemaker",
            "account": ACCOUNT,
            "time": began.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": REGION,
            "resources": [arn],
        }
        assert event["detail"]["TrainingJobArn"] == arn
        assert event["detail"]["TrainingJobName"] == "one"
        assert event["detail"]["Tags"] == {"team": "blue"}
        assert event["detail"]["HyperParameters"] == hyperparameters
    assert len({uuid.UUID(event["id"]) for event in events}) == 5
    assert [event["detail"]["TrainingJobStatus"] for event in events] == [*["InProgress"] * 4, "Completed"]


def test_the_detail_is_the_description_with_times_in_milliseconds(world: ApiWorld) -> None:
    queue = Queue(world)
    rule(world, {**SOURCE, "detail": {"TrainingJobStatus": ["Completed"]}}, queue)
    world.sagemaker.create_training_job(**request("one"))
    host = world.host("one")
    world.clock.turn(12.345)
    host.end(0)
    world.ended("one")
    (event,) = until(queue.events)
    detail = event["detail"]
    description = world.sagemaker.describe_training_job(TrainingJobName="one")
    description.pop("ResponseMetadata")
    assert detail.keys() == {*description, "Tags"}
    for name in ("CreationTime", "LastModifiedTime", "TrainingStartTime", "TrainingEndTime"):
        assert detail[name] == ms(description[name])
    assert detail["TrainingEndTime"] % 1000 == 345
    assert detail["SecondaryStatusTransitions"] == [
        {
            "Status": entry["Status"],
            "StartTime": ms(entry["StartTime"]),
            "EndTime": ms(entry["EndTime"]),
            "StatusMessage": entry["StatusMessage"],
        }
        for entry in description["SecondaryStatusTransitions"]
    ]
    for name in ("ResourceConfig", "StoppingCondition", "OutputDataConfig", "RoleArn", "ModelArtifacts"):
        assert detail[name] == description[name]


def test_a_failure_has_its_reason(world: ApiWorld) -> None:
    queue = Queue(world)
    rule(world, {**SOURCE, "detail": {"FailureReason": [{"prefix": "CapacityError"}]}}, queue)
    world.sagemaker.create_training_job(**request("one", Tags=[{"Key": "sagelet:fault", "Value": "capacity-error"}]))
    world.ended("one")
    (event,) = until(queue.events)
    assert (event["detail"]["TrainingJobStatus"], event["detail"]["Tags"]) == (
        "Failed",
        {"sagelet:fault": "capacity-error"},
    )
    assert "TrainingStartTime" not in event["detail"]


@pytest.mark.parametrize(
    ("detail", "statuses"),
    [
        ({"TrainingJobStatus": ["Completed", "Failed", "Stopped"]}, ["Completed"]),
        ({"TrainingJobStatus": [{"anything-but": "InProgress"}]}, ["Completed"]),
        ({"SecondaryStatus": [{"prefix": "Up"}]}, ["Uploading"]),
        ({"TrainingJobName": [{"prefix": "one"}], "SecondaryStatus": ["Training"]}, ["Training"]),
        ({"TrainingJobName": [{"prefix": "two"}]}, []),
        ({"TrainingStartTime": [{"exists": False}]}, ["Starting"]),
        ({"ResourceConfig": {"InstanceCount": [{"numeric": ["<", 2]}]}, "SecondaryStatus": ["Starting"]}, ["Starting"]),
        ({"Tags": {"team": ["red"]}}, []),
    ],
)
def test_patterns(world: ApiWorld, detail: dict[str, Any], statuses: list[str]) -> None:
    every, queue = Queue(world), Queue(world)
    rule(world, {**SOURCE, "detail": detail}, queue)
    rule(world, SOURCE, every)
    run(world)
    until(lambda: every.statuses() == LIFE)
    assert queue.statuses() == statuses


def test_a_life_in_a_log_group(world: ApiWorld) -> None:
    world.logs.create_log_group(logGroupName="/aws/events/training")
    arn = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/aws/events/training"
    rule(world, SOURCE, {"Arn": arn})
    run(world)

    def lines() -> list[dict[str, Any]]:
        found = world.logs.filter_log_events(logGroupName="/aws/events/training")["events"]
        return [json.loads(event["message"]) for event in found]

    until(lambda: len(lines()) == 5)
    assert sorted((event["detail"]["SecondaryStatus"] for event in lines()), key=LIFE.index) == LIFE


def test_inputs_of_targets(world: ApiWorld) -> None:
    whole, part, text, document, fixed = (Queue(world) for _ in range(5))
    members = {"job": "TrainingJobName", "status": "TrainingJobStatus", "config": "ResourceConfig"}
    paths = {name: f"$.detail.{member}" for name, member in members.items()}
    say = {"InputPathsMap": paths, "InputTemplate": '"Job <job> is <status> this time"'}
    make = {"InputPathsMap": paths, "InputTemplate": '{"job": <job>, "text": "<job>: <status>", "config": <config>}'}
    rule(
        world,
        {**SOURCE, "detail": {"TrainingJobStatus": ["Completed"]}},
        whole,
        {"Arn": part.arn, "InputPath": "$.detail.SecondaryStatusTransitions[0].Status"},
        {"Arn": text.arn, "InputTransformer": say},
        {"Arn": document.arn, "InputTransformer": make},
        {"Arn": fixed.arn, "Input": '{"always": "this"}'},
    )
    run(world)
    until(whole.bodies)
    assert until(part.bodies) == ['"Starting"']
    assert until(text.bodies) == ['"Job one is Completed this time"']
    (made,) = until(document.events)
    assert made == {"job": "one", "text": "one: Completed", "config": request("one")["ResourceConfig"]}
    assert until(fixed.bodies) == ['{"always": "this"}']


def test_a_fifo_queue_keeps_the_order(world: ApiWorld) -> None:
    queue = Queue(world, FifoQueue="true", ContentBasedDeduplication="true")
    rule(world, SOURCE, {"Arn": queue.arn, "SqsParameters": {"MessageGroupId": "jobs"}})
    run(world)
    until(lambda: queue.statuses() == LIFE)


def test_a_broken_target_keeps_nobody_from_the_event(world: ApiWorld, server_log: pytest.LogCaptureFixture) -> None:
    server_log.set_level("WARNING", "sagelet_api")
    queue, gone = Queue(world), Queue(world)
    world.client("sqs").delete_queue(QueueUrl=gone.url)
    function = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:absent"
    transform = {"InputPathsMap": {"x": "$..["}, "InputTemplate": "<x>"}
    rule(world, SOURCE, gone, {"Arn": function}, {"Arn": queue.arn, "InputTransformer": transform}, queue)
    run(world)
    until(lambda: queue.statuses() == LIFE)
    for broken in (gone.arn, function, "$..["):
        assert broken in server_log.text


def test_rules_that_are_disabled_or_on_a_schedule_do_not_fire(world: ApiWorld) -> None:
    events, queue, off, hourly = world.client("events"), Queue(world), Queue(world), Queue(world)
    events.disable_rule(Name=rule(world, SOURCE, off))
    events.put_rule(Name="hourly", ScheduleExpression="rate(1 hour)")
    events.put_targets(Rule="hourly", Targets=[{"Id": "1", "Arn": hourly.arn}])
    rule(world, SOURCE, queue)
    run(world)
    until(lambda: queue.statuses() == LIFE)
    assert (off.bodies(), hourly.bodies()) == ([], [])


@pytest.mark.parametrize("where", [{"region": "eu-west-1"}, {"account": "210987654321"}])
def test_accounts_and_regions_do_not_see_each_other(world: ApiWorld, where: dict[str, str]) -> None:
    here, there = Queue(world), Queue(world, where)
    rule(world, SOURCE, here)
    rule(world, SOURCE, there, where=where)
    run(world)
    until(lambda: here.statuses() == LIFE)
    assert there.bodies() == []
    other = world.client("sagemaker", **where)
    tags = [{"Key": "sagelet:fault", "Value": "capacity-error"}]
    other.create_training_job(**request("theirs", Tags=tags))
    until(lambda: there.statuses() == ["Starting", "Failed"])
    assert {(event["account"], event["region"]) for event in there.events()} == {
        (where.get("account", ACCOUNT), where.get("region", REGION))
    }
    assert here.statuses() == LIFE


def test_other_buses_and_archives(world: ApiWorld) -> None:
    events, queue = world.client("events"), Queue(world)
    bus = events.create_event_bus(Name="other")["EventBusArn"]
    events.put_rule(Name="on-other", EventBusName="other", EventPattern=json.dumps(SOURCE))
    events.put_targets(Rule="on-other", EventBusName="other", Targets=[{"Id": "1", "Arn": queue.arn}])
    default = events.describe_event_bus()["Arn"]
    events.create_archive(ArchiveName="kept", EventSourceArn=default, EventPattern=json.dumps(SOURCE))
    # Back again: an event that was on a bus does not come there twice.
    events.put_targets(Rule="on-other", EventBusName="other", Targets=[{"Id": "2", "Arn": default}])
    rule(world, SOURCE, {"Arn": bus})
    run(world, HyperParameters={"note": 'a "quoted" <time> <id>'})
    until(lambda: queue.statuses() == LIFE)
    until(lambda: events.describe_archive(ArchiveName="kept")["EventCount"] == 5)


def test_events_of_a_stopped_job(world: ApiWorld) -> None:
    queue = Queue(world)
    rule(world, SOURCE, queue)
    world.sagemaker.create_training_job(**request("one"))
    host = world.host("one")
    world.sagemaker.stop_training_job(TrainingJobName="one")
    host.end(143)
    world.ended("one")
    until(lambda: queue.statuses()[-1:] == ["Stopped"])
    assert [event["detail"]["TrainingJobStatus"] for event in queue.events()][-2:] == ["Stopping", "Stopped"]


def test_events_go_on_after_a_restart(world: ApiWorld) -> None:
    queue = Queue(world)
    rule(world, SOURCE, queue)
    world.sagemaker.create_training_job(**request("one"))
    host = world.host("one")
    until(lambda: queue.statuses() == LIFE[:3])
    world.restart()
    host.end(0)
    world.ended("one")
    until(lambda: queue.statuses() == LIFE)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("<name>", '"one"'),
        ('"<name> <number>"', '"one 7"'),
        ('{"a": <list>, "b": "<list>", "c": "\\"<name>\\""}', '{"a": ["x"], "b": "[\\"x\\"]", "c": "\\"one\\""}'),
        ('{"a": <absent>, "b": "<absent>"}', '{"a": "", "b": ""}'),
        ('"<quoted>"', '"say \\"hi\\"\\n"'),
        ("<unknown> <", "<unknown> <"),
        ('"<aws.events.rule-name>"', '"the-rule"'),
        ("<aws.events.event>", '{"time":"t","id":"1"}'),
    ],
)
def test_input_templates(template: str, text: str) -> None:
    event = {"time": "t", "id": "1", "detail": {"name": "one", "number": 7, "list": ["x"], "quoted": 'say "hi"\n'}}
    paths = {name: f"$.detail.{name}" for name in ("name", "number", "list", "absent", "quoted")}
    target = {"InputTransformer": {"InputPathsMap": paths, "InputTemplate": template}}
    assert target_input(target, event, {"name": "the-rule", "arn": "arn"}) == text


def test_a_processing_job_sends_an_event_for_each_of_its_statuses(world: ApiWorld) -> None:
    queue = Queue(world)
    rule(world, {"source": ["aws.sagemaker"], "detail-type": ["SageMaker Processing Job State Change"]}, queue)
    world.sagemaker.create_processing_job(**processing_request("p", Tags=[{"Key": "k", "Value": "v"}]))
    job = world.engine.processing.get(JobKey(ACCOUNT, REGION, "p", JobKind.PROCESSING))
    until(lambda: world.runtime.hosts.get(f"{job.id}/algo-1")).end(0)
    until(lambda: len(queue.bodies()) == 2)
    first, last = sorted(queue.events(), key=lambda event: event["detail"]["LastModifiedTime"])
    assert [event["detail"]["ProcessingJobStatus"] for event in (first, last)] == ["InProgress", "Completed"]
    assert last["resources"] == [job.key.arn]
    described = world.sagemaker.describe_processing_job(ProcessingJobName="p")
    assert last["detail"]["ProcessingEndTime"] == round(described["ProcessingEndTime"].timestamp() * 1000)
    assert last["detail"]["Tags"] == {"k": "v"}
    assert last["detail"]["AppSpecification"] == described["AppSpecification"]
