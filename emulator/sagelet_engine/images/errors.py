"""What can go wrong with images."""

from collections.abc import Sequence

from sagelet_engine.errors import SageletError


class BuildContextMissing(SageletError):
    """Neither a checkout nor an installed wheel with the build context is here."""


class BaseImageUnavailable(SageletError):
    """No base image to build on: the registry does not answer and one from Debian packages cannot be made."""


class ImageBuildFailed(SageletError):
    """A step of a build failed. The message holds the step, the last lines of its output and the remedy."""

    def __init__(self, step: str, output: Sequence[str], remedy: str) -> None:
        tail = "".join(f"\n    {line}" for line in output)
        super().__init__(f"The image was not built: {step} failed.{tail}\n{remedy}")
        self.step = step
        self.output = tuple(output)
        self.remedy = remedy
