"""Instance types that the compiler does not support, or that are slow together."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity

#: SDK: sagemaker.pytorch.TrainingCompilerConfig.SUPPORTED_INSTANCE_CLASS_PREFIXES
SUPPORTED = ("p3", "p3dn", "g4dn", "p4d", "g5")
#: Types with one GPU: the smallest sizes of each family, and g4dn's and g5's up to 16xlarge except 12xlarge.
ONE_GPU = {"ml.p3.2xlarge"} | {
    f"ml.{family}.{size}"
    for family in ("g4dn", "g5")
    for size in ("xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge")
}
#: SDK: TrainingCompilerConfig.SUPPORTED_INSTANCE_TYPES_WITH_EFA
WITH_EFA = ("ml.g4dn.8xlarge", "ml.g4dn.12xlarge", "ml.g5.48xlarge", "ml.p3dn.24xlarge", "ml.p4d.24xlarge")


def unsupported(case: Case) -> Iterator[Seen]:
    for kind, _ in case.setup.instances if case.setup.compiled else ():
        if kind.removeprefix("ml.").partition(".")[0] not in SUPPORTED:
            text = f"{kind} is not an instance type that the compiler supports"
            yield Seen(Severity.INFO, text)


def single_gpu(case: Case) -> Iterator[Seen]:
    for kind, count in case.setup.instances if case.setup.compiled else ():
        if kind in ONE_GPU and count > 1:
            yield Seen(Severity.INFO, f"{count} instances of {kind}, each of which has one GPU")


def without_efa(case: Case) -> Iterator[Seen]:
    if case.setup.host_count < 2 or not case.setup.compiled:
        return
    for kind, _ in case.setup.instances:
        if kind not in WITH_EFA and kind.removeprefix("ml.").partition(".")[0] in SUPPORTED:
            yield Seen(Severity.INFO, f"{case.setup.host_count} instances of {kind}, which has no EFA")


UNSUPPORTED = Rule(
    name="unsupported-instance",
    why="AWS supports and tests the Training Compiler on GPU instances of a few families only: "
    + ", ".join(f"ml.{family}" for family in SUPPORTED)
    + ".",
    instead="Use an instance type of these families, such as ml.p3.2xlarge.",
    section=Section.BEST_PRACTICES,
    check=unsupported,
)
SINGLE_GPU = Rule(
    name="single-gpu-instances",
    why="Between instances gradients take the network; between GPUs of an instance they do not. On AWS one instance "
    "of many GPUs trains faster than many instances of one.",
    instead="One instance with as many GPUs: ml.p3.8xlarge (4), ml.g4dn.12xlarge (4), ml.p3dn.24xlarge (8).",
    section=Section.BEST_PRACTICES,
    check=single_gpu,
)
WITHOUT_EFA = Rule(
    name="no-efa",
    why="Gradients go over the network in each step; on AWS instances with EFA have a faster one.",
    instead="Instance types with EFA: " + ", ".join(WITH_EFA) + ".",
    section=Section.BEST_PRACTICES,
    check=without_efa,
)
