"""Whoever acts for somebody acts with that role: every call of a step, of a trial, and for the data of a job.

`support/acting_paths.py` lists the paths with the actions that each needs. One test finds the questions that a path
asks, so the list cannot miss one. The others ask each in a role that may not.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from sagelet.testing import FastForward
from sagelet_api.auth.authorization import Authorization
from sagelet_engine.model.principal import Principal
from sagelet_engine.pipelines.definition import TYPES
from support.acting_paths import PATHS, Roles, Story, prepare, training_body, without_name
from support.pipelines import ROLE, definition, step
from support.world import until

#: Steps that call nothing: they compare values, which other steps or documents yield.
CALL_NOTHING = {"Condition"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastForward]:
    with FastForward(tmp_path_factory.mktemp("server"), auth=True) as running:
        prepare(running)
        yield running


@pytest.fixture(scope="module")
def roles(server: FastForward) -> Roles:
    return Roles(server)


def test_every_type_of_step_is_on_a_path() -> None:
    assert {kind for path in PATHS.values() for kind in path.steps} == TYPES - CALL_NOTHING


@pytest.mark.parametrize("name", PATHS)
def test_a_path_asks_for_all_its_actions(
    server: FastForward, roles: Roles, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    role, asked = roles.make({"Effect": "Allow", "Action": "*", "Resource": "*"}), set()
    decide = Authorization.__call__

    def noting(self: Authorization, principal: Principal, action: str, resource: str) -> None:
        if principal.role == role:
            asked.add(action)
        decide(self, principal, action, resource)

    monkeypatch.setattr(Authorization, "__call__", noting)
    assert PATHS[name].tell(Story(server, role, roles.wide)) == ""
    assert asked == {*PATHS[name].actions}


@pytest.mark.parametrize(
    ("name", "action"), [(name, action) for name, path in PATHS.items() for action in path.actions]
)
def test_a_role_that_may_not_fails_it_in_the_words_of_aws(
    server: FastForward, roles: Roles, name: str, action: str
) -> None:
    reason = PATHS[name].tell(Story(server, roles.without(action), roles.wide))
    assert f"is not authorized to perform: {action} " in reason or (
        action == "s3:ListBucket" and 'has "s3:ListBucket" permissions on bucket "acting"' in reason
    )


def test_an_execution_whose_role_nobody_wrote_hands_on_no_role_that_somebody_did(
    server: FastForward, roles: Roles
) -> None:
    """Its steps run without any policy. So a document that yields a role must not yield one with rights."""
    path = PATHS["arguments of a Training step from a document"]
    for role in (roles.make(), "arn:aws:iam::123456789012:role/nobody-made", ROLE):
        assert path.tell(Story(server, role, roles.make())) == ""
        assert f"iam:PassRole on resource: {roles.wide} " in path.tell(Story(server, role, roles.wide))


def test_a_refused_call_makes_nothing(server: FastForward, roles: Roles) -> None:
    sagemaker = server.session().client("sagemaker")
    lists = ("training_jobs", "processing_jobs", "hyper_parameter_tuning_jobs", "models", "model_packages")

    def everything() -> list[Any]:
        return [getattr(sagemaker, f"list_{one}")(MaxResults=100) for one in lists]

    before = [{**one, "ResponseMetadata": None} for one in everything()]
    role = roles.make({"Effect": "Allow", "Action": ["sagemaker:Describe*", "s3:*"], "Resource": "*"})
    for path in PATHS.values():
        if path.steps and path.steps != ("Fail",):
            assert "is not authorized to perform: " in path.tell(Story(server, role, roles.wide))
    assert [{**one, "ResponseMetadata": None} for one in everything()] == before


def test_an_execution_stops_no_job_that_its_role_may_not_stop(server: FastForward, roles: Roles) -> None:
    server.train(lambda job: job.hang(), job="*-hangs-*")
    story = Story(server, roles.without("sagemaker:StopTrainingJob"), roles.wide)
    steps = definition(step("hangs", "Training", without_name(training_body("x", story.role))))
    name = "stops-nothing"
    story.sagemaker.create_pipeline(PipelineName=name, PipelineDefinition=steps, RoleArn=story.role)
    with server.clock.held():
        arn = story.sagemaker.start_pipeline_execution(PipelineName=name)["PipelineExecutionArn"]
        until(lambda: "TrainingJob" in server.steps(arn).get("hangs", {}).get("Metadata", {}))
        job = server.steps(arn)["hangs"]["Metadata"]["TrainingJob"]["Arn"].rpartition("/")[2]
        server.wait(job, "Training")
        story.sagemaker.stop_pipeline_execution(PipelineExecutionArn=arn)
        until(lambda: server.steps(arn)["hangs"]["StepStatus"] == "Stopping")
        assert story.sagemaker.describe_training_job(TrainingJobName=job)["TrainingJobStatus"] == "InProgress"
        story.sagemaker.stop_training_job(TrainingJobName=job)
    server.wait_execution(arn, "Stopped")
