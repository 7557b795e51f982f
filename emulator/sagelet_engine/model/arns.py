"""ARNs in the partition of their region: `aws`, `aws-cn` in China, `aws-us-gov` in GovCloud (AWS General Reference)."""

#: By the beginning of the region's name, as in botocore's table of partitions.
_PARTITIONS = {
    "cn-": "aws-cn",
    "us-gov-": "aws-us-gov",
    "us-iso-": "aws-iso",
    "us-isob-": "aws-iso-b",
    "us-isof-": "aws-iso-f",
    "eu-isoe-": "aws-iso-e",
    "eusc-": "aws-eusc",
}


def partition(region: str) -> str:
    return next((name for prefix, name in _PARTITIONS.items() if region.startswith(prefix)), "aws")


def arn(service: str, region: str, account: str, resource: str) -> str:
    """Returns `arn:aws:sagemaker:us-east-1:123456789012:training-job/name`."""
    return f"arn:{partition(region)}:{service}:{region}:{account}:{resource}"


def resource_in(text: str, service: str, region: str, account: str) -> str | None:
    """Returns the resource of an ARN (`training-job/name`). None for one of elsewhere, or for another text."""
    start = arn(service, region, account, "")
    return text[len(start) :] if text.startswith(start) else None


def sql_partition(column: str) -> str:
    """Returns the partition of a column of regions, as an expression of SQL."""
    cases = " ".join(f"WHEN {column} LIKE '{prefix}%' THEN '{name}'" for prefix, name in _PARTITIONS.items())
    return f"CASE {cases} ELSE 'aws' END"
