"""Which local image a job runs in, or why none: asked before it waits for hosts, and again when it has them."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NoReturn, TypeVar

from sagelet_engine.errors import ClientFault, RuntimeUnavailable, SettingsError
from sagelet_engine.images.resolve import Resolution, Resolver, explain_absent
from sagelet_engine.instances.gpus import NoCapacity
from sagelet_engine.jobs import distributions, verdict
from sagelet_engine.jobs.compilation import asks_for_compiler
from sagelet_engine.jobs.record import TrainingJob, Verdict
from sagelet_engine.runtimes.port import Runtime

T = TypeVar("T")

#: Seconds that a request, or the queue, waits for the runtime's engine.
PATIENCE = 5.0


@dataclass(frozen=True)
class ImageChoice:
    images: Resolver
    runtime: Runtime

    def choose(self, job: TrainingJob) -> tuple[str, str]:
        """The image of a job, and what stands in for what it asked for.

        Raises ClientFault with the job's FailureReason, NoCapacity, RuntimeUnavailable.
        """
        resolution = self._resolve(job)
        try:
            image, stand_in = choose_image(job, resolution, self.runtime)
        except ClientFault as fault:
            remedy = f". {explain_absent(resolution)}" if resolution.is_literal else ""
            raise ClientFault(f"{fault}{remedy}") from fault
        if image is None:
            raise ClientFault(explain_absent(resolution))
        distributions.check(job, image)
        return image, stand_in

    def is_known(self, uri: str) -> bool:
        """Whether a rule decides about an image, or one of this name is here; True where that cannot be told now."""
        try:
            return not self.images.resolve(uri).is_literal or _in_time(lambda: self.runtime.has_image(uri))
        except ClientFault:
            return False
        except (SettingsError, RuntimeUnavailable):
            return True

    def refusal(self, job: TrainingJob) -> Verdict | None:
        """How a job ends that could do nothing with the hosts it waits for; None too where that cannot be told now."""
        try:
            _in_time(lambda: self.choose(job))
        except ClientFault as fault:
            return verdict.client_error(str(fault))
        except NoCapacity as error:
            return verdict.capacity_error(str(error))
        except RuntimeUnavailable:
            return None
        return None

    def _resolve(self, job: TrainingJob) -> Resolution:
        uri = job.request["AlgorithmSpecification"].get("TrainingImage")
        if not uri:
            raise ClientFault("AlgorithmSpecification.AlgorithmName: sagelet has no algorithms; name a TrainingImage")
        try:
            return self.images.resolve(uri)
        except SettingsError as error:
            # Somebody has changed the data directory's own rules by hand.
            raise ClientFault(str(error)) from error


def choose_image(job: TrainingJob, resolution: Resolution, runtime: Runtime) -> tuple[str | None, str]:
    """The image of a job that has its GPUs or none, and what stands in for what it asked for; None: it is not there."""
    image, gpu_image = resolution.local_image, resolution.gpu_image
    if job.gpus and _can_run(runtime, gpu_image):
        return gpu_image, job.stand_in
    if not job.gpus and runtime.knows_images and _can_run(runtime, resolution.dated_image):
        return resolution.dated_image, job.stand_in
    if image is None or not runtime.has_image(image):
        return None, job.stand_in
    if job.gpus and gpu_image is not None and asks_for_compiler(job.request):
        return image, (
            f"compiled code runs on the CPU and the GPUs stay unused: {gpu_image} is not there "
            "(`sagelet image build --variant cu12`)"
        )
    return image, job.stand_in


def _can_run(runtime: Runtime, image: str | None) -> bool:
    """Whether an image that is better than the rule's first can be taken: one that this runtime refuses cannot."""
    try:
        return image is not None and runtime.has_image(image)
    except ClientFault:
        return False


def _in_time(ask: Callable[[], T]) -> T:
    """What the runtime's engine answers. Raises what `ask` raises, and RuntimeUnavailable for an engine that hangs."""
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
    asking.join(PATIENCE)
    if not answers:
        raise RuntimeUnavailable("the runtime's engine does not answer")
    return answers[0]()


def _raise(error: BaseException) -> NoReturn:
    raise error
