"""Models, model packages and groups as their Describe and List calls show them, and packages after an update."""

from collections.abc import Mapping
from typing import Any

from sagelet_api.protocol.aws_errors import ValidationException
from sagelet_api.protocol.members import Output, Request
from sagelet_api.services.sagemaker.training_view import seconds
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.registry import RegistryEntry

#: Members of UpdateModelPackage that replace what a package has.
_REPLACED = (
    "ModelApprovalStatus",
    "ModelPackageRegistrationType",
    "ApprovalDescription",
    "InferenceSpecification",
    "SourceUri",
    "ModelCard",
    "ModelLifeCycle",
)
#: What updates add to, and the most that a package can have of it: AWS's limits (botocore's shapes).
_LIMITS = {"AdditionalInferenceSpecifications": 15, "CustomerMetadataProperties": 50}
#: Members of a summary of a package.
_SUMMARY = ("ModelPackageDescription", "ModelApprovalStatus", "ModelLifeCycle", "ModelPackageRegistrationType")


def model(entry: RegistryEntry) -> Output:
    """Returns the answer of DescribeModel."""
    return {"EnableNetworkIsolation": False, **entry.body, **model_summary(entry)}


def model_summary(entry: RegistryEntry) -> Output:
    return {
        "ModelName": entry.key.name,
        "ModelArn": entry.key.arn,
        "CreationTime": seconds(entry.created_ms),
    }


def group(entry: RegistryEntry) -> Output:
    """Returns the answer of DescribeModelPackageGroup."""
    return {**entry.body, **group_summary(entry), "CreatedBy": entry.created_by}


def group_summary(entry: RegistryEntry) -> Output:
    described = ("ModelPackageGroupDescription", "ManagedConfiguration")
    return {
        "ModelPackageGroupName": entry.key.name,
        "ModelPackageGroupArn": entry.key.arn,
        "CreationTime": seconds(entry.created_ms),
        "ModelPackageGroupStatus": "Completed",
        **{name: entry.body[name] for name in described if name in entry.body},
    }


def package(entry: RegistryEntry) -> Output:
    """Returns the answer of DescribeModelPackage. Nothing is validated or scanned, so it is Completed at once."""
    answer: Output = {
        "CertifyForMarketplace": False,
        **entry.body,
        **package_summary(entry),
        "ModelPackageStatusDetails": {"ValidationStatuses": [], "ImageScanStatuses": []},
        "CreatedBy": entry.created_by,
    }
    if entry.modified_ms != entry.created_ms:
        answer |= {"LastModifiedTime": seconds(entry.modified_ms), "LastModifiedBy": entry.modified_by}
    return answer


def package_summary(entry: RegistryEntry) -> Output:
    """Returns one ModelPackageSummary. As on AWS, a version has no ModelPackageName (sagemaker-python-sdk#5606)."""
    if entry.key.group is None:
        named: Output = {"ModelPackageName": entry.key.name}
    else:
        named = {"ModelPackageGroupName": entry.key.group.name, "ModelPackageVersion": entry.version}
    return {
        **named,
        "ModelPackageArn": entry.key.arn,
        "CreationTime": seconds(entry.created_ms),
        "ModelPackageStatus": "Completed",
        **{name: entry.body[name] for name in _SUMMARY if name in entry.body},
    }


def updated(body: JsonObject, request: Request) -> JsonObject:
    """Returns the body of a package after an UpdateModelPackage. Raises ValidationException if it is too large."""
    after: dict[str, Any] = {**body, **{name: request[name] for name in _REPLACED if name in request}}
    gone = request.get("CustomerMetadataPropertiesToRemove", [])
    kept: Mapping[str, str] = body.get("CustomerMetadataProperties", {})
    properties = {name: value for name, value in kept.items() if name not in gone}
    properties |= request.get("CustomerMetadataProperties", {})
    if properties or kept:
        after["CustomerMetadataProperties"] = properties
    if "AdditionalInferenceSpecificationsToAdd" in request:
        before = body.get("AdditionalInferenceSpecifications", [])
        after["AdditionalInferenceSpecifications"] = [*before, *request["AdditionalInferenceSpecificationsToAdd"]]
    for name, limit in _LIMITS.items():
        if len(after.get(name, ())) > limit:
            raise ValidationException(f"A model package can have {limit} {name}.")
    return after
