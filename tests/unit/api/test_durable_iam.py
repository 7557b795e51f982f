"""IAM survives the server: users, roles, policies, boundaries, instance profiles and keys."""

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.cli.state import FORGOTTEN
from sagelet_api.services.iam import execution_role
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.services.moto.iam import CHANGERS
from sagelet_api.services.moto.iam_records import KINDS, IamUnreadable, records_of, restore
from sagelet_engine.state.exporting import export_data
from sagelet_engine.state.importing import import_data
from sagelet_engine.store.iam import IamKey
from support.api_world import ACCOUNT, ApiWorld

TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})
DENIAL = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "s3:*", "Resource": "arn:aws:s3:::a/*"}]}
)
TAGS = [{"Key": "k", "Value": "\u00fc"}]


@pytest.fixture
def own_bridge() -> Iterator[MotoBridge]:
    """A bridge whose moto is empty, and is emptied: it is one for the process."""
    made = MotoBridge()
    made.process.app()
    made.process.forget()
    yield made
    made.process.forget()


def fill(iam: Any) -> None:
    """Makes one of each kind that IAM has, as many of the ways to change them as moto has."""
    policy = iam.create_policy(PolicyName="p", PolicyDocument=DENIAL, Tags=TAGS, Path="/x/")["Policy"]["Arn"]
    iam.create_policy_version(PolicyArn=policy, PolicyDocument=DENIAL.replace("/a/", "/b/"), SetAsDefault=True)
    iam.create_role(
        RoleName="r", AssumeRolePolicyDocument=TRUST, PermissionsBoundary=policy, Tags=TAGS, MaxSessionDuration=7200
    )
    iam.put_role_policy(RoleName="r", PolicyName="inline", PolicyDocument=DENIAL)
    iam.attach_role_policy(RoleName="r", PolicyArn=policy)
    iam.create_service_linked_role(AWSServiceName="autoscaling.amazonaws.com")
    iam.create_user(UserName="u", Path="/y/", Tags=TAGS)
    iam.put_user_policy(UserName="u", PolicyName="inline", PolicyDocument=DENIAL)
    iam.attach_user_policy(UserName="u", PolicyArn=policy)
    iam.create_access_key(UserName="u")
    iam.create_login_profile(UserName="u", Password="Secret-1")
    iam.create_group(GroupName="g")
    iam.put_group_policy(GroupName="g", PolicyName="inline", PolicyDocument=DENIAL)
    iam.attach_group_policy(GroupName="g", PolicyArn=policy)
    iam.add_user_to_group(GroupName="g", UserName="u")
    iam.create_instance_profile(InstanceProfileName="i")
    iam.add_role_to_instance_profile(InstanceProfileName="i", RoleName="r")
    device = iam.create_virtual_mfa_device(VirtualMFADeviceName="m")["VirtualMFADevice"]["SerialNumber"]
    iam.enable_mfa_device(UserName="u", SerialNumber=device, AuthenticationCode1="123456", AuthenticationCode2="234567")
    iam.upload_server_certificate(ServerCertificateName="c", CertificateBody="body", PrivateKey="key")
    iam.create_saml_provider(Name="s", SAMLMetadataDocument="a" * 1024)
    iam.create_open_id_connect_provider(Url="https://example.org", ThumbprintList=["a" * 40])
    iam.upload_ssh_public_key(UserName="u", SSHPublicKeyBody="ssh-rsa AAAA")
    iam.create_account_alias(AccountAlias="alias")
    iam.update_account_password_policy(MinimumPasswordLength=10)


def everything(iam: Any) -> dict[str, Any]:
    """What the API says of all of it."""
    said = {
        "details": iam.get_account_authorization_details(),
        "keys": iam.list_access_keys(UserName="u"),
        "profiles": iam.list_instance_profiles(),
        "mfa": iam.list_mfa_devices(UserName="u"),
        "certificates": iam.list_server_certificates(),
        "saml": iam.list_saml_providers(),
        "oidc": iam.list_open_id_connect_providers(),
        "ssh": iam.list_ssh_public_keys(UserName="u"),
        "aliases": iam.list_account_aliases(),
        "password": iam.get_account_password_policy(),
        "tags": iam.list_user_tags(UserName="u"),
        "policy": iam.get_role(RoleName="r"),
    }
    for answer in said.values():
        answer.pop("ResponseMetadata")
    return said


def test_all_of_it_is_there_after_a_restart(tmp_path: Path, own_bridge: MotoBridge) -> None:
    with ApiWorld(tmp_path, own_bridge) as world:
        fill(world.client("iam"))
        before = everything(world.client("iam"))
        records = world.engine.iam.of(ACCOUNT, "aws")
    assert {key.kind for key in records} == {*KINDS, "account"} - {"inline_policies"}
    own_bridge.process.forget()
    with ApiWorld(tmp_path, own_bridge) as world:
        assert everything(world.client("iam")) == before
        assert records_of(own_bridge.iam.of(ACCOUNT, "aws")) == records


def test_all_of_it_is_exported_and_imported(tmp_path: Path, own_bridge: MotoBridge) -> None:
    with ApiWorld(tmp_path / "one", own_bridge) as world:
        fill(world.client("iam"))
        before = everything(world.client("iam"))
        # While the server goes on.
        export_data(world.settings.data, tmp_path / "saved.tar")
        world.client("iam").create_user(UserName="later")
    own_bridge.process.forget()
    import_data(tmp_path / "saved.tar", tmp_path / "two/data")
    with ApiWorld(tmp_path / "two", own_bridge) as world:
        assert everything(world.client("iam")) == before
        with pytest.raises(ClientError, match="NoSuchEntity"):
            world.client("iam").get_user(UserName="later")
    # The command does not say of it what it says of moto's other services.
    assert "IAM" not in FORGOTTEN


def test_what_is_deleted_stays_deleted(tmp_path: Path, own_bridge: MotoBridge) -> None:
    with ApiWorld(tmp_path, own_bridge) as world:
        iam = world.client("iam")
        iam.create_user(UserName="u")
        iam.create_user(UserName="v")
        iam.delete_user(UserName="u")
        for policy in iam.list_role_policies(RoleName=execution_role.NAME)["PolicyNames"]:
            iam.delete_role_policy(RoleName=execution_role.NAME, PolicyName=policy)
        iam.delete_role(RoleName=execution_role.NAME)
    own_bridge.process.forget()
    with ApiWorld(tmp_path, own_bridge) as world:
        iam = world.client("iam")
        assert [user["UserName"] for user in iam.list_users()["Users"]] == ["v"]
        roles = {role["RoleName"] for role in iam.list_roles()["Roles"]}
        assert roles == {*execution_role.ROLES} - {execution_role.NAME}
        # A script may still make its own role of a name that is there from the start.
        iam.create_role(RoleName="SageMakerRole", AssumeRolePolicyDocument=TRUST)


def test_a_key_of_a_user_is_valid_after_a_restart(tmp_path: Path, own_bridge: MotoBridge) -> None:
    with ApiWorld(tmp_path, own_bridge) as world:
        world.client("iam").create_user(UserName="u")
        key = world.client("iam").create_access_key(UserName="u")["AccessKey"]
    own_bridge.process.forget()
    with ApiWorld(tmp_path, own_bridge):
        assert own_bridge.iam.secret_of(key["AccessKeyId"]) == (key["SecretAccessKey"], ACCOUNT)
        assert own_bridge.iam.user_of_key(key["AccessKeyId"]) == f"arn:aws:iam::{ACCOUNT}:user/u"


def test_an_account_that_is_emptied_has_what_a_new_one_has(tmp_path: Path, own_bridge: MotoBridge) -> None:
    with ApiWorld(tmp_path, own_bridge) as world:
        fill(world.client("iam"))
        world.client("iam", account="210987654321").create_user(UserName="other")
        own_bridge.iam.forget(ACCOUNT)
        assert world.engine.iam.accounts() == [("210987654321", "aws")]
        iam = world.client("iam")
        assert iam.list_users()["Users"] == []
        assert {role["RoleName"] for role in iam.list_roles()["Roles"]} == {*execution_role.ROLES}
        assert len(world.client("iam", account="210987654321").list_users()["Users"]) == 1


def test_what_a_stack_of_cloudformation_makes_is_durable(tmp_path: Path, own_bridge: MotoBridge) -> None:
    """moto's CloudFormation needs packages that sagelet does not bring. It calls moto's IAM so."""
    with ApiWorld(tmp_path, own_bridge) as world:
        with own_bridge.iam.keeping(ACCOUNT, "aws", "cloudformation", "CreateStack"):
            own_bridge.iam.of(ACCOUNT, "aws").create_user("us-east-1", "stacked")
        assert IamKey("users", "stacked") in world.engine.iam.of(ACCOUNT, "aws")
        with own_bridge.iam.keeping(ACCOUNT, "aws", "iam", "GetUser"):
            own_bridge.iam.of(ACCOUNT, "aws").create_user("us-east-1", "read")
        assert IamKey("users", "read") not in world.engine.iam.of(ACCOUNT, "aws")


def test_a_change_that_fails_halfway_is_durable(tmp_path: Path, own_bridge: MotoBridge) -> None:
    with ApiWorld(tmp_path, own_bridge) as world:

        def make() -> None:
            with own_bridge.iam.keeping(ACCOUNT, "aws", "iam", "CreateUser"):
                own_bridge.iam.of(ACCOUNT, "aws").create_user("us-east-1", "half")
                raise ValueError("halfway")

        with pytest.raises(ValueError, match="halfway"):
            make()
        assert IamKey("users", "half") in world.engine.iam.of(ACCOUNT, "aws")


@pytest.mark.parametrize(
    "record",
    [
        "no JSON",
        "{}",
        '{"$object": "IAMBackend", "attributes": 3}',
        '{"$object": "unheard", "attributes": {}}',
        '{"$object": "parse", "attributes": {}}',
        '{"$object": "Role", "attributes": {"policies": {"$ref": ["roles", "x"]}}}',
        '{"$object": "Role", "attributes": {"policies": {"$eval": "1"}}}',
    ],
)
def test_records_that_cannot_be_read_are_said(own_bridge: MotoBridge, record: str) -> None:
    with pytest.raises(IamUnreadable):
        restore(own_bridge.process.backend("iam")["111111111111"]["aws"], {IamKey("roles", "r"): record})


def test_the_services_of_moto_that_change_iam_are_known() -> None:
    """Others only look for a role, or are not answered by moto here."""
    only_read = {
        "awslambda", "backends.py", "batch", "codepipeline", "core", "ec2", "elbv2", "iam", "organizations", "ses",
        "sts",
    }  # fmt: skip
    root = Path(str(import_module("moto").__file__)).parent
    users = {
        path.relative_to(root).parts[0]
        for path in root.rglob("*.py")
        if "iam_backends" in (text := path.read_text()) or "moto.iam.models" in text or "moto.iam import models" in text
    }
    assert users - only_read == CHANGERS - {"iam"}


def attributes(value: Any) -> Iterator[tuple[str, list[str]]]:
    """Yields the class and the attributes of each object in a record."""
    if isinstance(value, dict) and "$object" in value:
        yield value["$object"], sorted(value["attributes"])
        value = value["attributes"]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        yield from attributes(one)


def test_records_of_earlier_data_directories_have_all_attributes_of_this_moto(
    tmp_path: Path, own_bridge: MotoBridge
) -> None:
    """A class of moto that gets an attribute needs a default for records without it, and then another file here."""
    with ApiWorld(tmp_path, own_bridge) as world:
        fill(world.client("iam"))
        records = records_of(import_module("moto.iam.models").iam_backends[ACCOUNT]["aws"])
    seen = dict(sorted(pair for text in records.values() for pair in attributes(json.loads(text))))
    assert seen == json.loads((Path(__file__).parents[2] / "data" / "iam_attributes.json").read_text())
