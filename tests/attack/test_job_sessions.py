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
from support.world import request, until

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


def test_it_does_by_a_pipeline_only_what_its_role_may_do(world: ApiWorld) -> None:
    own, wide = role(world, "sagemaker:*Pipeline*", "sagemaker:CreateTrainingJob"), role(world, "*")
    sagemaker = client(world, "sagemaker", job_with(world, own))

    def create(name: str, steps: list[dict[str, Any]], arn: str = own) -> None:
        text = pipelines.definition(*steps)
        sagemaker.create_pipeline(PipelineName=name, PipelineDefinition=text, RoleArn=arn, ClientRequestToken="t" * 32)

    def train(arn: Any) -> dict[str, Any]:
        made = pipelines.train("a")
        made["Arguments"]["RoleArn"] = arn
        return made

    def failure(name: str) -> str:
        arn = sagemaker.start_pipeline_execution(PipelineName=name, ClientRequestToken="t" * 32)["PipelineExecutionArn"]
        listed = client(world, "sagemaker").list_pipeline_execution_steps

        def reasons() -> list[str]:
            steps = listed(PipelineExecutionArn=arn)["PipelineExecutionSteps"]
            return [one["FailureReason"] for one in steps if "FailureReason" in one]

        return str(until(reasons)[0])

    inside = pipelines.condition("c", [pipelines.compare("Equals", 1, 1)], [train(wide)])
    joined = train(pipelines.join("", wide))
    passed = f"iam:PassRole on resource: {wide} "
    image = {"Image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/m:1"}
    model = pipelines.step("m", "Model", {"PrimaryContainer": image})
    for number, (step, needed) in enumerate(
        [(train(wide), passed), (inside, passed), (joined, passed), (model, "sagemaker:CreateModel ")]
    ):
        create(f"pipe-{number}", [step])
        assert f"is not authorized to perform: {needed}" in failure(f"pipe-{number}")
    assert code(create, name="more", steps=[train(own)], arn=wide) == "AccessDeniedException"
    start = sagemaker.start_pipeline_execution
    token = {"PipelineName": "pipe-0", "ClientRequestToken": "u" * 32}
    assert code(start, RoleArn=wide, **token) == "AccessDeniedException"


def test_it_gives_no_definition_to_a_role_that_it_may_not_pass(world: ApiWorld) -> None:
    """Whoever writes the definition of a pipeline decides what its role does."""
    owners, own, wide = client(world, "sagemaker"), role(world, "sagemaker:*Pipeline*"), role(world, "*")
    text = pipelines.definition(pipelines.fail("a", "b"))
    owners.create_pipeline(PipelineName="p", PipelineDefinition=text, RoleArn=wide, ClientRequestToken="t" * 32)
    sagemaker = client(world, "sagemaker", job_with(world, own))
    assert code(sagemaker.update_pipeline, PipelineName="p", PipelineDefinition=text) == "AccessDeniedException"
    # Nor does it take a pipeline over.
    sagemaker.update_pipeline(PipelineName="p", RoleArn=own)


def test_it_reads_no_definition_that_it_may_not_read(world: ApiWorld) -> None:
    own = role(world, "sagemaker:*Pipeline*", deny="s3:GetObject")
    world.objects.put("bucket", "k", pipelines.definition(pipelines.fail("a", "b")).encode())
    where = {"PipelineDefinitionS3Location": {"Bucket": "bucket", "ObjectKey": "k"}}
    more = {**where, "RoleArn": own, "ClientRequestToken": "t" * 32}
    create = client(world, "sagemaker", job_with(world, own)).create_pipeline
    assert code(create, PipelineName="more", **more) == "AccessDeniedException"


def test_it_hands_on_no_role_in_any_request(world: ApiWorld) -> None:
    """Also in those that moto answers."""
    own, wide = role(world, "sagemaker:*", "lambda:*"), role(world, "*")
    sagemaker = client(world, "sagemaker", job_with(world, own))
    image = {"Image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/m:1"}
    sagemaker.create_model(ModelName="own", PrimaryContainer=image, ExecutionRoleArn=own)
    model = {"ModelName": "m", "PrimaryContainer": image, "ExecutionRoleArn": wide}
    notebook = {"NotebookInstanceName": "n", "InstanceType": "ml.t2.medium", "RoleArn": wide}
    domain = {"DomainName": "d", "AuthMode": "IAM", "DefaultUserSettings": {"ExecutionRole": wide}}
    calls = [
        (sagemaker.create_model, model), (sagemaker.create_notebook_instance, notebook),
        (sagemaker.create_domain, {**domain, "SubnetIds": ["s"], "VpcId": "v"}),
    ]  # fmt: skip
    for call, parameters in calls:
        assert code(call, **parameters) == "AccessDeniedException"
