"""Thresholds that several rules share."""

from sagelet_engine.doctor.finding import Threshold

ENOUGH_STEPS = Threshold(
    20, "steps that a worker must have done", "fewer steps show neither how often something happens nor a steady pace"
)
#: Steps 0 and 1 compile the step and, once the optimizer has its state, the optimizer's update. A scheduler's warm-up
#: may add some steps.
WARM_UP = Threshold(5, "first steps, whose compilations are ignored", "AWS: compilation runs during them")
OFTEN = Threshold(
    0.15,
    "times a step",
    "once in ten steps, and a few times at the end, are fine: AWS's example of a lower frequency is one in ten",
)
