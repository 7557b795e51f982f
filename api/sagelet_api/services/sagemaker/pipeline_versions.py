"""What requests say of the versions of a pipeline: ids, aliases, and what no version can have here.

The rules are those of botocore's model of CreatePipeline, UpdatePipeline and StartPipelineExecution. The texts are
sagelet's.
"""

from collections.abc import Sequence

from sagelet_api.protocol.aws_errors import ConflictException, ResourceNotFound, ValidationException
from sagelet_api.protocol.members import Request
from sagelet_engine.base.errors import AliasTaken
from sagelet_engine.model.pipeline import Pipeline

ALIASES_OF_AN_OLD_VERSION = (
    "PipelineVersionAliases needs a new definition. UpdatePipelineVersion changes the aliases of an existing version."
)
NO_ROLE = "RoleArn cannot be given for a pipeline of your own: its executions use the pipeline's role."
NO_OBJECT_VERSIONS = (
    "PipelineDefinitionS3Location.VersionId is not supported: buckets here keep one version of an object."
)


def aliases(given: Sequence[str]) -> list[str]:
    """Returns the aliases of a request, each once. Raises ValidationException."""
    for alias in given:
        if alias.isascii() and alias.isdigit():
            raise ValidationException(f"The pipeline version alias {alias} cannot consist of numbers only.")
    return [*dict.fromkeys(given)]


def meant(pipeline: Pipeline, request: Request) -> int:
    """Returns the version that a request means by PipelineVersionId or PipelineVersionAlias; the newest for neither.

    Raises ValidationException, ResourceNotFound.
    """
    alias = request.get("PipelineVersionAlias")
    if alias is None:
        return int(request.get("PipelineVersionId", pipeline.version))
    if "PipelineVersionId" in request:
        raise ValidationException("Give PipelineVersionId or PipelineVersionAlias, not both.")
    if alias not in pipeline.aliases:
        raise ResourceNotFound(f"Pipeline {pipeline.key.arn} has no version with the alias {alias}.")
    return pipeline.aliases[alias]


def taken(error: AliasTaken) -> ConflictException:
    return ConflictException(
        f"Another version of the pipeline has the alias {error}. Remove it there first, with UpdatePipelineVersion."
    )
