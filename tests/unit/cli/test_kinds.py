"""What the kinds of jobs have in common on the command line: one row each, and AWS's names."""

import json
from collections.abc import Callable

import click
import pytest
from botocore import xform_name
from botocore.session import Session
from click.testing import Result

from sagelet_api.cli.executions import EXECUTION
from sagelet_api.cli.kind_rows import KINDS
from sagelet_api.cli.kinds import Kind
from sagelet_api.cli.main import main
from sagelet_api.cli.processing_jobs import PROCESSING
from sagelet_api.cli.tuning_jobs import TUNING
from support.api_world import ApiWorld
from support.processing import processing_request
from support.tuning import tuning_request
from support.world import until

Sagelet = Callable[..., Result]
ROWS = [pytest.param(kind, id=kind.noun) for kind in (*KINDS, EXECUTION)]


def commands(kind: Kind) -> dict[str, click.Command]:
    """Returns the commands about a kind by their names."""
    group = main.get_command(click.Context(main), kind.command.partition(" ")[2]) if " " in kind.command else main
    assert isinstance(group, click.Group)
    found = {name: group.get_command(click.Context(group), name) for name in group.list_commands(click.Context(group))}
    return {name: command for name, command in found.items() if command is not None}


@pytest.mark.parametrize("kind", ROWS)
def test_a_rows_names_are_those_of_the_model(kind: Kind) -> None:
    model = Session().get_service_model("sagemaker")
    assert kind.operations == xform_name(kind.noun)
    described = model.operation_model(f"Describe{kind.noun}").output_shape.members
    assert {kind.noun + kind.key, f"{kind.noun}Status", "FailureReason"} <= described.keys()
    listed = model.operation_model(f"List{kind.noun}s").output_shape.members[f"{kind.noun}Summaries"].member.members
    assert {kind.noun + kind.key, f"{kind.noun}Status"} <= listed.keys()
    statuses = {*described[f"{kind.noun}Status"].enum}
    assert {*kind.statuses} <= statuses
    assert kind.ended < {*kind.statuses}
    assert kind.precise in {"", *described}
    for verb in ("Stop", *(("Delete",) if kind is not EXECUTION else ())):
        assert [*model.operation_model(f"{verb}{kind.noun}").input_shape.required_members][:1] == [kind.noun + kind.key]


@pytest.mark.parametrize("kind", ROWS)
def test_every_kind_has_the_commands_that_it_offers(kind: Kind) -> None:
    offered = commands(kind)
    assert {"describe", "stop", "wait"} <= offered.keys()
    assert ("logs" in offered) is (kind.hosts is not None)
    words = kind.offers.replace(" and ", ", ").split(", ") if kind.offers else []
    assert {*words} <= offered.keys()


@pytest.mark.parametrize("name", ["logs", "wait", "stop", "delete"])
def test_a_command_has_the_same_options_for_every_kind(name: str) -> None:
    options = {
        frozenset(option.name for option in command.params if isinstance(option, click.Option))
        for kind in KINDS
        if (command := commands(kind).get(name)) is not None
    }
    assert len(options) == 1


def test_lists_of_every_kind_have_the_options_of_jobs() -> None:
    own = {"compiled", "no_children", "parent"}
    every = {option.name for option in main.get_command(click.Context(main), "jobs").params} - own  # type: ignore[union-attr]
    for kind in (PROCESSING, TUNING):
        assert {option.name for option in commands(kind)["list"].params} == every


def test_a_host_that_a_processing_job_has_not_is_wrong_usage(world: ApiWorld, sagelet: Sagelet) -> None:
    world.sagemaker.create_processing_job(**processing_request("clean"))
    wrong = sagelet("processing", "logs", "clean", "--host", "11")
    assert wrong.exit_code == 2
    assert "clean has 1 host" in wrong.stderr
    silent = sagelet("processing", "logs", "clean")
    assert (silent.exit_code, silent.stdout) == (0, "")
    assert "has printed nothing" in silent.stderr


def test_a_name_that_another_kind_cannot_have_is_no_mistake(world: ApiWorld, sagelet: Sagelet) -> None:
    """A tuning job's name has 32 characters at most, that of other jobs 63."""
    name = "pytorch-training-2026-11-29-19-02-34-914"
    world.sagemaker.create_processing_job(**processing_request(name))
    assert f"/processing/{name}?" in sagelet("open", name).stdout
    for command in (("describe",), ("tune", "describe"), ("tune", "best"), ("tune", "wait")):
        assert f"{name} is a processing job" in sagelet(*command, name).stderr, command
    assert "at 'hyperParameterTuningJobName'" in sagelet("tune", "describe", f"{name}x").stderr
    for command in (("describe",), ("open",), ("processing", "describe")):
        assert f"job {name}x in us-east-1" in sagelet(*command, f"{name}x").stderr, command


def test_a_list_of_processing_jobs_is_limited_and_filtered(world: ApiWorld, sagelet: Sagelet) -> None:
    for number in range(103):
        world.sagemaker.create_processing_job(**processing_request(f"clean-{number:03d}"))
        world.clock.turn(1)
    assert len(sagelet("processing", "list", "--all").stdout.splitlines()) == 103
    limited = sagelet("processing", "list", "--limit", "2")
    assert [line.split("\t")[0] for line in limited.stdout.splitlines()] == ["clean-102", "clean-101"]
    assert "the newest 2; --limit or --all shows more" in limited.stderr
    assert sagelet("processing", "list", "--name-contains", "-007").stdout.startswith("clean-007\t")
    nothing = sagelet("processing", "list", "--status", "Failed", "--status", "Stopped")
    assert nothing.stdout == ""
    assert nothing.stderr.startswith("no matching processing job of account")


def test_processing_wait_says_what_it_waits_for(world: ApiWorld, sagelet: Sagelet) -> None:
    world.sagemaker.create_processing_job(**processing_request("clean"))
    late = sagelet("processing", "wait", "clean", "--timeout", "0")
    assert late.exit_code == 5
    assert late.stderr == "clean: InProgress\n"
    assert late.stdout == "clean: still InProgress\n"


def test_tuning_jobs_are_waited_for_and_deleted(world: ApiWorld, sagelet: Sagelet) -> None:
    world.objects.put("b", "k", b"1")
    world.sagemaker.create_hyper_parameter_tuning_job(**tuning_request("grid"))
    assert sagelet("tune", "wait", "grid", "--timeout", "0").exit_code == 5
    assert "stop it first (`sagelet tune stop grid`)" in sagelet("tune", "delete", "grid").stderr
    assert sagelet("tune", "stop", "grid").exit_code == 0

    def stopped() -> bool:
        for host in [*world.runtime.hosts.values()]:
            host.end(0)
        found = world.sagemaker.describe_hyper_parameter_tuning_job(HyperParameterTuningJobName="grid")
        return bool(found["HyperParameterTuningJobStatus"] == "Stopped")

    until(stopped)
    assert sagelet("tune", "wait", "grid").exit_code == 4
    assert sagelet("tune", "delete", "--yes", "grid").stdout == "grid: deleted\n"
    assert "has no tuning job grid" in sagelet("tune", "describe", "grid").stderr
    assert json.loads(sagelet("tune", "list", "--json").stdout) == []


def test_a_job_of_another_kind_is_named(world: ApiWorld, sagelet: Sagelet) -> None:
    world.create("trained")
    wrong = sagelet("processing", "describe", "trained")
    assert wrong.exit_code == 1
    assert "trained is a training job: `sagelet` has jobs, describe" in wrong.stderr
    assert "trained is a training job" in sagelet("tune", "stop", "trained").stderr


@pytest.mark.parametrize("length", [1, 33, 63])
def test_a_missing_name_of_any_length_is_said_to_be_missing(sagelet: Sagelet, length: int) -> None:
    """Names of tuning jobs have 32 characters at most, and those of the other kinds 63."""
    name = "n" * length
    for words in (["describe", name], ["logs", name], ["wait", name], ["stop", name]):
        assert f"no training job {name} in us-east-1" in sagelet(*words).stderr
    assert f"no training, tuning or processing job {name} in us-east-1" in sagelet("open", name).stderr
    assert f"no processing job {name} in us-east-1" in sagelet("processing", "wait", name).stderr


def test_a_processing_job_with_a_name_that_no_tuning_job_can_have(world: ApiWorld, sagelet: Sagelet) -> None:
    name = "sagemaker-scikit-learn-2026-11-29-10-00-00-000"
    world.sagemaker.create_processing_job(**processing_request(name))
    assert f"/processing/{name}?" in sagelet("open", name).stdout
    assert f"{name} is a processing job" in sagelet("describe", name).stderr


@pytest.mark.parametrize("words", [["describe", ""], ["open", ""], ["tune", "stop", ""], ["pipelines", "wait", "/"]])
def test_a_name_that_nothing_can_have_is_no_silent_server(sagelet: Sagelet, words: list[str]) -> None:
    refused = sagelet(*words)
    assert refused.exit_code == 1
    assert "No sagelet server answers" not in refused.stderr
