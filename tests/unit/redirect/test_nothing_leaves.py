"""Programs that would reach AWS under `sagelet run`, as people configure them: nothing of theirs leaves.

Each program is a process of its own. Its proxy leads to a fake AWS whose certificate the user trusts.
"""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sagelet_api.protocol.calls import Environ, StartResponse, WsgiApp
from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ApiWorld
from support.fake_aws import FakeAws
from support.front import front

SAGELET = str(Path(sys.executable).with_name("sagelet"))
REAL = ("AKIAREALREALREALREAL", "real-secret", "real-token", "real-bearer", "real-sso")
CONFIG = """\
[default]
ignore_configured_endpoint_urls = true
region = us-east-1
[profile work]
ignore_configured_endpoint_urls = true
region = us-east-1
[profile "of the team"]
source_profile = work
role_arn = arn:aws:iam::111122223333:role/team
region = eu-north-1
[profile helper]
credential_process = touch {marker}
[profile signed-on]
sso_session = corp
sso_account_id = 111122223333
sso_role_name = dev
[sso-session corp]
sso_start_url = https://corp.awsapps.com/start
sso_region = us-east-1
"""
KEYS = "[{0}]\naws_access_key_id = AKIAREALREALREALREAL\naws_secret_access_key = real-secret\n"
ISOLATED = (["-I"], [])
CALLER = "print(json.dumps({0}.get_caller_identity()['Account']))"


class Program:
    """Python programs under `sagelet run` on a machine where somebody works with AWS."""

    def __init__(self, endpoint: str, home: Path, aws: FakeAws) -> None:
        self._endpoint, self._home, self.aws = endpoint, home, aws
        self.marker = home / "marker"
        directory = home / ".aws"
        directory.mkdir(parents=True)
        (directory / "config").write_text(CONFIG.format(marker=self.marker))
        (directory / "credentials").write_text(KEYS.format("default") + KEYS.format("work"))

    def environment(self, **more: str) -> dict[str, str]:
        cleared = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "SAGE", "XDG_"))}
        return {**cleared, "HOME": str(self._home), **self.aws.environment, **more}

    def run(self, script: str, *options: str, sagelet: bool = True, **more: str) -> "subprocess.CompletedProcess[str]":
        prefix = [SAGELET, "run", "--endpoint", self._endpoint, "--"] if sagelet else []
        whole = "import json, os, boto3\nfrom botocore.config import Config\n" + textwrap.dedent(script)
        return subprocess.run(
            [*prefix, sys.executable, *options, "-c", whole],
            env=self.environment(**more), capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    def account(self, script: str, *options: str, **more: str) -> str:
        """The account that sagelet answers for."""
        done = self.run(script, *options, **more)
        assert done.returncode == 0, done.stderr
        return str(json.loads(done.stdout))


@pytest.fixture
def received() -> list[str]:
    """What sagelet was sent: request lines and headers."""
    return []


@pytest.fixture
def endpoint(tmp_path: Path, received: list[str]) -> Iterator[str]:
    with (
        ApiWorld(tmp_path / "world", MotoBridge()) as world,
        front(_noting(world.sagelet.application, received)) as server,
    ):
        yield server.endpoint


def _noting(app: WsgiApp, received: list[str]) -> WsgiApp:
    def noting(environ: Environ, start: StartResponse) -> object:
        received.append(repr({name: value for name, value in environ.items() if isinstance(value, str)}))
        return app(environ, start)

    return noting  # type: ignore[return-value]


@pytest.fixture
def program(endpoint: str, tmp_path: Path, received: list[str]) -> Iterator[Program]:
    with FakeAws(tmp_path) as aws:
        made = Program(endpoint, tmp_path / "home", aws)
        yield made
        assert not made.marker.exists()
        for said in received:
            assert not [secret for secret in REAL if secret in said]


def test_without_sagelet_the_requests_reach_aws(program: Program) -> None:
    """The control of all others: what this file watches would see them."""
    done = program.run("boto3.client('sts').get_caller_identity()", "-I", sagelet=False)
    assert done.returncode != 0
    assert program.aws.heard[0].startswith("POST / HTTP/1.1")
    assert REAL[0] in program.aws.heard[0]


@pytest.mark.parametrize("options", ISOLATED, ids=str)
def test_a_profile_that_ignores_configured_endpoints(program: Program, options: list[str]) -> None:
    assert program.account(CALLER.format("boto3.client('sts')"), *options) == "123456789012"
    named = "boto3.Session(profile_name='work').client('sts')"
    assert program.account(CALLER.format(named), *options) == "123456789012"
    more = {"AWS_PROFILE": "work", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}
    assert program.account(CALLER.format("boto3.client('sts')"), *options, **more) == "123456789012"
    assert program.aws.asked == []


@pytest.mark.parametrize("options", ISOLATED, ids=str)
@pytest.mark.parametrize("profile", ["of the team", "helper", "signed-on"])
def test_a_profile_that_gets_its_keys_elsewhere(program: Program, profile: str, options: list[str]) -> None:
    named = f"boto3.Session(profile_name={profile!r}).client('sts')"
    assert program.account(CALLER.format(named), *options) == "123456789012"
    assert program.aws.asked == []


HAND_MADE = (
    "https://sts.amazonaws.com",
    "https://sts.us-east-1.amazonaws.com.",
    "https://STS.amazonaws.com.:443/",
    "https://sts.amazonaws\u3002com",
)


@pytest.mark.parametrize("url", HAND_MADE)
def test_an_endpoint_of_awss_given_by_hand(program: Program, url: str) -> None:
    script = CALLER.format(f"boto3.client('sts', 'us-east-1', endpoint_url={url!r})")
    assert program.account(script) == "123456789012"
    assert program.aws.asked == []


@pytest.mark.parametrize(("option", "url"), [("-I", HAND_MADE[0]), ("-I", HAND_MADE[1]), ("-E", HAND_MADE[2])])
def test_one_in_a_python_that_is_isolated_gets_no_request(program: Program, url: str, option: str) -> None:
    """sagelet cannot change such a program. So it gives it a certificate store with which it cannot connect."""
    done = program.run(f"boto3.client('sts', 'us-east-1', endpoint_url={url!r}).get_caller_identity()", option)
    assert done.returncode != 0
    assert program.aws.heard == []


@pytest.mark.parametrize("option", ["-I", "-E"])
def test_a_client_that_ignores_configured_endpoints_by_itself(program: Program, option: str) -> None:
    config = "Config(ignore_configured_endpoint_urls=True)"
    done = program.run(f"boto3.client('sts', 'us-east-1', config={config}).get_caller_identity()", option)
    assert done.returncode != 0
    assert program.aws.heard == []
    assert program.account(CALLER.format(f"boto3.client('sts', 'us-east-1', config={config})")) == "123456789012"


def test_a_python_without_site(program: Program) -> None:
    """-S leaves PYTHONPATH but loads no sitecustomize."""
    packages = str(Path(pytest.__file__).parents[1])
    script = f"import sys; sys.path.append({packages!r}); import json, boto3; " + CALLER.format("boto3.client('sts')")
    done = subprocess.run(
        [SAGELET, "run", "--endpoint", program._endpoint, "--", sys.executable, "-S", "-c", script],
        env=program.environment(), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert json.loads(done.stdout) == "123456789012", done.stderr
    assert program.aws.asked == []


@pytest.mark.parametrize("options", [["-I"], []], ids=str)
def test_a_bearer_token_is_not_sent(program: Program, received: list[str], options: list[str]) -> None:
    script = """
        client = boto3.client("bedrock-runtime", "us-east-1")
        try:
            client.converse(modelId="m", messages=[{"role": "user", "content": [{"text": "x"}]}])
        except Exception as error:
            print(type(error).__name__)
        print(sorted(name for name in os.environ if "TOKEN" in name and name.startswith("AWS_")))
    """
    tokens = {"AWS_BEARER_TOKEN_BEDROCK": "real-bearer", "AWS_BEARER_TOKEN_NEXT": "real-bearer"}
    done = program.run(script, *options, AWS_SESSION_TOKEN="real-token", **tokens)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
    assert any("/model/m/converse" in said for said in received)
    assert program.aws.asked == []


def test_what_is_not_awss_is_trusted_as_before(program: Program) -> None:
    """The redirection does not touch a store of the user's own behind the same proxy."""
    url = "https://sts.amazonaws.com"
    script = f"""
        import sys
        redirect = sys.modules["_sagelet_redirect"]
        redirect.is_aws = lambda _url: False
        boto3.client("sts", "us-east-1", endpoint_url={url!r}).get_caller_identity()
    """
    assert program.run(script).returncode != 0
    assert program.aws.heard
    assert not [secret for secret in REAL if secret in "".join(program.aws.heard)]


@pytest.fixture
def files(tmp_path: Path) -> Callable[[], list[Path]]:
    return lambda: [path for path in (tmp_path / "home" / ".cache" / "sagelet").rglob("*") if path.is_file()]


def test_what_is_kept_of_the_profiles_is_the_users_alone(program: Program, files: Callable[[], list[Path]]) -> None:
    program.run("", "-I")
    program.run("", "-I")
    (kept,) = files()
    assert kept.stat().st_mode & 0o077 == 0 == kept.parent.stat().st_mode & 0o077
    text = kept.read_text()
    assert not [secret for secret in REAL if secret in text]
    assert not [word for word in ("sso_", "credential_process", "role_arn", "ignore_configured") if word in text]


def test_where_the_profiles_cannot_be_kept_there_are_none(program: Program) -> None:
    (program.marker.parent / ".cache").write_text("in the way")
    assert program.account(CALLER.format("boto3.client('sts')"), "-I") == "123456789012"
    done = program.run("boto3.Session(profile_name='work')", "-I")
    assert "ProfileNotFound" in done.stderr
