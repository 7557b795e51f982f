"""`sagelet pipelines`, as a person and as a program uses it."""

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from support.api_world import ApiWorld
from support.pipelines import ROLE, compare, condition, definition, fail, get, parameter, train
from support.world import until

Sagelet = Callable[..., Result]


@pytest.fixture
def checks(world: ApiWorld) -> ApiWorld:
    """A pipeline that fails for an N of 10 and above, and that succeeds otherwise."""
    check = condition("check", [compare("LessThan", get("Parameters.N"), 10)], [], fail("large", "N is too large"))
    text = definition(check, parameters=[parameter("N", "Integer", 1)])
    token = "t" * 32
    world.sagemaker.create_pipeline(
        PipelineName="Checks", PipelineDefinition=text, RoleArn=ROLE, ClientRequestToken=token
    )
    return world


def test_start_waits_and_its_exit_code_says_how_it_ended(checks: ApiWorld, sagelet: Sagelet) -> None:
    good = sagelet("pipelines", "start", "Checks", "--wait")
    assert (good.exit_code, good.stdout.partition("/")[0]) == (0, "checks")
    assert good.stdout.endswith(": Succeeded\n")
    bad = sagelet("pipelines", "start", "Checks", "-p", "N=30", "--wait")
    assert bad.exit_code == 3
    assert bad.stdout.endswith(": Failed\n")
    assert "large: N is too large\n" in bad.stderr
    assert "large:" not in good.stderr
    waited = sagelet("pipelines", "wait", "Checks", "--json")
    assert (waited.exit_code, [one["PipelineExecutionStatus"] for one in json.loads(waited.stdout)]) == (3, ["Failed"])
    listed = [line.split("\t") for line in sagelet("pipelines", "executions", "Checks").stdout.splitlines()]
    assert [line[1] for line in listed] == ["Failed", "Succeeded"]
    shown = sagelet("pipelines", "describe", "Checks").stdout
    assert "One or multiple steps failed" in shown
    assert "N is too large" in shown
    assert [line.split("\t")[:2] for line in sagelet("pipelines", "steps", "Checks").stdout.splitlines()] == [
        ["check", "Succeeded"],
        ["large", "Failed"],
    ]
    steps = json.loads(sagelet("pipelines", "steps", "Checks", "--json").stdout)
    assert [one["StepName"] for one in steps] == ["check", "large"]
    first = sagelet("pipelines", "describe", listed[1][0], "--json").stdout
    assert [one["StepName"] for one in json.loads(first)["PipelineExecutionSteps"]] == ["check"]
    # In a pipe, times are UTC.
    name, *times = sagelet("pipelines", "list").stdout.rstrip("\n").split("\t")
    assert (name, [time[-1] for time in times], times[1]) == ("Checks", ["Z", "Z"], listed[0][2])


def test_stop_and_retry(world: ApiWorld, sagelet: Sagelet) -> None:
    world.objects.put("b", "k", b"1")
    token = "t" * 32
    world.sagemaker.create_pipeline(
        PipelineName="Train", PipelineDefinition=definition(train("a")), RoleArn=ROLE, ClientRequestToken=token
    )
    sagelet("pipelines", "start", "Train")

    def running() -> list[str]:
        jobs = world.sagemaker.list_training_jobs(StatusEquals="InProgress")["TrainingJobSummaries"]
        return [one["TrainingJobName"] for one in jobs]

    (job,) = until(running)
    # A job that is stopped before its host starts never has one.
    host = world.host(job)
    assert sagelet("pipelines", "stop", "Train").stdout.rstrip().endswith(": Stopping")
    until(lambda: world.job(job).stop_ms is not None)
    host.end(0)
    until(lambda: ": Stopped" in sagelet("pipelines", "stop", "Train").stdout)
    assert sagelet("pipelines", "retry", "Train").stdout.rstrip().endswith(": Executing")
    until(lambda: running() and running() != [job])
    assert running()[0] in sagelet("pipelines", "describe", "Train").stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("describe", "none"), "has no pipeline none"),
        (("executions", "none"), "has no pipeline none"),
        (("start", "none"), "has no pipeline none"),
        (("describe", "Checks"), "never started"),
        (("steps", "Checks/abcdefghijkl"), "has no execution checks/abcdefghijkl"),
        (("stop", "Checks/abcdefghijkl"), "`sagelet pipelines executions PIPELINE` lists them"),
        (("wait", "Checks/abcdefghijkl"), "has no execution checks/abcdefghijkl"),
        (("retry", "Checks/abcdefghijkl"), "has no execution checks/abcdefghijkl"),
        (("describe", "Checks/abcdefghijkl"), "has no execution checks/abcdefghijkl"),
        (("start", "Checks", "-p", "M=1"), "has no parameter M"),
        (("wait", "Checks/none"), "no execution checks/none in us-east-1"),
        (("stop", "Checks/none"), "no execution checks/none in us-east-1"),
    ],
)
def test_errors_name_what_is_missing(
    checks: ApiWorld,
    sagelet: Sagelet,
    words: tuple[str, ...],
    says: str,
) -> None:
    ran = sagelet("pipelines", *words)
    assert (ran.exit_code, says in ran.stderr) == (1, True), ran.output


def test_parameters_of_another_form_are_wrong_usage(checks: ApiWorld, sagelet: Sagelet) -> None:
    for words, says in ((("-p", "N"), "-p N: must be of the form NAME=VALUE"), (("-p", "N=1", "-p", "N=2"), "twice")):
        ran = sagelet("pipelines", "start", "Checks", *words)
        assert (ran.exit_code, says in ran.stderr) == (2, True), ran.output
