"""The pytest plugin, in pytest runs of its own."""

import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytest_plugins = ["pytester"]

#: A checkout that was installed before the plugin was there does not know it yet.
INSTALLED = any(point.name == "sagelet" for point in entry_points(group="pytest11"))
OPTIONS = () if INSTALLED else ("-p", "sagelet.testing.plugin")

#: Two files, each dealt to a worker of pytest-xdist.
FILES = {
    name: f"""
        from pathlib import Path
        import boto3, os, subprocess, sys

        HERE = Path({{directory!r}})

        def note(what):
            with (HERE / "notes").open("a") as file:
                file.write(what + "\\n")

        def test_session(sagelet_session, sagelet_endpoint):
            s3 = sagelet_session.client("s3")
            assert s3.meta.endpoint_url == sagelet_endpoint
            assert s3.list_buckets()["Buckets"] == []
            s3.create_bucket(Bucket="same-name-in-every-worker")
            s3.put_object(Bucket="same-name-in-every-worker", Key="key", Body=b"1")
            note(sagelet_endpoint)

        def test_same_server(sagelet_session, sagelet_server):
            names = [one["Name"] for one in sagelet_session.client("s3").list_buckets()["Buckets"]]
            assert names == ["same-name-in-every-worker"]
            assert (sagelet_server.data / "s3/same-name-in-every-worker/key").read_bytes() == b"1"

        def test_{name}_environment(sagelet_environment):
            assert boto3.client("s3").list_buckets()["Buckets"]
            sts = boto3.client("sts", endpoint_url="https://sts.us-east-1.amazonaws.com")
            assert sts.get_caller_identity()["Account"] == "123456789012"
            assert boto3.client("s3").get_waiter("bucket_exists").config.delay < 1
            assert os.environ["AWS_ENDPOINT_URL"] == sagelet_environment.endpoint

        def test_environment_is_as_it_was():
            assert "AWS_ENDPOINT_URL" not in os.environ
            client = boto3.client("sts", "eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")
            assert client.meta.endpoint_url.endswith("amazonaws.com")
    """
    for name in ("one", "two")
}


def add(pytester: pytest.Pytester) -> Path:
    """The two files; where they leave notes."""
    directory = pytester.path
    pytester.makepyfile(**{f"test_{name}": text.format(directory=str(directory)) for name, text in FILES.items()})
    return directory / "notes"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "SAGELET_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


def test_each_worker_of_xdist_has_a_server_of_its_own(pytester: pytest.Pytester) -> None:
    notes = add(pytester)
    ran = pytester.runpytest_subprocess(*OPTIONS, "-n", "2", "--dist", "loadfile")
    ran.assert_outcomes(passed=8)
    assert len(set(notes.read_text().split())) == 2


FAILED_JOB = """
    PYTORCH = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:1.13.1-gpu-py39"
    XGBOOST = "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-xgboost:1.7-1"

    def body(name, image=PYTORCH):
        return {
            "TrainingJobName": name, "RoleArn": "arn:aws:iam::123456789012:role/service-role/SageMaker",
            "AlgorithmSpecification": {"TrainingImage": image, "TrainingInputMode": "File"},
            "OutputDataConfig": {"S3OutputPath": "s3://out/models"},
            "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": 60},
        }

    def test_fails(sagelet_fast_forward):
        @sagelet_fast_forward.train
        def train(job):
            for step in range(20):
                job.print(f"step {step}")
            job.print("\\x1b]0;title\\x07")
            raise ValueError("\\x1b[2Jthe data are gone")

        session = sagelet_fast_forward.session()
        session.client("s3").create_bucket(Bucket="out")
        session.client("sagemaker").create_training_job(**body("nightly"))
        assert sagelet_fast_forward.wait("nightly")["TrainingJobStatus"] == "Completed"

    def test_fails_without_a_job(sagelet_fast_forward):
        assert False

    def test_fails_before_anything_is_printed(sagelet_account):
        session = sagelet_account.session()
        session.client("s3").create_bucket(Bucket="out")
        sagemaker = session.client("sagemaker")
        sagemaker.create_training_job(**body("refused", XGBOOST))
        sagemaker.get_waiter("training_job_completed_or_stopped").wait(TrainingJobName="refused")

    def test_fails_after_newer_jobs_completed(sagelet_fast_forward):
        @sagelet_fast_forward.train
        def train(job):
            assert job.name != "first"

        session = sagelet_fast_forward.session()
        session.client("s3").create_bucket(Bucket="out")
        names = ["first", "second", "third", "fourth"]
        for name in names:
            session.client("sagemaker").create_training_job(**body(name))
        states = {sagelet_fast_forward.wait(name)["TrainingJobStatus"] for name in names}
        assert states == {"Completed"}
"""


def test_a_failed_test_shows_why_its_job_failed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FAILED_JOB)
    ran = pytester.runpytest_subprocess(*OPTIONS)
    ran.assert_outcomes(failed=4)
    text = ran.stdout.str()
    assert "it is AWS's closed image of XGBoost" in text
    assert "Which jobs failed is not known" not in text
    assert text.count("sagelet: training job first failed") == 1
    assert text.count("sagelet: training job nightly failed") == 1
    # No terminal obeys what a job wrote.
    assert "AlgorithmError: ValueError: \u241b[2Jthe data are gone, exit code: 1" in text
    assert "\n\u241b]0;title\u2407\n" in text
    assert "\x1b]0;" not in text
    assert "Last lines of nightly/algo-1-" in text
    assert "step 19" in text
    assert "step 5\n" not in text.partition("Last lines of nightly")[2]


def test_scope_and_settings_are_configurable(pytester: pytest.Pytester) -> None:
    notes = add(pytester)
    pytester.makeini("[pytest]\nsagelet_scope = module\n")
    pytester.makeconftest(
        """
        import pytest
        @pytest.fixture(scope="module")
        def sagelet_options():
            return {"auth": True, "tls": True}
        """
    )
    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=8)
    endpoints = set(notes.read_text().split())
    assert len(endpoints) == 2
    assert all(endpoint.startswith("https://") for endpoint in endpoints)


def test_the_option_outranks_the_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nsagelet_scope = session\n")
    pytester.makepyfile(
        """
        seen = []
        def test_one(sagelet_endpoint): seen.append(sagelet_endpoint)
        def test_two(sagelet_endpoint): assert seen != [sagelet_endpoint]

        def test_fast_forward(sagelet_fast_forward):
            assert sagelet_fast_forward.endpoint not in seen
            before = sagelet_fast_forward.clock.now()
            sagelet_fast_forward.clock.advance(3600)
            assert (sagelet_fast_forward.clock.now() - before).total_seconds() == 3600

        def test_faults(sagelet_faults, sagelet_session):
            sagelet_faults.throttle("*", service="logs")
        """
    )
    pytester.runpytest_subprocess(*OPTIONS, "--sagelet-scope", "function").assert_outcomes(passed=4)


def test_each_test_has_an_account_of_its_own_on_the_shared_server(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import boto3, pytest
        from botocore.config import Config
        from botocore.exceptions import ClientError

        seen = []

        @pytest.mark.parametrize("number", range(3))
        def test_account(sagelet_account, sagelet_environment, number):
            seen.append((sagelet_account.id, sagelet_environment.endpoint))
            assert boto3.client("sts").get_caller_identity()["Account"] == sagelet_account.id
            s3 = sagelet_account.session().client("s3")
            assert s3.list_buckets()["Buckets"] == []
            boto3.client("s3").create_bucket(Bucket="the-same-name")

        def test_faults_are_of_the_account(sagelet_account, sagelet_faults):
            sagelet_faults.throttle("ListTrainingJobs", calls=1)
            once = Config(retries={"total_max_attempts": 1})
            sagemaker = sagelet_account.session().client("sagemaker", config=once)
            with pytest.raises(ClientError, match="Throttling"):
                sagemaker.list_training_jobs()

        def test_accounts_differ_and_the_server_does_not():
            accounts, endpoints = zip(*seen)
            assert (len(set(accounts)), len(set(endpoints))) == (3, 1)
            assert "123456789012" not in accounts
        """
    )
    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=5)


def test_faults_are_those_of_the_account_that_the_test_has(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from botocore.exceptions import ClientError

        def throttled(session):
            with pytest.raises(ClientError, match="ThrottlingException"):
                session.client("sagemaker").list_training_jobs()

        def test_of_an_account(sagelet_account, sagelet_faults, sagelet_session):
            sagelet_faults.throttle("ListTrainingJobs", calls=10)
            sagelet_session.client("sagemaker").list_training_jobs()
            throttled(sagelet_account.session())

        def test_of_the_server(sagelet_faults, sagelet_session):
            sagelet_faults.throttle("ListTrainingJobs", calls=10)
            throttled(sagelet_session)
        """
    )
    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=2)


def test_a_wrong_scope_is_named(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nsagelet_scope = forever\n")
    ran = pytester.runpytest_subprocess(*OPTIONS)
    assert ran.ret == pytest.ExitCode.USAGE_ERROR
    ran.stderr.fnmatch_lines(["*sagelet_scope = forever: it must be one of session, package,*"])


def test_the_plugin_is_an_entry_point_that_loads_nothing_heavy(pytester: pytest.Pytester) -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["pytest11"] == {"sagelet": "sagelet.testing.plugin"}
    pytester.makepyfile(
        """
        import sys
        def test_nothing_is_loaded():
            assert "sagelet.testing.plugin" in sys.modules
            assert not {"boto3", "moto", "flask", "docker", "sagelet_api"} & sys.modules.keys()
        """
    )
    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=1)
