"""Which server a command, or `sagelet.connect`, means."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.servers.contexts import changed_contexts, made_context
from sagelet_api.servers.rule import Given, choose, directory_to_serve, is_expected
from sagelet_api.servers.server import Directory, NoServer, Origin, Server
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.state.notice import Notice, post_notice
from sagelet_engine.state.owner import lock_directory

HERE, THERE, CI = "http://127.0.0.1:4599", "http://127.0.0.1:5000", "http://ci:4599"


class Home:
    """A user's directories, with no variables but those that a test names."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.root = root
        self.data = root / "share" / "sagelet"
        self._stack = stack
        self._variables = {
            "HOME": str(root), "SAGELET_CONTEXTS": str(root / "contexts.json"), "AWS_CONFIG_FILE": os.devnull,
        }  # fmt: skip

    def serve(self, data: Path, endpoint: str) -> Path:
        """A server runs on `data` until the end of the test."""
        self._stack.enter_context(closing(lock_directory(data)))
        post_notice(data, Notice(os.getpid(), endpoint, 0))
        return data

    def context(self, name: str, *, use: bool = False, **members: Any) -> None:
        with changed_contexts(self._variables) as contexts:
            contexts.named[name] = made_context(name, **members)
            contexts.current = name if use else contexts.current

    def choose(self, given: Given | None = None, *, as_aws: bool = True, **variables: str) -> Server:
        return choose(given or Given(), self.environ(variables), as_aws=as_aws)

    def environ(self, variables: Mapping[str, str]) -> Mapping[str, str]:
        return {**self._variables, **variables}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    with ExitStack() as stack:
        yield Home(tmp_path, stack)


def test_where_nothing_is_named_it_is_the_default_one(home: Home) -> None:
    found = home.choose()
    assert (found.endpoint, found.data, found.account, found.region) == (HERE, home.data, "123456789012", "us-east-1")
    assert (found.named_by, found.origin, is_expected(found), found.directory) == (
        "",
        Origin.NOTHING,
        True,
        Directory.OWN,
    )
    home.serve(home.data, THERE)
    assert home.choose().endpoint == THERE


def test_option_then_environment_then_context_then_default(home: Home) -> None:
    home.context("used", use=True, endpoint="http://used:1")
    home.context("other", endpoint="http://other:1")
    variables = {"AWS_ENDPOINT_URL": "http://aws:1"}
    found = [home.choose(), home.choose(**variables), home.choose(**variables, SAGELET_ENDPOINT="http://variable:1")]
    found.append(home.choose(**variables, SAGELET_CONTEXT="other"))
    found.append(home.choose(Given(endpoint="http://option:1"), **variables, SAGELET_ENDPOINT="http://variable:1"))
    found.append(home.choose(Given(context="default"), **variables, SAGELET_CONTEXT="other"))
    assert [one.endpoint for one in found] == [
        "http://used:1", "http://aws:1", "http://variable:1", "http://other:1", "http://option:1", HERE,
    ]  # fmt: skip
    assert [one.named_by for one in found] == [
        "context used", "AWS_ENDPOINT_URL", "SAGELET_ENDPOINT", "context other, SAGELET_CONTEXT", "", "context default",
    ]  # fmt: skip
    assert [is_expected(one) for one in found] == [False, False, False, False, True, True]


def test_a_data_directory_means_the_server_that_runs_on_it(home: Home) -> None:
    data = home.serve(home.root / "mine", THERE)
    for found in (home.choose(Given(data=data)), home.choose(SAGELET_DATA=str(data))):
        assert (found.endpoint, found.data, found.directory) == (THERE, data, Directory.OWN)
    # The endpoint of a variable is another server's.
    assert home.choose(Given(data=data), SAGELET_ENDPOINT=CI).endpoint == THERE


def test_a_data_directory_without_a_server_means_no_other_server(home: Home) -> None:
    home.serve(home.data, HERE)
    idle = home.root / "idle"
    home.context("idle", data=str(idle))
    for found in (
        home.choose(Given(data=idle)),
        home.choose(Given(context="idle")),
        home.choose(SAGELET_DATA=str(idle)),
    ):
        assert found.data == idle
        with pytest.raises(NoServer, match=f"No sagelet server runs on {idle}.*`sagelet up --data {idle}`"):
            _ = found.endpoint
    # Variables for programs may name the endpoint beside it: its server may be in a container.
    assert home.choose(SAGELET_DATA=str(idle), AWS_ENDPOINT_URL=THERE).endpoint == THERE


def test_the_directory_of_an_endpoint_is_known_where_its_server_runs(home: Home) -> None:
    assert home.choose(Given(endpoint="http://localhost:4599")).directory is Directory.OWN
    assert home.choose(Given(endpoint=THERE)).directory is Directory.TRIED
    home.serve(home.data, THERE)
    assert home.choose(Given(endpoint="http://localhost:5000")).directory is Directory.OWN
    assert home.choose(AWS_ENDPOINT_URL=HERE).directory is Directory.TRIED
    copy = home.root / "keys"
    beside = home.choose(Given(endpoint=CI), SAGELET_DATA=str(copy))
    assert (beside.data, beside.directory) == (copy, Directory.NAMED)


def test_nobody_is_told_what_is_the_default_all_the_same(home: Home) -> None:
    home.serve(home.data, HERE)
    assert is_expected(home.choose(AWS_ENDPOINT_URL="http://localhost:4599"))
    assert is_expected(home.choose(SAGELET_ENDPOINT=HERE, SAGELET_DATA=str(home.data)))
    assert not is_expected(home.choose(SAGELET_ENDPOINT=HERE, SAGELET_DATA=str(home.root)))


def test_a_context_stands_alone(home: Home) -> None:
    home.context("ci", endpoint=CI)
    with pytest.raises(SettingsError, match="--context and --data may mean two servers"):
        home.choose(Given(context="ci", data=home.root))
    with pytest.raises(SettingsError, match="SAGELET_CONTEXT and SAGELET_ENDPOINT and SAGELET_DATA may mean two"):
        home.choose(SAGELET_CONTEXT="ci", SAGELET_ENDPOINT=HERE, SAGELET_DATA="/x")


def test_account_and_region_follow_the_same_order(home: Home) -> None:
    aws = {"AWS_ACCESS_KEY_ID": "222222222222", "AWS_REGION": "eu-west-2"}
    home.context("ci", use=True, endpoint=CI, account="333333333333", region="eu-west-3")
    own, named = ("222222222222", "eu-west-2"), ("333333333333", "eu-west-3")

    def whose(given: Given | None = None, **variables: str) -> tuple[str, str]:
        found = home.choose(given, **variables)
        return found.account, found.region

    assert whose() == named
    assert whose(**aws) == own, "the environment comes before the current context"
    assert whose(**aws, SAGELET_CONTEXT="ci") == named, "the context of the environment is more precise"
    assert whose(Given(context="ci"), **aws) == named
    assert whose(Given("ci", account="444444444444", region="eu-west-4"), **aws) == ("444444444444", "eu-west-4")
    assert whose(Given(endpoint=HERE)) == ("123456789012", "us-east-1"), "another server's context says nothing"
    assert whose(AWS_ACCESS_KEY_ID="AKIAIOSFODNN7EXAMPLE", AWS_ENDPOINT_URL=HERE) == ("123456789012", "us-east-1")
    found = home.choose(Given(endpoint=HERE), as_aws=False, **aws)
    assert (found.account, found.region) == ("123456789012", "us-east-1")


def test_what_a_server_is_started_on(home: Home) -> None:
    home.context("ci", use=True, endpoint=CI)
    home.context("mine", data="/mine")

    def served(given: Given | None = None, **variables: str) -> Path:
        return directory_to_serve(given or Given(), home.environ(variables))

    # An endpoint says nothing about it.
    assert served(Given(data=Path("/option")), SAGELET_DATA="/variable") == Path("/option")
    assert served(SAGELET_DATA="/variable", AWS_ENDPOINT_URL=HERE) == Path("/variable")
    assert served(Given(context="mine"), SAGELET_DATA="/variable") == Path("/mine")
    assert served(Given(context="default")) == home.data
    with pytest.raises(SettingsError, match="context ci names no data directory"):
        served(SAGELET_ENDPOINT=HERE)


def test_the_authority_of_https(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    home.context("ci", endpoint="https://ci:4599", ca="/ca.pem", data=str(home.root / "keys"))
    assert home.choose(Given(context="ci")).authority == Path("/ca.pem")
    own = home.data / "tls" / "ca.pem"
    found = home.choose(Given(endpoint="https://127.0.0.1:4599"))
    assert found.authority is None
    monkeypatch.setenv("AWS_CA_BUNDLE", "/bundle.pem")
    assert found.authority == Path("/bundle.pem")
    own.parent.mkdir(parents=True)
    own.touch()
    assert found.authority == own
    assert home.choose().authority is None, "http"


def test_spellings_of_an_endpoint(home: Home) -> None:
    home.context("ci", endpoint="HTTPS://ci:4599/", ca="/ca.pem")
    found = home.choose(Given(context="ci"))
    assert (found.endpoint, found.authority) == ("https://ci:4599", Path("/ca.pem"))
    for wrong in ("http://ci:4599?", "http://ci:4599#", "http://ci:4599/?a=b"):
        with pytest.raises(SettingsError, match="HOST:PORT alone"):
            home.choose(Given(endpoint=wrong))


@pytest.mark.parametrize("endpoint", [f"{HERE}/foo", f"{HERE}/_sagelet/ui/", f"{HERE}//x"])
def test_an_endpoint_with_a_path_is_refused(home: Home, endpoint: str) -> None:
    with pytest.raises(SettingsError, match=r"has a path.*write http://HOST:PORT alone"):
        home.choose(Given(endpoint=endpoint))
    with pytest.raises(SettingsError, match="has a path"):
        home.choose(SAGELET_ENDPOINT=endpoint)
    assert home.choose(Given(endpoint=f"{HERE}/")).endpoint == HERE


def test_an_endpoint_and_a_directory_of_two_servers_are_told(home: Home) -> None:
    data = home.serve(home.root / "one", THERE)
    both = {"SAGELET_ENDPOINT": CI, "SAGELET_DATA": str(data)}
    said = home.choose(**both).doubt
    assert CI in said
    assert f"the server that runs on the data directory {data} is {THERE}" in said
    assert home.choose(Given(endpoint=CI), SAGELET_DATA=str(data)).doubt == said
    assert home.choose(Given(endpoint=CI, data=data)).doubt == said


def test_an_endpoint_and_a_directory_of_one_server_or_of_none_are_not_doubted(home: Home) -> None:
    data = home.serve(home.root / "one", THERE)
    named = THERE.replace("127.0.0.1", "localhost")
    assert home.choose(SAGELET_ENDPOINT=named, SAGELET_DATA=str(data)).doubt == ""
    assert home.choose(SAGELET_ENDPOINT=CI, SAGELET_DATA=str(home.root / "nobody")).doubt == ""
    assert home.choose(SAGELET_ENDPOINT=CI).doubt == ""
    assert home.choose(SAGELET_DATA=str(data)).doubt == ""


def test_a_server_on_all_addresses_may_have_any_name_but_has_one_port(home: Home) -> None:
    """In a container: examples/around/github-actions names endpoint and directory of one server."""
    port = CI.rpartition(":")[2]
    every = [(f"http://0.0.0.0:{port}", False), (f"http://[::]:{port}", False), ("http://0.0.0.0:1", True)]
    for number, (served, doubted) in enumerate(every):
        data = home.serve(home.root / f"server-{number}", served)
        assert bool(home.choose(SAGELET_ENDPOINT=CI, SAGELET_DATA=str(data)).doubt) is doubted
