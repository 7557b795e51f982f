"""The experiment of an execution, if its definition has a PipelineExperimentConfig: as on AWS, the execution is a trial
of the experiment, and each job that a Training or Processing step makes is a component of the trial.

The names may be expressions of parameters and of `Execution.`. What cannot be made changes nothing for the execution.
AWS does not say what it does then.
"""

import logging
from typing import NamedTuple

from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.acting import of_execution
from sagelet_engine.model.pipeline import PipelineExecution, StepRun
from sagelet_engine.model.service_calls import CallRefused, ServiceCalls
from sagelet_engine.pipelines.definition import parse
from sagelet_engine.pipelines.execution_variables import common_variables
from sagelet_engine.pipelines.expressions import Scope, Unresolved, resolve, text_of

log = logging.getLogger(__name__)

#: What AWS appends to the name of a job for the name of its component, by the type of the step.
SUFFIXES = {"Training": "aws-training-job", "Processing": "aws-processing-job"}


class ExperimentNames(NamedTuple):
    """PipelineExperimentConfig, resolved."""

    experiment: str
    trial: str


class Experiments:
    """Each method may be repeated: it makes what is missing. `calls` answer for experiments."""

    def __init__(self, calls: ServiceCalls) -> None:
        self._calls = calls

    def begin(self, execution: PipelineExecution) -> None:
        """Makes the experiment and the trial."""
        try:
            self._begin(execution)
        except (CallRefused, Unresolved) as error:
            log.warning("%s has no experiment: %s", execution.key.arn, error)

    def add(self, execution: PipelineExecution, run: StepRun, kind: str, job: str) -> None:
        """Makes the trial component of a job. `kind`: the type of the step."""
        if kind not in SUFFIXES:
            return
        try:
            self._add(execution, run, f"{job.lower()}-{SUFFIXES[kind]}")
        except (CallRefused, Unresolved) as error:
            log.warning("step %s of %s has no trial component: %s", run.name, execution.key.arn, error)

    def _begin(self, execution: PipelineExecution) -> ExperimentNames | None:
        names = _names(execution)
        if names is not None:
            experiment, trial = {"ExperimentName": names.experiment}, {"TrialName": names.trial}
            self._make(execution, "Experiment", experiment, {})
            self._make(execution, "Trial", trial, experiment)
        return names

    def _add(self, execution: PipelineExecution, run: StepRun, name: str) -> None:
        names = self._begin(execution)
        if names is None:
            return
        component = {"TrialComponentName": name}
        if self._make(execution, "TrialComponent", component, {"DisplayName": run.name}):
            self._call(execution, "AssociateTrialComponent", {**component, "TrialName": names.trial})

    def _make(self, execution: PipelineExecution, noun: str, named: JsonObject, more: JsonObject) -> bool:
        """Makes one unless there is one of this name. Returns True if it did."""
        try:
            self._call(execution, f"Describe{noun}", named)
        except CallRefused as error:
            if error.code not in ("ResourceNotFound", "ValidationException", "ValidationError"):
                raise
            self._call(execution, f"Create{noun}", {**named, **more})
            return True
        return False

    def _call(self, execution: PipelineExecution, operation: str, request: JsonObject) -> None:
        self._calls(of_execution(execution), execution.key.region, "sagemaker", operation, request)


def experiment_of(execution: PipelineExecution) -> ExperimentNames | None:
    """Returns the names of the experiment and the trial. None if there are none, or if they cannot be resolved."""
    try:
        return _names(execution)
    except Unresolved:
        return None


def _names(execution: PipelineExecution) -> ExperimentNames | None:
    """Raises Unresolved."""
    config = parse(execution.definition).experiment
    if not config:
        return None
    values = common_variables(execution, execution.created_ms)
    scope = Scope(execution.parameters, values, {}, {}, _no_file, _no_document)
    given = {"ExperimentName": execution.pipeline, "TrialName": execution.execution_id, **config}
    return ExperimentNames(*(text_of(resolve(given[name], scope)) for name in ("ExperimentName", "TrialName")))


def _no_file(_step: str, name: str) -> JsonObject:
    raise Unresolved(f"PipelineExperimentConfig cannot refer to the property file {name}")


def _no_document(uri: str) -> JsonObject:
    raise Unresolved(f"PipelineExperimentConfig cannot refer to {uri}")
