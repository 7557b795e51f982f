"""Rules of the doctor and their findings."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.source_line import SourceLine
from sagelet_engine.telemetry.compiler.report import KeptFinding

GUIDE = "https://docs.aws.amazon.com/sagemaker/latest/dg"


class Section(str, Enum):
    """Where the advice is given: in AWS's developer guide, with few exceptions."""

    BEST_PRACTICES = f"{GUIDE}/training-compiler-tips-pitfalls.html#training-compiler-tips-pitfalls-best-practices"
    PERFORMANCE = (
        f"{GUIDE}/training-compiler-tips-pitfalls.html#training-compiler-considerations-performance-degradation"
    )
    WRONG_API = f"{GUIDE}/training-compiler-tips-pitfalls.html#training-compiler-considerations-incorrect-api-use"
    ENABLE = f"{GUIDE}/training-compiler-enable-pytorch.html"
    TROUBLESHOOTING = f"{GUIDE}/training-compiler-troubleshooting.html"
    STORAGE = f"{GUIDE}/model-train-storage.html"
    RUNNING = f"{GUIDE}/your-algorithms-training-algo-running-container.html"
    OUTPUT = f"{GUIDE}/your-algorithms-training-algo-output.html"
    METRICS = f"{GUIDE}/training-metrics.html"
    DESCRIBE = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html"
    PROCESSING = f"{GUIDE}/build-your-own-processing-container.html"
    DESCRIBE_PROCESSING = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeProcessingJob.html"
    #: A page of the SDK's documentation.
    LIBRARIES = (
        "https://sagemaker.readthedocs.io/en/stable/frameworks/pytorch/using_pytorch.html#using-third-party-libraries"
    )
    #: A page of Hugging Face's documentation.
    HUB = "https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables#hfendpoint"


#: AWS's titles of the sections.
TITLES = {
    Section.BEST_PRACTICES: "Training Compiler Best Practices and Considerations: Best Practices",
    Section.PERFORMANCE: (
        "Training Compiler Best Practices and Considerations: "
        "Performance degradation due to logging, checkpointing, and profiling"
    ),
    Section.WRONG_API: (
        "Training Compiler Best Practices and Considerations: "
        "Incorrect use of the PyTorch/XLA APIs when using PyTorch directly"
    ),
    Section.ENABLE: "Run PyTorch Training Jobs with SageMaker Training Compiler",
    Section.TROUBLESHOOTING: "SageMaker Training Compiler Troubleshooting",
    Section.STORAGE: "Amazon SageMaker AI Training Storage Folders",
    Section.RUNNING: "How Amazon SageMaker AI Runs Your Training Image",
    Section.METRICS: "Amazon SageMaker AI Metrics Available in Amazon CloudWatch: Define training metrics",
    Section.OUTPUT: "How Amazon SageMaker AI Processes Training Output",
    Section.DESCRIBE: "DescribeTrainingJob",
    Section.PROCESSING: "Build Your Own Processing Container (Advanced Scenario)",
    Section.DESCRIBE_PROCESSING: "DescribeProcessingJob",
    Section.LIBRARIES: "Use PyTorch with the SageMaker Python SDK: Using third-party libraries",
    Section.HUB: "Hugging Face Hub: HF_ENDPOINT",
}


class Severity(str, Enum):
    """Severities, in the order in which findings are shown."""

    #: The job failed because of it, would stall on AWS, or its result is wrong.
    ERROR = "error"
    #: It costs a share of the training that is worth a change.
    WARNING = "warning"
    #: Good to know.
    INFO = "info"


@dataclass(frozen=True)
class Seen:
    """One observation of a rule in a case."""

    severity: Severity
    #: Figures, for people: one or two sentences.
    text: str
    place: SourceLine | None = None
    #: How often it happened.
    count: int | None = None
    #: Estimate of what it has cost so far. None if it is not known. Orders the findings of one severity.
    cost_seconds: float | None = None
    #: Replace the rule's own texts if the case allows more specific ones.
    instead: str | None = None
    why: str | None = None


@dataclass(frozen=True)
class Threshold:
    """A number that a rule compares with, and the reason for that number."""

    value: float
    #: What is compared, and in which unit.
    meaning: str
    reason: str


@dataclass(frozen=True)
class Rule:
    """One piece of advice in AWS's documents, and how to see that a job does not follow it."""

    name: str
    #: Why it costs time.
    why: str
    #: What to write instead.
    instead: str
    section: Section
    check: Callable[[Case], Iterable[Seen]]
    thresholds: tuple[Threshold, ...] = ()
    #: True for a rule that is asked only if no other rule has found the error that ended the job.
    last_resort: bool = False


@dataclass(frozen=True)
class Finding:
    """A finding of a rule, with everything that a reader needs."""

    rule: Rule
    seen: Seen

    def to_json(self) -> KeptFinding:
        """Returns the entry of `findings` in compiler-report.json. Unknown members are left out."""
        entry: KeptFinding = {
            "rule": self.rule.name,
            "severity": self.seen.severity.value,
            "seen": printable(self.seen.text),
        }
        if self.seen.place is not None:
            entry["file"], entry["line"] = printable(self.seen.place.file), self.seen.place.line
        if self.seen.count is not None:
            entry["count"] = self.seen.count
        if self.seen.cost_seconds is not None:
            entry["cost_seconds"] = round(self.seen.cost_seconds, 3)
        entry["why"], entry["instead"] = self.seen.why or self.rule.why, self.seen.instead or self.rule.instead
        entry["source"] = self.rule.section.value
        return entry


def printable(text: str) -> str:
    """Removes control characters, which a terminal would obey: findings quote scripts and log lines."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
