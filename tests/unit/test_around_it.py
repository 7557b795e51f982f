"""What stands around sagelet for others to copy: it parses, and says nothing that sagelet does not know."""

import ast
import json
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

import sagelet_engine
from sagelet_api.cli.main import main
from sagelet_api.protocol.validation import validate
from support import sources

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "around"
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
WORKFLOW = EXAMPLES / "github-actions/.github/workflows/pipeline.yml"
DEVCONTAINER = EXAMPLES / "devcontainer/.devcontainer/devcontainer.json"


def test_compose_gives_the_default_server_no_power_over_the_machine() -> None:
    server = COMPOSE["services"]["sagelet"]
    assert server["volumes"] == ["data:/data"]
    assert server["cap_drop"] == ["ALL"]
    assert all(port.startswith("127.0.0.1:") for port in server["ports"])
    assert "profiles" not in server
    assert server.keys().isdisjoint({"privileged", "network_mode", "pid", "devices", "user"})


def test_the_docker_socket_is_asked_for_by_a_profile_and_its_risk_is_said() -> None:
    with_socket = [name for name, one in COMPOSE["services"].items() if "docker.sock" in str(one.get("volumes"))]
    assert with_socket == ["sagelet-docker"]
    assert COMPOSE["services"]["sagelet-docker"]["profiles"] == ["docker"]
    assert COMPOSE["services"]["sagelet-docker"]["environment"]["SAGELET_HOST"] == "127.0.0.1"
    assert "RISK: the Docker socket is root" in (ROOT / "compose.yaml").read_text()


def test_the_images_have_the_version_of_the_package() -> None:
    tag = f":{sagelet_engine.__version__}"
    assert {one["image"] for one in COMPOSE["services"].values()} == {f"sagelet/server{tag}"}
    dockerfile = (ROOT / "images/server/Dockerfile").read_text()
    assert f"ARG BASE=sagelet/training{tag}\n" in dockerfile
    assert f"-t sagelet/server{tag} " in dockerfile


def test_the_server_image_has_all_that_the_wheel_is_made_of() -> None:
    """tests/pythons builds the wheel of these files. Docker gets no file that .dockerignore leaves out."""
    wanted = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert sorted(sources.names()) == sorted(wanted)


def command(name: str) -> click.Command:
    found = main.get_command(click.Context(main), name)
    assert found is not None, name
    return found


def test_variables_of_the_server_image_are_settings() -> None:
    known = {option.envvar for option in command("up").params if isinstance(option, click.Option)}
    dockerfile = (ROOT / "images/server/Dockerfile").read_text()
    in_compose = {name for one in COMPOSE["services"].values() for name in one["environment"]}
    used = {*re.findall(r"(SAGELET_\w+)=", dockerfile), *in_compose, *actions_service()["env"]}
    own = {"SAGELET_HOST", "SAGELET_PORT", "SAGELET_DATA", "SAGELET_AUTH", "SAGELET_RUNTIME", "SAGELET_ALLOW_HOST"}
    assert used == own
    assert used <= known


def actions_service() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text())["jobs"]["service"]["services"]["sagelet"]
    return found


def test_other_services_reach_the_server_by_its_name() -> None:
    """The name of the service in compose and in Actions is a name that the server accepts."""
    assert COMPOSE["services"]["sagelet"]["environment"]["SAGELET_ALLOW_HOST"] == "sagelet"
    job = yaml.safe_load(WORKFLOW.read_text())["jobs"]["service"]
    (name,) = job["services"]
    assert actions_service()["env"]["SAGELET_ALLOW_HOST"] == name
    assert job["env"]["SAGELET_ENDPOINT"] == f"http://{name}:4599"
    (keys,) = job["container"]["volumes"]
    (data,) = actions_service()["volumes"]
    assert keys.partition(":")[0] == data.partition(":")[0]
    assert keys == f"{keys.partition(':')[0]}:{job['env']['SAGELET_DATA']}:ro"
    assert data.endswith(":/data")


def commands() -> list[str]:
    """The command lines of sagelet in what there is to copy."""
    devcontainer = json.loads(DEVCONTAINER.read_text())
    steps = [step for job in yaml.safe_load(WORKFLOW.read_text())["jobs"].values() for step in job["steps"]]
    lines = [devcontainer["postStartCommand"], *(step.get("run", "") for step in steps)]
    return [line for line in lines if line.startswith("sagelet ")]


@pytest.mark.parametrize("line", commands())
def test_commands_have_the_options_that_they_are_given(line: str) -> None:
    _, name, *words = shlex.split(line)
    options = {text for param in command(name).params for text in param.opts}
    own = words[: words.index("--")] if "--" in words else words
    assert {word for word in own if word.startswith("--")} <= options


def test_there_are_commands() -> None:
    assert len(commands()) == 6


def test_the_state_machine_makes_a_valid_request() -> None:
    machine = json.loads((EXAMPLES / "step-functions/state_machine.json").read_text())
    assert machine["StartAt"] in machine["States"]
    parameters = machine["States"]["Train"]["Parameters"]
    parameters["TrainingJobName"] = parameters.pop("TrainingJobName.$").replace("$.", "")
    validate("sagemaker", "CreateTrainingJob", parameters)


def test_the_debugger_and_the_devcontainer_and_the_dag_parse() -> None:
    (attach,) = json.loads((EXAMPLES / "vscode/.vscode/launch.json").read_text())["configurations"]
    assert (attach["type"], attach["request"]) == ("debugpy", "attach")
    assert attach["connect"]["host"] == "127.0.0.1"
    assert json.loads(DEVCONTAINER.read_text())["forwardPorts"] == [4599]
    ast.parse((EXAMPLES / "airflow/train_dag.py").read_text())


def test_what_was_run_is_said_of_every_example_here() -> None:
    said = (ROOT / "docs/how-to/around-it.md").read_text()
    for name in ("github-actions", "devcontainer", "vscode", "airflow", "terraform", "step-functions"):
        assert f"| `{name}` |" in said
        assert (EXAMPLES / name).is_dir()
