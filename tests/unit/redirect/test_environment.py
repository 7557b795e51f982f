"""The variables of `sagelet run` and `sagelet env`."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sagelet_api.cli.main import main
from sagelet_api.redirect.environment import NO_AUTHORITY, SITE, changed, redirection
from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ApiWorld

ENDPOINT = "http://127.0.0.1:4599"
SAGELET = str(Path(sys.executable).with_name("sagelet"))


def applied(environ: dict[str, str]) -> dict[str, str]:
    return changed(environ, redirection(ENDPOINT, "111122223333", "eu-west-1", environ))


def test_a_bare_environment() -> None:
    assert applied({"HOME": "/h"}) == {
        "HOME": "/h",
        "SAGELET_ENDPOINT": ENDPOINT,
        "AWS_ENDPOINT_URL": ENDPOINT,
        "AWS_REGION": "eu-west-1",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "111122223333",
        "AWS_SECRET_ACCESS_KEY": "sagelet",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "BOTO_CONFIG": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CA_BUNDLE": str(NO_AUTHORITY),
        "SAGELET_CA_BUNDLE": "",
        "PYTHONPATH": str(SITE),
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }


def test_what_the_user_has_is_kept_or_goes() -> None:
    environ = {
        "AWS_ACCESS_KEY_ID": "AKIAREALKEY",
        "AWS_SECRET_ACCESS_KEY": "real",
        "AWS_SESSION_TOKEN": "real",
        "AWS_PROFILE": "work",
        "AWS_ENDPOINT_URL_S3": "https://s3.example.com",
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true",
        "AWS_USE_FIPS_ENDPOINT": "true",
        "AWS_CA_BUNDLE": "/ca.pem",
        "PYTHONPATH": "/mine:/other",
        "NO_PROXY": "intra.example.com",
        "HTTPS_PROXY": "http://proxy:3128",
    }
    result = applied(environ)
    assert "real" not in result.values()
    assert "AKIAREALKEY" not in result.values()
    gone = {"AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL_S3", "AWS_USE_FIPS_ENDPOINT"}
    assert not (gone | {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"}) & result.keys()
    assert result["PYTHONPATH"] == f"{SITE}:/mine:/other"
    assert result["NO_PROXY"] == result["no_proxy"] == "127.0.0.1,intra.example.com"
    assert (result["HTTPS_PROXY"], result["SAGELET_CA_BUNDLE"]) == ("http://proxy:3128", "/ca.pem")
    assert result["AWS_CA_BUNDLE"] == str(NO_AUTHORITY)


@pytest.mark.parametrize(
    "name",
    [
        "AWS_BEARER_TOKEN_BEDROCK",
        "AWS_BEARER_TOKEN_OF_A_SERVICE_TO_COME",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CREDENTIAL_FILE",
        "AWS_CREDENTIAL_EXPIRATION",
        "AWS_SECRET_KEY",
        "AWS_SECURITY_TOKEN",
        "AWS_ROLE_ARN",
        "AWS_ENDPOINT_URL_STS",
    ],
)
def test_a_name_that_can_carry_an_identity_goes(name: str) -> None:
    assert name not in applied({name: "real"})


def test_names_of_the_programs_own_stay() -> None:
    own = {"AWS_PAGER": "", "AWS_MAX_ATTEMPTS": "2", "AWS_BUCKET": "b", "AWS_DATA_PATH": "/models"}
    assert applied(own).items() >= own.items()


def test_a_second_time_the_users_own_authority_is_kept() -> None:
    once = applied({"AWS_CA_BUNDLE": "/ca.pem"})
    assert applied(once) == once


def test_twice_is_once() -> None:
    once = applied({"PYTHONPATH": "/mine", "AWS_PROFILE": "x"})
    assert applied(once) == once


def env(*arguments: str, **environ: str) -> Result:
    cleared = {name: None for name in os.environ if name.startswith(("AWS_", "SAGELET_"))}
    return CliRunner().invoke(main, ["env", *arguments], env={**cleared, **environ})


def test_a_shell_evaluates_what_env_prints() -> None:
    printed = env(
        "--endpoint", "http://localhost:1/", "--region", "us-west-2", AWS_PROFILE="x", PYTHONPATH="/it's $mine"
    )
    script = f'{printed.output}\nprintf "%s|" "$AWS_ENDPOINT_URL" "$AWS_REGION" "$PYTHONPATH" "${{AWS_PROFILE-gone}}"'
    done = subprocess.run(
        ["sh", "-c", script], env={"AWS_PROFILE": "x", "PATH": "/bin:/usr/bin"}, capture_output=True, text=True
    )
    assert done.stdout.split("|")[:4] == ["http://localhost:1", "us-west-2", f"{SITE}:/it's $mine", "gone"]


def test_env_as_json_and_for_fish() -> None:
    as_json = json.loads(env("--json", AWS_PROFILE="x", AWS_ACCESS_KEY_ID="111122223333").output)
    assert as_json["AWS_PROFILE"] is None
    assert as_json["AWS_ACCESS_KEY_ID"] == "111122223333"
    assert as_json["AWS_ENDPOINT_URL"] == ENDPOINT
    fish = env("--fish", AWS_PROFILE="x", PYTHONPATH="/it's").output.splitlines()
    assert "set -e AWS_PROFILE" in fish
    assert f"set -gx PYTHONPATH '{SITE}:/it\\'s'" in fish


def test_the_region_is_the_configured_one(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("[default]\nregion = ap-south-1\n[profile work]\nregion = eu-north-1\n")
    assert "AWS_REGION=ap-south-1\n" in env(AWS_CONFIG_FILE=str(config)).output
    assert "AWS_REGION=eu-north-1\n" in env(AWS_CONFIG_FILE=str(config), AWS_PROFILE="work").output
    assert "AWS_REGION=us-east-1\n" in env(AWS_CONFIG_FILE=str(config), AWS_PROFILE="none").output
    assert "AWS_REGION=us-west-1\n" in env(AWS_CONFIG_FILE=str(config), AWS_DEFAULT_REGION="us-west-1").output


@pytest.mark.parametrize(
    ("options", "named"),
    [(["--endpoint", "localhost:4599"], "--endpoint"), (["--account", "AKIA"], "--account")],
)
def test_a_wrong_option_is_named(options: list[str], named: str) -> None:
    result = env(*options)
    assert result.exit_code == 2
    assert named in result.output


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[str]:
    with ApiWorld(tmp_path / "world", MotoBridge()) as server:
        yield server.endpoint


def run(endpoint: str, *command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [SAGELET, "run", "--endpoint", endpoint, *command], capture_output=True, text=True, timeout=120
    )


def test_the_command_gets_its_options_and_the_environment(endpoint: str) -> None:
    done = run(endpoint, "--", "sh", "-c", 'echo "$AWS_ENDPOINT_URL $1"; cat; exit 7', "sh", "--region")
    assert (done.returncode, done.stdout) == (7, f"{endpoint} --region\n")
    assert run(endpoint, "sh", "-c", "exit 3").returncode == 3


def test_signals_are_the_commands_own(endpoint: str) -> None:
    command = [
        SAGELET,
        "run",
        "--endpoint",
        endpoint,
        "--",
        "sh",
        "-c",
        "trap 'exit 9' TERM; echo on; while :; do sleep 0.1; done",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 9


def test_a_broken_pipe_ends_the_command_as_in_a_shell(endpoint: str) -> None:
    """Python ignores SIGPIPE, and programs inherit what is ignored."""
    assert run(endpoint, "--", "sh", "-c", "kill -PIPE $$").returncode == -signal.SIGPIPE


@pytest.mark.parametrize(("command", "code", "why"), [("no-such-command", 127, "not found"), ("/etc/passwd", 126, "")])
def test_a_command_that_cannot_run(endpoint: str, command: str, code: int, why: str) -> None:
    done = run(endpoint, "--", command)
    assert done.returncode == code
    assert done.stderr.startswith(f"sagelet run: {command}: ")
    assert why in done.stderr


def test_without_a_server_the_remedy_is_named() -> None:
    done = run("http://127.0.0.1:1", "--", "true")
    assert done.returncode == 1
    assert "No sagelet server answers at http://127.0.0.1:1" in done.stderr
    assert "`sagelet up`" in done.stderr
