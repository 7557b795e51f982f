"""The model registry: models, packages, groups. Names, versions, lists, updates, deletions, tags, and restarts."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ACCOUNT, ApiWorld

ROLE = "arn:aws:iam::123456789012:role/SageMakerRole"
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:1.13.1-cpu-py39"
SPECIFICATION = {
    "Containers": [{"Image": IMAGE, "ModelDataUrl": "s3://b/model.tar.gz"}],
    "SupportedContentTypes": ["text/csv"],
    "SupportedResponseMIMETypes": ["text/csv"],
}
ARN = f"arn:aws:sagemaker:us-east-1:{ACCOUNT}"
TAGS = [{"Key": "team", "Value": "ads"}]


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        yield running


def refused(call: Callable[..., Any], **parameters: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def package(world: ApiWorld, **more: Any) -> str:
    given = {"InferenceSpecification": SPECIFICATION, **more}
    return str(world.sagemaker.create_model_package(**given)["ModelPackageArn"])


@pytest.mark.parametrize("name", ["bad name! " * 3, "", "-a", "a-", "a" * 64, "a_b"])
def test_names_are_those_of_the_model(world: ApiWorld, name: str) -> None:
    sagemaker = world.sagemaker
    for call, member in (
        (sagemaker.create_model_package_group, "ModelPackageGroupName"),
        (sagemaker.create_model_package, "ModelPackageName"),
        (sagemaker.create_model, "ModelName"),
    ):
        assert refused(call, **{member: name})[0] == "ValidationException"
    assert sagemaker.list_model_package_groups()["ModelPackageGroupSummaryList"] == []


def test_a_name_is_taken_once_whatever_its_case(world: ApiWorld) -> None:
    sagemaker = world.sagemaker
    model = {"ExecutionRoleArn": ROLE, "PrimaryContainer": {"Image": IMAGE}}
    sagemaker.create_model_package_group(ModelPackageGroupName="Group")
    sagemaker.create_model(ModelName="Model", **model)
    package(world, ModelPackageName="Package")
    assert refused(sagemaker.create_model_package_group, ModelPackageGroupName="group") == (
        "ValidationException", f"Model Package Group already exists: {ARN}:model-package-group/group",
    )  # fmt: skip
    assert refused(sagemaker.create_model, ModelName="MODEL", **model) == (
        "ValidationException", f'Cannot create already existing model "{ARN}:model/model".',
    )  # fmt: skip
    taken = {"ModelPackageName": "package", "InferenceSpecification": SPECIFICATION}
    assert refused(sagemaker.create_model_package, **taken) == (
        "ValidationException", f"ModelPackage already exists: {ARN}:model-package/package",
    )  # fmt: skip


def test_a_group_gives_each_package_the_next_version_and_none_twice(world: ApiWorld) -> None:
    sagemaker = world.sagemaker
    sagemaker.create_model_package_group(ModelPackageGroupName="G", ModelPackageGroupDescription="of mine", Tags=TAGS)
    arns = [package(world, ModelPackageGroupName=name) for name in ("G", "g", f"{ARN}:model-package-group/g")]
    assert arns == [f"{ARN}:model-package/g/{version}" for version in (1, 2, 3)]
    sagemaker.delete_model_package(ModelPackageName=arns[2])
    assert package(world, ModelPackageGroupName="G") == f"{ARN}:model-package/g/4"
    shown = sagemaker.describe_model_package(ModelPackageName=arns[1])
    told = ("ModelPackageGroupName", "ModelPackageVersion", "ModelApprovalStatus", "ModelPackageStatus")
    assert [shown[name] for name in told] == ["G", 2, "PendingManualApproval", "Completed"]
    assert shown["InferenceSpecification"] == SPECIFICATION
    assert shown["CreatedBy"]["IamIdentity"]["Arn"].endswith(
        ":assumed-role/AmazonSageMaker-ExecutionRole-20211130T180000/SageMaker"
    )
    group = sagemaker.describe_model_package_group(ModelPackageGroupName="g")
    assert (group["ModelPackageGroupName"], group["ModelPackageGroupDescription"]) == ("G", "of mine")
    assert "ModelPackageName" not in shown


def test_what_a_package_needs(world: ApiWorld) -> None:
    """The texts of the first two are those of moto#7165, which quotes AWS."""
    create = world.sagemaker.create_model_package
    assert refused(create, ModelPackageDescription="no name") == ("ValidationException", "Missing ARN.")
    code, text = refused(create, ModelPackageName="a", ModelPackageGroupName="b")
    assert (code, text.startswith("Both ModelPackageName and ModelPackageGroupName")) == ("ValidationException", True)
    assert refused(create, ModelPackageGroupName="none") == (
        "ValidationException", f"ModelPackageGroup {ARN}:model-package-group/none does not exist.",
    )  # fmt: skip
    world.sagemaker.create_model_package_group(ModelPackageGroupName="b")
    assert "tag the group" in refused(create, ModelPackageGroupName="b", Tags=TAGS)[1]


def test_updates_of_a_package(world: ApiWorld) -> None:
    world.sagemaker.create_model_package_group(ModelPackageGroupName="G")
    arn = package(world, ModelPackageGroupName="G", CustomerMetadataProperties={"a": "1", "b": "2"})
    world.clock.turn(5)
    change = {
        "ModelApprovalStatus": "Approved", "ApprovalDescription": "good", "CustomerMetadataProperties": {"c": "3"},
        "CustomerMetadataPropertiesToRemove": ["a"],
        "AdditionalInferenceSpecificationsToAdd": [{"Name": "more", "Containers": [{"Image": IMAGE}]}],
    }  # fmt: skip
    assert world.sagemaker.update_model_package(ModelPackageArn=arn, **change)["ModelPackageArn"] == arn
    shown = world.sagemaker.describe_model_package(ModelPackageName=arn)
    assert (shown["ModelApprovalStatus"], shown["ApprovalDescription"]) == ("Approved", "good")
    assert shown["CustomerMetadataProperties"] == {"b": "2", "c": "3"}
    assert [one["Name"] for one in shown["AdditionalInferenceSpecifications"]] == ["more"]
    assert (shown["LastModifiedTime"] - shown["CreationTime"]).total_seconds() == 5
    assert shown["LastModifiedBy"] == shown["CreatedBy"]
    (listed,) = world.sagemaker.list_model_packages(ModelPackageGroupName="G", ModelApprovalStatus="Approved")[
        "ModelPackageSummaryList"
    ]
    assert listed["ModelPackageArn"] == arn
    pending = world.sagemaker.list_model_packages(ModelPackageGroupName="G", ModelApprovalStatus="Rejected")
    assert pending["ModelPackageSummaryList"] == []


def test_updates_add_to_a_package_once_for_each_token_and_up_to_its_limits(world: ApiWorld) -> None:
    arn = package(world, ModelPackageName="p")
    sagemaker = world.sagemaker
    for count in range(15):
        added = [{"Name": f"n{count}", "Containers": [{"Image": IMAGE}]}]
        for _ in range(2):
            sagemaker.update_model_package(
                ModelPackageArn=arn, AdditionalInferenceSpecificationsToAdd=added, ClientToken=f"{count:036}"
            )
    full = {f"k{at}": "v" for at in range(50)}
    sagemaker.update_model_package(ModelPackageArn=arn, CustomerMetadataProperties=full)
    more: dict[str, Any]
    for more in ({"AdditionalInferenceSpecificationsToAdd": added}, {"CustomerMetadataProperties": {"another": "v"}}):
        assert refused(sagemaker.update_model_package, ModelPackageArn=arn, **more)[0] == "ValidationException"
    shown = sagemaker.describe_model_package(ModelPackageName=arn)
    assert [one["Name"] for one in shown["AdditionalInferenceSpecifications"]] == [f"n{at}" for at in range(15)]
    assert shown["CustomerMetadataProperties"] == full


def test_what_is_deleted_is_gone_and_a_group_goes_last(world: ApiWorld) -> None:
    sagemaker = world.sagemaker
    sagemaker.create_model_package_group(ModelPackageGroupName="G")
    arn = package(world, ModelPackageGroupName="G")
    assert refused(sagemaker.delete_model_package_group, ModelPackageGroupName="G")[0] == "ConflictException"
    sagemaker.delete_model_package(ModelPackageName=arn)
    sagemaker.delete_model_package_group(ModelPackageGroupName="G")
    sagemaker.create_model(ModelName="M", ExecutionRoleArn=ROLE)
    sagemaker.delete_model(ModelName="m")
    for call, member, name, text in (
        (sagemaker.describe_model_package, "ModelPackageName", arn, f"ModelPackage {arn} does not exist."),
        (sagemaker.delete_model_package, "ModelPackageName", arn, f"ModelPackage {arn} does not exist."),
        (sagemaker.update_model_package, "ModelPackageArn", arn, f"ModelPackage {arn} does not exist."),
        (sagemaker.delete_model_package_group, "ModelPackageGroupName", "G",
         f"ModelPackageGroup {ARN}:model-package-group/g does not exist."),
        (sagemaker.delete_model, "ModelName", "M", f'Could not find model "{ARN}:model/m".'),
        (sagemaker.describe_model, "ModelName", "M", f'Could not find model "{ARN}:model/m".'),
    ):  # fmt: skip
        assert refused(call, **{member: name}) == ("ValidationException", text)


def test_lists_are_filtered_sorted_and_cut(world: ApiWorld) -> None:
    sagemaker = world.sagemaker
    for name in ("b-one", "a-two", "c-one"):
        sagemaker.create_model(ModelName=name, ExecutionRoleArn=ROLE)
        world.clock.turn(1)

    def names(**asked: Any) -> list[str]:
        pages = sagemaker.get_paginator("list_models").paginate(**asked, PaginationConfig={"PageSize": 1})
        return [one["ModelName"] for page in pages for one in page["Models"]]

    assert names() == ["c-one", "a-two", "b-one"]
    assert names(SortBy="Name", SortOrder="Ascending") == ["a-two", "b-one", "c-one"]
    assert names(NameContains="ONE", SortOrder="Ascending") == ["b-one", "c-one"]
    middle = sagemaker.describe_model(ModelName="a-two")["CreationTime"]
    assert names(CreationTimeAfter=middle) == ["c-one"]
    assert names(CreationTimeBefore=middle) == ["b-one"]


def test_packages_without_a_version_are_listed_unless_asked_otherwise(world: ApiWorld) -> None:
    world.sagemaker.create_model_package_group(ModelPackageGroupName="G")
    versioned = package(world, ModelPackageGroupName="G")
    alone = package(world, ModelPackageName="alone")

    def arns(**asked: Any) -> set[str]:
        found = world.sagemaker.list_model_packages(**asked)["ModelPackageSummaryList"]
        return {one["ModelPackageArn"] for one in found}

    assert arns() == arns(ModelPackageType="Unversioned") == {alone}
    assert arns(ModelPackageType="Versioned") == arns(ModelPackageGroupName="G") == {versioned}
    assert arns(ModelPackageType="Both") == {alone, versioned}


def test_a_version_has_the_tags_of_its_group(world: ApiWorld) -> None:
    sagemaker = world.sagemaker
    sagemaker.create_model_package_group(ModelPackageGroupName="G", Tags=TAGS)
    arn = package(world, ModelPackageGroupName="G")
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == TAGS
    code, text = refused(sagemaker.add_tags, ResourceArn=arn, Tags=[{"Key": "a", "Value": "b"}])
    assert (code, f"tag {ARN}:model-package-group/g" in text) == ("ValidationException", True)


def test_all_of_it_is_there_after_a_restart(tmp_path: Path, bridge: MotoBridge) -> None:
    with ApiWorld(tmp_path, bridge) as world:
        world.sagemaker.create_model_package_group(ModelPackageGroupName="G", Tags=TAGS)
        arn = package(world, ModelPackageGroupName="G")
        world.sagemaker.create_model(ModelName="M", ExecutionRoleArn=ROLE)
    with ApiWorld(tmp_path, bridge) as world:
        assert world.sagemaker.describe_model_package(ModelPackageName=arn)["ModelPackageVersion"] == 1
        assert world.sagemaker.list_tags(ResourceArn=f"{ARN}:model-package-group/g")["Tags"] == TAGS
        assert package(world, ModelPackageGroupName="G").endswith("/2")
        assert [one["ModelName"] for one in world.sagemaker.list_models()["Models"]] == ["M"]


def test_endpoint_configurations_name_models_of_the_registry(world: ApiWorld) -> None:
    sagemaker = world.sagemaker
    variant = {"VariantName": "v", "ModelName": "M", "InitialInstanceCount": 1, "InstanceType": "ml.m5.large"}
    asked = {"EndpointConfigName": "config", "ProductionVariants": [variant]}
    assert refused(sagemaker.create_endpoint_config, **asked)[1] == f'Could not find model "{ARN}:model/m".'
    sagemaker.create_model(ModelName="M", ExecutionRoleArn=ROLE)
    sagemaker.create_endpoint_config(**asked)
    sagemaker.delete_endpoint_config(EndpointConfigName="config")


def test_models_of_another_account_and_region_are_not_seen(world: ApiWorld) -> None:
    world.sagemaker.create_model(ModelName="M", ExecutionRoleArn=ROLE)
    for other in (world.client("sagemaker", account="210987654321"), world.client("sagemaker", "eu-west-1")):
        assert other.list_models()["Models"] == []
        assert refused(other.describe_model, ModelName="M")[0] == "ValidationException"


@pytest.mark.parametrize("resource", ["Model", "ModelPackage", "ModelPackageGroup", "Pipeline", "PipelineExecution"])
def test_what_is_not_searched_is_refused_and_not_empty(world: ApiWorld, resource: str) -> None:
    for call in (world.sagemaker.search, world.sagemaker.get_search_suggestions):
        code, text = refused(call, Resource=resource)
        assert (code, "use List" in text or "enum value set" in text) == ("ValidationException", True)
