"""A job that tries to act as the owner, with its own credentials and any request."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.jobs import Jobs
from support.server import SageletProcess, until

PROGRAM = Path(__file__).parent / "programs" / "job_rights.py"
#: A role of the user's that anybody in the account may assume, if its own policies let it.
OPEN = {"Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}]}
RUNTIMES = [
    pytest.param("process", marks=pytest.mark.xla),
    pytest.param("docker", marks=pytest.mark.docker),
]


@pytest.fixture(params=[pytest.param((), id="any key opens"), pytest.param(("--auth", "--tls"), id="--auth")])
def options(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return tuple(request.param)


@pytest.fixture(params=RUNTIMES)
def server(request: pytest.FixtureRequest, tmp_path: Path, options: tuple[str, ...]) -> Iterator[SageletProcess]:
    process = SageletProcess(tmp_path / "data", "--runtime", request.param, *options).start()
    yield process
    process.stop()


def test_a_job_does_not_become_the_owner(server: SageletProcess) -> None:
    iam = server.client("iam")
    role = iam.create_role(RoleName="open", AssumeRolePolicyDocument=json.dumps(OPEN))["Role"]["Arn"]
    server.client("cloudwatch").put_metric_alarm(
        AlarmName="a", MetricName="m", Namespace="n", Period=60, EvaluationPeriods=1, Threshold=1.0,
        ComparisonOperator="GreaterThanThreshold", Statistic="Sum",
    )  # fmt: skip
    jobs = Jobs(server)
    name = jobs.submit(PROGRAM.read_text(), Environment={"ATTACK_ROLES": json.dumps([role])})
    assert jobs.ended(name)["TrainingJobStatus"] == "Completed", "\n".join(jobs.log(name))
    found = until(lambda: attacked(jobs.log(name)))
    assert found["gained"] == {}
    assert {how: answer for how, answer in found["answers"].items() if answer[0] < 300} == {
        # JSON that looks like a form is JSON.
        how: answer
        for how, answer in found["answers"].items()
        if how == "an action in JSON" and answer[0] < 300
    }
    assert not [how for how, answer in found["answers"].items() if answer[0] >= 500], found["answers"]
    assert found["control"][0] == 403
    assert [user["UserName"] for user in iam.list_users()["Users"]] == []
    assert server.client("sagemaker").list_notebook_instances()["NotebookInstances"] == []
    assert [one["AlarmName"] for one in server.client("cloudwatch").describe_alarms()["MetricAlarms"]] == ["a"]


def attacked(log: list[str]) -> Any:
    return next((json.loads(line.removeprefix("ATTACKED ")) for line in log if line.startswith("ATTACKED ")), None)
