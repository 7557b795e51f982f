"""What a training job needs of its image, beside what jobs of every kind need. `image_choice.py` asks it."""

from sagelet_engine.data.compilation import INDUCTOR, asks_for_compiler, chosen_compiler
from sagelet_engine.model.job import Job
from sagelet_engine.model.training import as_training
from sagelet_engine.scheduling import distributions


class TrainingImage:
    """See ImageNeeds for its methods."""

    def check(self, job: Job, image: str) -> None:
        distributions.check(as_training(job), image)

    def needs_plugin(self, job: Job) -> bool:
        """True for XLA. Inductor compiles for GPUs by torch's own CUDA."""
        return asks_for_compiler(as_training(job).spec) and not self.wants_inductor(job)

    def wants_inductor(self, job: Job) -> bool:
        spec = as_training(job).spec
        return asks_for_compiler(spec) and chosen_compiler(spec) == INDUCTOR
