"""Refuses operations of SageMaker that would start a computation which sagelet does not run.

moto answers them with success (a transform job is Completed at birth, an endpoint answers with nothing), and a test of
a pipeline would take that for a result. With `--stubs` they are passed to moto.
"""

from sagelet_api.protocol.operations import Operations, RefusedOperation

#: Operations that moto 5.2 answers with success. moto refuses the others itself.
NAMES = frozenset(
    {
        "CreateAutoMLJobV2",
        "CreateCluster",
        "CreateCompilationJob",
        "CreateEndpoint",
        "CreateNotebookInstance",
        "CreateTransformJob",
        "StartNotebookInstance",
        # These are of sagemaker-runtime, which has SageMaker's signing name.
        "InvokeEndpoint",
        "InvokeEndpointAsync",
        "InvokeEndpointWithResponseStream",
    }
)


def operations() -> Operations:
    """Returns the operations for the application, with the reason of each."""
    return {
        name: RefusedOperation(
            f"sagelet runs training, processing and tuning jobs and pipelines: {name} would compute nothing. "
            "To have it recorded and answered with success all the same, as moto does, start the server with --stubs"
        )
        for name in NAMES
    }
