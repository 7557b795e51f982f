"""Refuses operations of SageMaker that would start a computation which sagelet does not run.

moto answers them with success (a processing job is Completed at birth, an endpoint answers with nothing), and a test of
a pipeline would take that for a result. With `--stubs` they are passed to moto.
"""

import re

from sagelet_api.protocol.aws_errors import UnknownOperationException
from sagelet_api.protocol.calls import Call

#: Operations that moto 5.2 answers with success. moto refuses the others itself.
OPERATIONS = frozenset(
    {
        "CreateAutoMLJobV2",
        "CreateCluster",
        "CreateCompilationJob",
        "CreateEndpoint",
        "CreateNotebookInstance",
        "CreateProcessingJob",
        "CreateTransformJob",
        "StartNotebookInstance",
        "StartPipelineExecution",
    }
)
#: InvokeEndpoint and the like, of sagemaker-runtime.
_INVOCATION = re.compile(r"/endpoints/[^/]+/(?:async-)?invocations(?:-response-stream)?")


def refuse_what_is_not_run(call: Call) -> None:
    """Raises UnknownOperationException."""
    if call.service != "sagemaker":
        return
    name = call.operation if call.operation in OPERATIONS else ""
    if _INVOCATION.fullmatch(call.path):
        name = "InvokeEndpoint"
    if name:
        raise UnknownOperationException(
            f"sagelet runs training and tuning jobs only: {name} would compute nothing. To have it recorded and "
            "answered with success all the same, as moto does, start the server with --stubs"
        )
