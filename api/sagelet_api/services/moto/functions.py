"""The functions of moto's Lambda. moto keeps them, in memory; sagelet runs them (`sagelet_engine/functions`)."""

from collections.abc import Sequence
from typing import Any

from sagelet_api.services.moto.iam import MotoIam
from sagelet_api.services.moto.process import MotoProcess
from sagelet_engine.model.functions import Function, FunctionNotFound, FunctionRefused, LogRefused
from sagelet_engine.model.principal import union

#: The attribute of moto's record that has the ids of jobs.
_JOBS = "sagelet_jobs"
#: The principal that runs functions.
SERVICE = "lambda.amazonaws.com"


class MotoFunctions:
    def __init__(self, moto: MotoProcess, iam: MotoIam) -> None:
        self._moto = moto
        self._iam = iam

    def may_run_as(self, account: str, role: str) -> bool:
        """True if the account's IAM has the role, and its trust policy lets Lambda assume it."""
        return self._iam.may_assume(account, role, SERVICE)

    def get(self, account: str, region: str, arn: str) -> Function:
        """Returns a function by its name, ARN or partial ARN, with a version or alias. Raises FunctionRefused."""
        found = self._find(account, region, arn)
        if found.package_type != "Zip":
            raise FunctionRefused(f"{found.function_name} is a container image; functions with a zip file run here")
        runtime = str(found.run_time or "")
        if not runtime.startswith("python"):
            named = runtime or "no runtime"
            raise FunctionRefused(f"{found.function_name} has {named}; functions in Python run here")
        if found.layers:
            raise FunctionRefused(f"{found.function_name} has layers; put their files into the function's zip file")
        if not found.code_bytes:
            raise FunctionRefused(f"{found.function_name} has no code here")
        version = str(found.version)
        return Function(
            arn=str(found.function_arn),
            name=str(found.function_name),
            version=version if ":" in str(found.function_arn).partition(":function:")[2] else "$LATEST",
            runtime=runtime,
            handler=str(found.handler or ""),
            timeout_seconds=int(found.timeout),
            memory_mib=int(found.memory_size),
            role=str(found.role),
            environment={str(name): str(value) for name, value in (found.environment_vars or {}).items()},
            code=bytes(found.code_bytes),
            jobs=tuple(getattr(found, _JOBS, ())),
        )

    def note_jobs(self, account: str, region: str, arn: str, jobs: Sequence[str]) -> None:
        """Notes the ids of the jobs that made or changed a function, with moto's record of it and its newest version.
        They go with it.
        """
        latest = self._find(account, region, arn)
        versions = self._moto.backend("lambda")[account][region]._lambdas.list_versions_by_function(
            latest.function_name
        )
        for one in (latest, *versions[-1:]):
            setattr(one, _JOBS, union(getattr(one, _JOBS, ()), jobs))

    def _find(self, account: str, region: str, arn: str) -> Any:
        name, qualifier = _named(account, region, arn)
        storage = self._moto.backend("lambda")[account][region]._lambdas
        try:
            return storage.get_function_by_name_or_arn_with_qualifier(name, qualifier)
        except Exception as error:
            # moto's UnknownFunctionException. Lambda's own text.
            raise FunctionNotFound(
                f"Function not found: {arn}. Functions are kept in memory, and are gone when the server ends"
            ) from error

    def keep_log(self, account: str, region: str, group: str, stream: str, lines: list[tuple[int, str]]) -> None:
        """Puts lines into moto's CloudWatch Logs. Raises LogRefused unless all of them are kept."""
        logs = self._moto.backend("logs")[account][region]
        logs.ensure_log_group(group)
        if stream not in logs.groups[group].streams:
            logs.create_log_stream(group, stream)
        events = [{"timestamp": time_ms, "message": text} for time_ms, text in lines]
        if not events:
            return
        _, rejected = logs.put_log_events(group, stream, events)
        if rejected:
            raise LogRefused(f"their times are too far from now: {rejected}")


def _named(account: str, region: str, arn: str) -> tuple[str, str | None]:
    """Returns name and qualifier. Raises FunctionRefused for another account or region."""
    rest = arn
    if arn.startswith("arn:"):
        parts = arn.split(":", 6)
        if len(parts) < 7 or parts[2] != "lambda" or parts[5] != "function":
            raise FunctionRefused(f"{arn} is not the ARN of a Lambda function")
        if (parts[3], parts[4]) != (region, account):
            raise FunctionNotFound(f"Function not found: {arn}. It is in another account or region")
        rest = parts[6]
    elif ":function:" in arn:
        rest = arn.partition(":function:")[2]
    name, _, qualifier = rest.partition(":")
    return name, qualifier or None
