"""What a job may not get through IAM and STS, even if its role's policies let it call everything."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from sagelet_api.services.iam import execution_role
from sagelet_api.services.moto.bridge import MotoBridge
from support import pipelines
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.processing import processing_request
from support.tuning import definition, tuning_request
from support.world import request

OTHER = "210987654321"
ANYBODY = {"Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}]}
NAMES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@pytest.fixture(params=[{}, {"auth": True}, {"auth": True, "enforce_iam": True}], ids=["open", "auth", "enforced"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ApiWorld]:
    bridge = MotoBridge()
    bridge.process.forget()
    with ApiWorld(tmp_path, bridge, **request.param) as running:
        yield running


def client(world: ApiWorld, service: str, keys: Any = None, account: str = ACCOUNT) -> Any:
    """`keys`: access key, secret and token, or None for an owner's."""
    key, secret, token = keys or (account, world.engine.keys.secret, None)
    return boto3.client(
        service,
        endpoint_url=f"http://127.0.0.1:{world.port}",
        region_name=REGION,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        aws_session_token=token,
        config=Config(retries={"total_max_attempts": 1}),
    )


def keys_of(given: dict[str, Any]) -> tuple[str, str, str]:
    return given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"]


def role(world: ApiWorld, *actions: str, account: str = ACCOUNT, trust: Any = None, deny: str = "") -> str:
    iam, name = client(world, "iam", account=account), f"role-{uuid.uuid4().hex[:8]}"
    document = trust or {"Statement": [*ANYBODY["Statement"], *json.loads(execution_role.TRUST_POLICY)["Statement"]]}
    arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", **document}))
    statements = [{"Effect": "Allow", "Action": [*actions] or ["s3:ListBucket"], "Resource": "*"}]
    if deny:
        statements.append({"Effect": "Deny", "Action": [deny], "Resource": "*"})
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
    iam.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=policy)
    return str(arn["Role"]["Arn"])


def job_with(world: ApiWorld, arn: str, name: str = "one") -> tuple[str, ...]:
    """The keys of a job with a role."""
    client(world, "sagemaker").create_training_job(**request(name, RoleArn=arn))
    environment = world.host(name).plan.environment
    return tuple(environment[one] for one in NAMES)


def code(call: Any, **parameters: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    return str(caught.value.response["Error"]["Code"])


def test_it_stays_in_its_account(world: ApiWorld) -> None:
    theirs = role(world, "*", account=OTHER)
    sts = client(world, "sts", job_with(world, role(world, "sts:*", "s3:*")))
    assert code(sts.assume_role, RoleArn=theirs, RoleSessionName="me") == "AccessDenied"
    mine = keys_of(sts.assume_role(RoleArn=role(world, "sts:*"), RoleSessionName="me")["Credentials"])
    assert code(client(world, "sts", mine).assume_role, RoleArn=theirs, RoleSessionName="me") == "AccessDenied"


def test_it_assumes_the_roles_that_its_own_names(world: ApiWorld) -> None:
    allowed, other = role(world, "s3:*"), role(world, "s3:*")
    running = role(world, "s3:*")
    policy = {"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": allowed}
    client(world, "iam").put_role_policy(
        RoleName=running.rpartition("/")[2], PolicyName="assume",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [policy]}),
    )  # fmt: skip
    sts = client(world, "sts", job_with(world, running))
    assert code(sts.assume_role, RoleArn=other, RoleSessionName="me") == "AccessDenied"
    assert sts.assume_role(RoleArn=allowed, RoleSessionName="me")["Credentials"]


def test_its_session_may_what_both_may(world: ApiWorld) -> None:
    wide, narrow = role(world, "*"), role(world, "s3:ListAllMyBuckets", deny="s3:PutObject")
    keys = job_with(world, role(world, "sts:*", "s3:*", "sqs:ListQueues"))
    sts = client(world, "sts", keys)
    as_wide = keys_of(sts.assume_role(RoleArn=wide, RoleSessionName="me")["Credentials"])
    as_narrow = keys_of(sts.assume_role(RoleArn=narrow, RoleSessionName="me")["Credentials"])
    client(world, "s3").create_bucket(Bucket="data")
    assert client(world, "sqs", as_wide).list_queues()
    assert code(client(world, "sqs", as_wide).create_queue, QueueName="q") == "AccessDeniedException"
    assert code(client(world, "sqs", as_narrow).list_queues) == "AccessDeniedException"
    client(world, "s3", as_wide).put_object(Bucket="data", Key="k")
    assert code(client(world, "s3", as_narrow).put_object, Bucket="data", Key="k") == "AccessDenied"
    assert client(world, "s3", as_narrow).list_buckets()["Buckets"]


def test_it_makes_no_keys_that_outlive_it(world: ApiWorld) -> None:
    client(world, "iam").create_user(UserName="ann")
    iam = client(world, "iam", job_with(world, role(world, "*")))
    assert code(iam.create_access_key, UserName="ann") == "AccessDenied"
    sts = client(world, "sts", job_with(world, role(world, "*"), "two"))
    assert code(sts.get_session_token) == code(sts.get_federation_token, Name="eve") == "AccessDenied"


def test_it_passes_no_role_but_its_own(world: ApiWorld) -> None:
    own, wide = role(world, "sagemaker:CreateTrainingJob", "sagemaker:CreateProcessingJob"), role(world, "*")
    sagemaker = client(world, "sagemaker", job_with(world, own))
    sagemaker.create_training_job(**request("same", RoleArn=own))
    assert code(sagemaker.create_training_job, **request("more", RoleArn=wide)) == "AccessDeniedException"
    processing = processing_request("more", RoleArn=wide)
    assert code(sagemaker.create_processing_job, **processing) == "AccessDeniedException"
    sagemaker.create_processing_job(**processing_request("same", RoleArn=own))
    passing = role(world, "sagemaker:CreateTrainingJob", "iam:PassRole")
    client(world, "sagemaker", job_with(world, passing, "two")).create_training_job(**request("more", RoleArn=wide))


def test_it_passes_no_role_by_a_function_either(world: ApiWorld) -> None:
    functions = client(world, "lambda", job_with(world, role(world, "lambda:*")))
    given = {"FunctionName": "f", "Runtime": "python3.11", "Handler": "f.h", "Code": {"ZipFile": b"x"}}
    with pytest.raises(ClientError, match=r"AccessDeniedException.*iam:PassRole"):
        functions.create_function(**given, Role=role(world, "*"))


def test_it_passes_no_role_by_a_tuning_job_either(world: ApiWorld) -> None:
    own, wide = role(world, "sagemaker:*"), role(world, "*")
    sagemaker = client(world, "sagemaker", job_with(world, own))

    def definitions(*roles: str) -> dict[str, Any]:
        """A tuning job with several definitions."""
        body = tuning_request("several")
        single, config = body.pop("TrainingJobDefinition"), body["HyperParameterTuningJobConfig"]
        objective, ranges = config.pop("HyperParameterTuningJobObjective"), config.pop("ParameterRanges")
        own_members = {"TuningObjective": objective, "HyperParameterRanges": ranges}
        body["TrainingJobDefinitions"] = [
            {**single, **own_members, "DefinitionName": f"d{number}", "RoleArn": arn}
            for number, arn in enumerate(roles)
        ]
        return body

    create = sagemaker.create_hyper_parameter_tuning_job
    create(**tuning_request("same", job=definition(RoleArn=own)))
    assert code(create, **tuning_request("more", job=definition(RoleArn=wide))) == "AccessDeniedException"
    assert code(create, **definitions(own, wide)) == "AccessDeniedException"
    create(**definitions(own, own))


def test_rest_operations_are_asked_for_by_their_names(world: ApiWorld) -> None:
    keys = job_with(world, role(world, "lambda:ListFunctions", "batch:*", deny="batch:CreateComputeEnvironment"))
    functions = client(world, "lambda", keys)
    assert functions.list_functions()["Functions"] == []
    assert code(functions.delete_function, FunctionName="x") == "AccessDeniedException"
    batch = client(world, "batch", keys)
    assert batch.describe_job_queues()["jobQueues"] == []
    refused = code(batch.create_compute_environment, computeEnvironmentName="c", type="UNMANAGED")
    assert refused == "AccessDeniedException"


def test_an_owners_session_is_limited_by_its_session_policy(world: ApiWorld) -> None:
    sts, arn = client(world, "sts"), role(world, "*")
    only = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]})
    federated = keys_of(sts.get_federation_token(Name="bob", Policy=only)["Credentials"])
    limited = keys_of(sts.assume_role(RoleArn=arn, RoleSessionName="me", Policy=only)["Credentials"])
    for keys in (federated, limited):
        assert client(world, "s3", keys).list_buckets()["Buckets"] == []
        assert code(client(world, "sagemaker", keys).list_training_jobs) == "AccessDeniedException"
        assert client(world, "sts", keys).get_caller_identity()
    bare = keys_of(sts.get_federation_token(Name="bob")["Credentials"])
    assert code(client(world, "s3", bare).list_buckets) == "AccessDenied"
    assert code(sts.assume_role, RoleArn=arn, RoleSessionName="me", Policy="{") == "MalformedPolicyDocument"


def test_an_owners_session_of_a_role(world: ApiWorld) -> None:
    """Its policies count where IAM is enforced; elsewhere it is as free as its owner, but for the control endpoints."""
    arn = role(world, "s3:*")
    keys = keys_of(client(world, "sts").assume_role(RoleArn=arn, RoleSessionName="me")["Credentials"])
    assert client(world, "s3", keys).list_buckets()["Buckets"] == []
    sagemaker = client(world, "sagemaker", keys)
    if world.settings.enforce_iam:
        assert code(sagemaker.list_training_jobs) == "AccessDeniedException"
    else:
        assert sagemaker.list_training_jobs()["TrainingJobSummaries"] == []


def test_the_owner_may_assume_the_execution_role_of_a_fresh_account(world: ApiWorld) -> None:
    account = "555555555555"
    arn = f"arn:aws:iam::{account}:role{execution_role.PATH}{execution_role.NAME}"
    keys = keys_of(client(world, "sts", account=account).assume_role(RoleArn=arn, RoleSessionName="me")["Credentials"])
    assert client(world, "sts", keys).get_caller_identity()["Account"] == account
    assert code(client(world, "sts").assume_role, RoleArn=arn, RoleSessionName="me") == "AccessDenied"


def test_it_does_by_a_pipeline_only_what_it_may_do_itself(world: ApiWorld) -> None:
    own, wide = role(world, "sagemaker:*Pipeline*", "sagemaker:CreateTrainingJob"), role(world, "*")
    sagemaker = client(world, "sagemaker", job_with(world, own))

    def create(name: str, steps: list[dict[str, Any]], arn: str = own) -> None:
        text = pipelines.definition(*steps)
        sagemaker.create_pipeline(PipelineName=name, PipelineDefinition=text, RoleArn=arn, ClientRequestToken="t" * 32)

    def train(arn: Any) -> dict[str, Any]:
        made = pipelines.train("a")
        made["Arguments"]["RoleArn"] = arn
        return made

    create("own", [train(own)])
    inside = pipelines.condition("c", [pipelines.compare("Equals", 1, 1)], [train(wide)])
    later = train(pipelines.get("Parameters.Role"))
    for steps in ([train(wide)], [inside], [later], [pipelines.step("m", "Model")]):
        assert code(create, name="more", steps=steps) == "AccessDeniedException"
    assert code(create, name="more", steps=[train(own)], arn=wide) == "AccessDeniedException"
    where = {"Bucket": "bucket", "ObjectKey": "k"}
    more = {"PipelineDefinitionS3Location": where, "RoleArn": own, "ClientRequestToken": "t" * 32}
    assert code(sagemaker.create_pipeline, PipelineName="more", **more) == "AccessDeniedException"
    start = sagemaker.start_pipeline_execution
    token = {"PipelineName": "own", "ClientRequestToken": "t" * 32}
    assert code(start, RoleArn=wide, **token) == "AccessDeniedException"
    start(**token)
