"""The pytest plugin: fixtures for tests of pipelines. pytest always loads it if sagelet is installed, so it loads
nothing itself.

The scope of the servers is `--sagelet-scope` or the ini setting `sagelet_scope`: `session` unless one is set. Under
pytest-xdist each worker has its own servers, with their own ports and directories.
"""

from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import pytest

if TYPE_CHECKING:
    import boto3

    from sagelet.testing.fast_forward import FastForward
    from sagelet.testing.faults import Faults
    from sagelet.testing.server import Account, Server

Scope = Literal["session", "package", "module", "class", "function"]
SETTING = "sagelet_scope"
#: The servers of the run, and of a test what its jobs are asked of: a server or an account.
_SERVER: "pytest.StashKey[Server]" = pytest.StashKey()
_OWN: "pytest.StashKey[Account | FastForward]" = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(SETTING, f"how long a sagelet server of the tests lives: {', '.join(get_args(Scope))}", default="")
    parser.getgroup("sagelet").addoption(
        "--sagelet-scope", choices=get_args(Scope), help=f"overrides the ini setting {SETTING}"
    )


def pytest_configure(config: pytest.Config) -> None:
    chosen = config.getini(SETTING)
    if chosen and chosen not in get_args(Scope):
        raise pytest.UsageError(f"{SETTING} = {chosen}: it must be one of {', '.join(get_args(Scope))}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: "pytest.CallInfo[None]") -> Generator[None, Any, None]:
    """Shows the FailureReason and the last lines of the jobs that failed while a test ran that failed, too."""
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    if report.failed and call.when == "call":
        report.sections.extend(_failed_jobs(item, call.start))


def _failed_jobs(item: pytest.Item, since: float) -> list[tuple[str, str]]:
    fixtures = getattr(item, "fixturenames", ())
    own = item.stash.get(_OWN, None)
    asked = own or (item.config.stash.get(_SERVER, None) if "sagelet_server" in fixtures else None)
    if asked is None:
        return []
    from botocore.exceptions import BotoCoreError, ClientError

    from sagelet.testing.failures import sections

    try:
        # The time of fast-forward is simulated, and its server is the test's own.
        return list(sections(asked.session(), None if "sagelet_fast_forward" in fixtures else since))
    except (BotoCoreError, ClientError) as error:
        return [("sagelet", f"Which jobs failed is not known: {error}")]


def _scope(fixture_name: str, config: pytest.Config) -> Scope:  # noqa: ARG001 - pytest passes both by name
    """Returns the scope of the server's fixtures."""
    scope: Scope = config.getoption("--sagelet-scope") or config.getini(SETTING) or "session"
    return scope


@pytest.fixture(scope=_scope)
def sagelet_options() -> Mapping[str, Any]:
    """Settings of the server, to be overridden in a conftest: `{"max_jobs": 4, "gpus": "off"}`.

    The names are those of `sagelet_engine.settings.Settings`. A fixture that overrides this one must have a scope as
    wide as the servers' (`@pytest.fixture(scope="session")`).
    """
    return {}


@pytest.fixture(scope=_scope)
def sagelet_server(
    tmp_path_factory: pytest.TempPathFactory, sagelet_options: Mapping[str, Any], request: pytest.FixtureRequest
) -> "Iterator[Server]":
    """A `sagelet.testing.Server`: on a port of its own, with a data directory in pytest's temporary directory."""
    from sagelet.testing.server import Server

    with Server(tmp_path_factory.mktemp("sagelet"), **sagelet_options) as server:
        request.config.stash[_SERVER] = server
        yield server


@pytest.fixture(scope=_scope)
def sagelet_endpoint(sagelet_server: "Server") -> str:
    """The URL of the server, for `endpoint_url=`."""
    return sagelet_server.endpoint


@pytest.fixture(scope=_scope)
def sagelet_session(sagelet_server: "Server") -> "boto3.Session":
    """A boto3 session whose clients and resources all go to the server. Its waiters look ten times a second."""
    return sagelet_server.session()


@pytest.fixture
def sagelet_account(sagelet_server: "Server", request: pytest.FixtureRequest) -> "Iterator[Account]":
    """A `sagelet.testing.Account`: an account of the server that is the test's own, and empty.

    After the test its jobs are stopped and its buckets removed.
    """
    with sagelet_server.account() as account:
        request.node.stash[_OWN] = account
        yield account


@pytest.fixture
def sagelet_environment(
    sagelet_server: "Server", monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> "Server":
    """Sends every AWS client that the test makes, or a program that it starts, to the server: `boto3.client("s3")`.

    For pipelines that make their own clients. It does what `sagelet run` does, for the time of a test. In a test that
    has `sagelet_account`, too, the clients use that account.
    """
    from sagelet.testing.environment import redirect

    redirect(monkeypatch, sagelet_server.endpoint, sagelet_server.data, account=_account_of(request))
    return sagelet_server


@pytest.fixture
def sagelet_faults(sagelet_server: "Server", request: pytest.FixtureRequest) -> "Iterator[Faults]":
    """Faults of the server, for existing jobs and for calls. After the test nothing is throttled.

    In a test that has `sagelet_account`, too, they are the faults of that account.
    """
    faults = sagelet_server.faults(account=_account_of(request))
    yield faults
    faults.clear_throttling()


def _account_of(request: pytest.FixtureRequest) -> str:
    """Returns the account that a test's fixtures mean: its own if it has `sagelet_account`, else the server's."""
    from sagelet.testing.server import ACCOUNT

    if "sagelet_account" not in request.fixturenames:
        return ACCOUNT
    account: Account = request.getfixturevalue("sagelet_account")
    return account.id


@pytest.fixture
def sagelet_fast_forward(
    tmp_path_factory: pytest.TempPathFactory, sagelet_options: Mapping[str, Any], request: pytest.FixtureRequest
) -> "Iterator[FastForward]":
    """A `sagelet.testing.FastForward`: a server whose jobs are Python functions, in simulated time."""
    from sagelet.testing.fast_forward import FastForward

    with FastForward(tmp_path_factory.mktemp("sagelet"), **sagelet_options) as server:
        request.node.stash[_OWN] = server
        yield server
