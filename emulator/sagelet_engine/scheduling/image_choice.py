"""Chooses the local image of a job, or gives the reason why there is none.

The choice is made before the job waits for hosts, and again when it has them.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn, Protocol, TypeVar

from sagelet_engine.base.errors import ClientFault, RuntimeUnavailable, SettingsError
from sagelet_engine.images.resolve import Resolution, Resolver, explain_absent
from sagelet_engine.instances.gpus import NoCapacity
from sagelet_engine.model import verdict
from sagelet_engine.model.job import Job, JobKind, Verdict
from sagelet_engine.model.runtime import Runtime
from sagelet_engine.scheduling.training_image import TrainingImage

T = TypeVar("T")

#: Seconds that an API request, or the queue, waits for the runtime's engine.
TIMEOUT_S = 5.0


class ImageNeeds(Protocol):
    """What the jobs of one kind need of their image. That the image exists is checked for every kind."""

    def check(self, job: Job, image: str) -> None:
        """Raises ClientFault or NoCapacity if the job cannot run in this local image."""

    def needs_plugin(self, job: Job) -> bool:
        """True if the job can use GPUs only if the image has a PJRT plugin for them."""

    def wants_inductor(self, job: Job) -> bool:
        """True if the job asks for Inductor as its compiler."""


#: Kinds of jobs that are not in this table need nothing more.
_NEEDS: Mapping[JobKind, ImageNeeds] = {JobKind.TRAINING: TrainingImage()}


@dataclass(frozen=True)
class ImageChoice:
    images: Resolver
    runtime: Runtime

    def choose(self, job: Job) -> tuple[str, str]:
        """Returns the image of a job, and a text that says which image replaces the requested one.

        Raises ClientFault with the job's FailureReason, NoCapacity or RuntimeUnavailable.
        """
        resolution = self._resolve(job)
        try:
            image, stand_in = choose_image(job, resolution, self.runtime)
        except ClientFault as fault:
            remedy = f". {explain_absent(resolution)}" if resolution.is_literal else ""
            raise ClientFault(f"{fault}{remedy}") from fault
        if image is None:
            raise ClientFault(explain_absent(resolution))
        if needs := _NEEDS.get(job.key.kind):
            needs.check(job, image)
        return image, stand_in

    def is_known(self, uri: str) -> bool:
        """True if a rule covers the image, if this machine has it, or if the engine does not answer now."""
        try:
            return not self.images.resolve(uri).is_literal or _in_time(lambda: self.runtime.has_image(uri))
        except ClientFault:
            return False
        except (SettingsError, RuntimeUnavailable):
            return True

    def refusal(self, job: Job) -> Verdict | None:
        """Returns the verdict of a job that could not use hosts if it had them.

        Returns None if the job could use them, or if the engine does not answer now.
        """
        return self.refusals([job])[0]

    def refusals(self, jobs: Sequence[Job]) -> list[Verdict | None]:
        """Returns `refusal` of each job. The engine answers in time for all of them, or it does not answer."""
        try:
            return _in_time(lambda: [self._refusal(job) for job in jobs])
        except RuntimeUnavailable:
            return [None] * len(jobs)

    def _refusal(self, job: Job) -> Verdict | None:
        try:
            self.choose(job)
        except ClientFault as fault:
            return verdict.client_error(str(fault))
        except NoCapacity as error:
            return verdict.capacity_error(str(error))
        except RuntimeUnavailable:
            return None
        return None

    def _resolve(self, job: Job) -> Resolution:
        uri = job.spec.image
        if not uri:
            # Only CreateTrainingJob allows a request without an image.
            raise ClientFault("AlgorithmSpecification.AlgorithmName: sagelet has no algorithms; name a TrainingImage")
        try:
            return self.images.resolve(uri)
        except SettingsError as error:
            # The rules of the data directory were changed by hand.
            raise ClientFault(str(error)) from error


def choose_image(job: Job, resolution: Resolution, runtime: Runtime) -> tuple[str | None, str]:
    """Returns the image of a job, and a text that says which image replaces the requested one.

    The job's GPUs must be known: the choice depends on them. The image is None if this machine does not have it.
    What the job asks for in its Environment comes before what the tag of its image says.
    """
    image = resolution.local_image
    if runtime.capabilities.knows_images and _wants_inductor(job) and _can_run(runtime, resolution.inductor_image):
        return resolution.inductor_image, job.stand_in
    for gpu_image in resolution.gpu_images if job.gpus else ():
        if _can_run(runtime, gpu_image):
            return gpu_image, job.stand_in
    if not job.gpus and runtime.capabilities.knows_images and _can_run(runtime, resolution.dated_image):
        return resolution.dated_image, job.stand_in
    if image is None or not runtime.has_image(image):
        return None, job.stand_in
    if job.gpus and resolution.gpu_images and _needs_plugin(job):
        absent, remedy = " or ".join(resolution.gpu_images), runtime.capabilities.gpu_remedy
        unused = f"compiled code runs on the CPU and the GPUs stay unused: {absent} is not there ({remedy})"
        return image, unused
    return image, job.stand_in


def _needs_plugin(job: Job) -> bool:
    needs = _NEEDS.get(job.key.kind)
    return needs is not None and needs.needs_plugin(job)


def _wants_inductor(job: Job) -> bool:
    needs = _NEEDS.get(job.key.kind)
    return needs is not None and needs.wants_inductor(job)


def _can_run(runtime: Runtime, image: str | None) -> bool:
    """True if the runtime has this image, which is preferred to the rule's first one. False if it refuses the image."""
    try:
        return image is not None and runtime.has_image(image)
    except ClientFault:
        return False


def _in_time(ask: Callable[[], T]) -> T:
    """Returns what `ask` returns, and raises what it raises. Raises RuntimeUnavailable if the engine hangs."""
    answers: list[Callable[[], T]] = []

    def run() -> None:
        try:
            found = ask()
        except BaseException as error:
            answers.append(partial(_raise, error))
        else:
            answers.append(lambda: found)

    asking = threading.Thread(target=run, name="image-question", daemon=True)
    asking.start()
    asking.join(TIMEOUT_S)
    if not answers:
        raise RuntimeUnavailable("the runtime's engine does not answer")
    return answers[0]()


def _raise(error: BaseException) -> NoReturn:
    raise error
