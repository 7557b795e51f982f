"""ACLs of buckets and objects: every caller and every form of request gets the same list."""

from collections.abc import Callable
from typing import Any

import pytest

from sagelet_api.services.s3.context import owner
from support.s3 import refusal

ACCOUNT = "123456789012"
EVERYBODY = "http://acs.amazonaws.com/groups/global/AllUsers"


@pytest.fixture(params=["bucket", "object"])
def acl(request: pytest.FixtureRequest, s3c: Any, bucket: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Calls that read the list and write it."""
    place = {"Bucket": bucket}
    if request.param == "object":
        place["Key"] = "k"
        s3c.put_object(**place, Body=b"")
    read, write = getattr(s3c, f"get_{request.param}_acl"), getattr(s3c, f"put_{request.param}_acl")
    return lambda: read(**place), lambda **said: write(**place, **said)


def test_what_was_read_can_be_written(acl: tuple[Callable[..., Any], Callable[..., Any]]) -> None:
    read, write = acl
    found = read()
    assert found["Owner"] == owner(ACCOUNT)
    assert found["Grants"] == [{"Grantee": {**owner(ACCOUNT), "Type": "CanonicalUser"}, "Permission": "FULL_CONTROL"}]
    write(AccessControlPolicy={"Owner": found["Owner"], "Grants": found["Grants"]})
    for canned in ("private", "bucket-owner-full-control"):
        write(ACL=canned)
    assert read()["Grants"] == found["Grants"]


def test_other_lists_are_refused_in_awss_words(acl: tuple[Callable[..., Any], Callable[..., Any]]) -> None:
    read, write = acl
    found = read()
    group = {"Grantee": {"Type": "Group", "URI": EVERYBODY}, "Permission": "READ"}
    with_group = {"Owner": found["Owner"], "Grants": [*found["Grants"], group]}
    nobodys = {"Owner": found["Owner"], "Grants": [{"Grantee": {"Type": "Group"}, "Permission": "READ"}]}
    others = {"Owner": {"ID": "0" * 64}, "Grants": found["Grants"]}
    for said, code in (
        ({"AccessControlPolicy": with_group}, "AccessControlListNotSupported"),
        ({"AccessControlPolicy": nobodys}, "MalformedACLError"),
        ({"AccessControlPolicy": {"Owner": found["Owner"]}}, "MalformedACLError"),
        ({"AccessControlPolicy": {}}, "MalformedACLError"),
        ({"ACL": "public-read"}, "AccessControlListNotSupported"),
        ({"ACL": "nonsense"}, "InvalidArgument"),
        ({"GrantRead": f'uri="{EVERYBODY}"'}, "AccessControlListNotSupported"),
        ({"GrantFullControl": "nonsense"}, "InvalidArgument"),
        ({"GrantFullControl": 'id="x", uri='}, "InvalidArgument"),
        ({"ACL": "private", "GrantRead": f'uri="{EVERYBODY}"'}, "InvalidRequest"),
        ({"ACL": "private", "AccessControlPolicy": with_group}, "UnexpectedContent"),
        ({}, "MissingSecurityHeader"),
    ):
        assert refusal(write, **said) == (400, code), said
    assert refusal(write, AccessControlPolicy=others) == (403, "AccessDenied")
    assert read()["Grants"] == found["Grants"]


def test_a_bucket_cannot_be_made_public(s3c: Any, bucket: str) -> None:
    refused = refusal(s3c.create_bucket, Bucket=f"{bucket}-2", ACL="public-read")
    assert refused == (400, "InvalidBucketAclWithObjectOwnership")
    assert refusal(s3c.head_bucket, Bucket=f"{bucket}-2")[0] == 404
    assert refusal(s3c.create_bucket, Bucket=f"{bucket}-2", ACL="nonsense") == (400, "InvalidArgument")
    s3c.create_bucket(Bucket=f"{bucket}-2", ACL="private")


def test_there_is_one_owner(s3c: Any, bucket: str) -> None:
    """Every answer names the same owner, as clients that compare owners expect."""
    s3c.put_object(Bucket=bucket, Key="k", Body=b"")
    upload = s3c.create_multipart_upload(Bucket=bucket, Key="u")["UploadId"]
    parts = s3c.list_parts(Bucket=bucket, Key="u", UploadId=upload)
    (listed,) = s3c.list_multipart_uploads(Bucket=bucket)["Uploads"]
    found = [
        s3c.list_buckets()["Owner"],
        s3c.get_bucket_acl(Bucket=bucket)["Owner"],
        s3c.get_bucket_acl(Bucket=bucket)["Grants"][0]["Grantee"],
        s3c.get_object_acl(Bucket=bucket, Key="k")["Owner"],
        s3c.list_objects(Bucket=bucket)["Contents"][0]["Owner"],
        s3c.list_objects_v2(Bucket=bucket, FetchOwner=True)["Contents"][0]["Owner"],
        s3c.list_object_versions(Bucket=bucket)["Versions"][0]["Owner"],
        *(parts["Owner"], parts["Initiator"], listed["Owner"], listed["Initiator"]),
    ]
    assert {one["ID"] for one in found} == {owner(ACCOUNT)["ID"]}
