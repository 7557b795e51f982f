"""Thresholds that several rules share."""

from sagelet_engine.doctor.finding import Threshold

ENOUGH_STEPS = Threshold(
    20, "steps that a worker must have done", "fewer say nothing of how often something happens, or of a steady pace"
)
#: Steps 0 and 1 compile the step and, once the optimizer has its state, its update; a scheduler's warm-up may add some.
WARM_UP = Threshold(5, "first steps whose compilations are no sign of anything", "AWS: compilation runs during them")
OFTEN = Threshold(
    0.15,
    "times a step",
    "one time in ten steps, and a few at the end, are fine: AWS's example of a lower frequency is one in ten",
)
