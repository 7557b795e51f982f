"""Short ways to make steps of SDK v2's pipelines, for local mode or for sagelet, and the register of the cases."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sagemaker.estimator import Estimator
from sagemaker.inputs import TrainingInput
from sagemaker.processing import ProcessingInput, ProcessingOutput, Processor
from sagemaker.workflow.properties import PropertyFile
from sagemaker.workflow.steps import ProcessingStep, TrainingStep

ROLE = "arn:aws:iam::123456789012:role/SageMakerRole"
REPORT = (
    '{"loss": 0.25, "rounds": [{"error": 3}, {"error": 1}], "name": "first", "good": true, "none": null, "zero": 0}'
)


@dataclass(frozen=True)
class Built:
    steps: list[Any]
    parameters: list[Any] = field(default_factory=list)
    #: Values that the execution is started with.
    given: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """Where a case is built for, and short ways to make steps there."""

    session: Any
    instance_type: str
    bucket: str
    #: The pipeline's name, which begins all keys of the case.
    name: str

    def uri(self, path: str) -> str:
        return f"s3://{self.bucket}/{self.name}/{path}"

    @property
    def raw(self) -> str:
        """Two files that exist when the pipeline begins."""
        return self.uri("raw")

    def train(self, name: str, image: str = "silent", inputs: Any = None, *, path: Any = None,
              hyperparameters: Any = None, environment: Any = None, **more: Any) -> TrainingStep:  # fmt: skip
        """`path`: where the model goes."""
        estimator = Estimator(
            image_uri=f"programs/{image}:1",
            role=ROLE,
            instance_count=1,
            instance_type=self.instance_type,
            output_path=path or self.uri("models"),
            hyperparameters=hyperparameters or {},
            environment=environment,
            sagemaker_session=self.session,
        )
        channels = {channel: TrainingInput(s3_data=uri) for channel, uri in (inputs or {}).items()}
        return TrainingStep(name=name, step_args=estimator.fit(inputs=channels or None), **more)

    def process(self, name: str, image: str = "silent", inputs: Any = None, outputs: Any = None, *,
                arguments: Any = None, environment: Any = None, **more: Any) -> ProcessingStep:  # fmt: skip
        """`inputs` and `outputs`: URIs by name. The URI None leaves the choice to the SDK."""
        processor = Processor(
            role=ROLE,
            image_uri=f"programs/{image}:1",
            instance_count=1,
            instance_type=self.instance_type,
            entrypoint=["program"],
            env=environment,
            sagemaker_session=self.session,
        )
        return ProcessingStep(
            name=name,
            step_args=processor.run(
                inputs=[
                    ProcessingInput(source=uri, destination=f"/opt/ml/processing/in/{one}", input_name=one)
                    for one, uri in (inputs or {}).items()
                ],
                outputs=[
                    ProcessingOutput(source=f"/opt/ml/processing/out/{one}", destination=uri, output_name=one)
                    for one, uri in (outputs or {}).items()
                ],
                arguments=arguments,
            ),
            **more,
        )

    def report(self, name: str = "Measure", report: Any = REPORT, path: str = "report.json", **more: Any) -> Any:
        """Returns a step that leaves a report, and its property file."""
        file = PropertyFile(name="Report", output_name="found", path=path)
        arguments = ["--report", report]
        step = self.process(name, "report", None, {"found": None}, arguments=arguments, property_files=[file], **more)
        return step, file


def output(step: ProcessingStep, name: str) -> Any:
    """The URI of an output of a step."""
    return step.properties.ProcessingOutputConfig.Outputs[name].S3Output.S3Uri


CASES: dict[str, Callable[[Place], Built]] = {}


def case(build: Callable[[Place], Built]) -> Callable[[Place], Built]:
    CASES[build.__name__.replace("_", "-")] = build
    return build
