"""Pipelines of SDK v2 that its own local mode can run. Each is built once for local mode and once for sagelet.

Their jobs run the programs of `tests/support/pipeline_programs.py`. A case returns its parameters, its steps, and the
values at the start.
"""

from typing import Any

from sagemaker.model import Model
from sagemaker.processing import ProcessingOutput, ScriptProcessor
from sagemaker.workflow.condition_step import ConditionStep
from sagemaker.workflow.conditions import (
    ConditionEquals,
    ConditionGreaterThan,
    ConditionGreaterThanOrEqualTo,
    ConditionIn,
    ConditionLessThan,
    ConditionLessThanOrEqualTo,
    ConditionNot,
    ConditionOr,
)
from sagemaker.workflow.execution_variables import ExecutionVariables
from sagemaker.workflow.fail_step import FailStep
from sagemaker.workflow.functions import Join, JsonGet
from sagemaker.workflow.model_step import ModelStep
from sagemaker.workflow.parameters import ParameterBoolean, ParameterFloat, ParameterInteger, ParameterString
from sagemaker.workflow.retry import StepExceptionTypeEnum, StepRetryPolicy
from sagemaker.workflow.steps import CacheConfig, ProcessingStep

from acceptance.clients.local_pipeline_place import ROLE, Built, Place, case, output

# --- parameters -------------------------------------------------------------------------------------------------------


def _typed() -> list[Any]:
    return [
        ParameterString("Text", default_value="a b"),
        ParameterInteger("Count", default_value=3),
        ParameterFloat("Rate", default_value=1e-05),
    ]


def _uses(place: Place, parameters: list[Any]) -> list[Any]:
    values = {one.name: one for one in parameters}
    return [
        place.train("Train", hyperparameters=values, environment={"APP_TEXT": parameters[0]}),
        place.process("Process", environment={"APP_TEXT": parameters[0]}, outputs={"seen": None}),
    ]


@case
def defaults_of_parameters(place: Place) -> Built:
    parameters = _typed()
    return Built(_uses(place, parameters), parameters)


@case
def parameters_at_the_start(place: Place) -> Built:
    parameters = _typed()
    return Built(_uses(place, parameters), parameters, {"Text": "é ü", "Count": -7, "Rate": 0.5})


@case
def a_boolean_as_text(place: Place) -> Built:
    flag = ParameterBoolean("Flag", default_value=True)
    joined = Join(on="=", values=["flag", flag])
    return Built([place.train("Train", hyperparameters={"flag": flag, "joined": joined})], [flag])


@case
def an_enum(place: Place) -> Built:
    kind = ParameterString("Kind", default_value="small", enum_values=["small", "large"])
    return Built([place.train("Train", hyperparameters={"kind": kind})], [kind], {"Kind": "large"})


@case
def a_value_outside_its_enum(place: Place) -> Built:
    kind = ParameterString("Kind", default_value="small", enum_values=["small", "large"])
    return Built([place.train("Train", hyperparameters={"kind": kind})], [kind], {"Kind": "huge"})


@case
def an_unknown_parameter(place: Place) -> Built:
    return Built([place.train("Train")], [], {"Nobody": "x"})


@case
def a_parameter_without_a_value(place: Place) -> Built:
    text = ParameterString("Text")
    return Built([place.train("Train", hyperparameters={"text": text})], [text])


@case
def a_parameter_of_the_wrong_type(place: Place) -> Built:
    count = ParameterInteger("Count", default_value=1)
    return Built([place.train("Train", hyperparameters={"count": count})], [count], {"Count": "three"})


# --- functions and variables ------------------------------------------------------------------------------------------


@case
def joins_in_joins(place: Place) -> Built:
    text, count, rate = _typed()
    inner = Join(on="-", values=[count, rate, "x"])
    whole = Join(on="/", values=[text, inner, 5, ExecutionVariables.PIPELINE_NAME])
    return Built(
        [place.train("Train", hyperparameters={"whole": whole}, environment={"APP_WHOLE": whole})], [text, count, rate]
    )


@case
def the_execution_id_in_a_uri(place: Place) -> Built:
    uri = Join(on="/", values=[place.uri("runs"), ExecutionVariables.PIPELINE_EXECUTION_ID, "out"])
    first = place.process("First", "copy", {"raw": place.raw}, {"clean": uri})
    return Built([first, place.train("Then", "copy", {"train": output(first, "clean")}, path=uri)])


@case
def arns_of_the_execution(place: Place) -> Built:
    variables = ExecutionVariables
    values = {"pipeline": variables.PIPELINE_ARN, "execution": variables.PIPELINE_EXECUTION_ARN}
    return Built([place.train("Train", hyperparameters=values)])


@case
def a_bucket_and_a_prefix_by_parameters(place: Place) -> Built:
    bucket = ParameterString("Bucket", default_value=place.bucket)
    prefix = ParameterString("Prefix", default_value=f"{place.name}/raw")
    uri = Join(on="/", values=["s3:/", bucket, prefix])
    return Built([place.train("Train", "copy", {"train": uri})], [bucket, prefix])


@case
def hyperparameters_of_all_types(place: Place) -> Built:
    values = {"list": [1, "a"], "object": {"a": {"b": 1.5}}, "text": 'ü"\\', "float": 0.1, "int": 10, "none": None}
    return Built([place.train("Train", hyperparameters=values)])


# --- inputs, outputs, properties --------------------------------------------------------------------------------------


@case
def several_outputs_into_several_channels(place: Place) -> Built:
    split = place.process("Split", "copy", {"raw": place.raw}, {"train": None, "test": place.uri("test")})
    channels = {"train": output(split, "train"), "test": output(split, "test"), "raw": place.raw}
    return Built([split, place.train("Train", "copy", channels)])


@case
def process_train_model(place: Place) -> Built:
    clean = place.process("Clean", "copy", {"raw": place.raw}, {"clean": None})
    train = place.train("Train", "copy", {"train": output(clean, "clean")}, hyperparameters={"epochs": 2})
    model = Model(
        image_uri="programs/serve:1",
        model_data=train.properties.ModelArtifacts.S3ModelArtifacts,
        role=ROLE,
        env={"APP_MODE": "fast"},
        sagemaker_session=place.session,
    )
    return Built([clean, train, ModelStep(name="Model", step_args=model.create(instance_type=place.instance_type))])


@case
def a_model_is_trained_on(place: Place) -> Built:
    first = place.train("First", "copy", {"train": place.raw})
    artifacts = first.properties.ModelArtifacts.S3ModelArtifacts
    return Built([first, place.train("Second", "copy", {"model": artifacts})])


@case
def properties_of_arguments(place: Place) -> Built:
    first = place.process("First", "copy", {"raw": place.raw}, {"clean": None}, environment={"APP_A": "one"})
    values = {
        "input": first.properties.ProcessingInputs["raw"].S3Input.S3Uri,
        "environment": first.properties.Environment["APP_A"],
        "image": first.properties.AppSpecification.ImageUri,
        "count": first.properties.ProcessingResources.ClusterConfig.InstanceCount.to_string(),
    }
    return Built([first, place.train("Then", hyperparameters=values)])


@case
def a_property_that_is_undefined(place: Place) -> Built:
    first = place.train("First")
    return Built([first, place.train("Then", hyperparameters={"uri": first.properties.CheckpointConfig.S3Uri})])


@case
def a_script(place: Place) -> Built:
    processor = ScriptProcessor(
        role=ROLE,
        image_uri="programs/copy:1",
        instance_count=1,
        instance_type=place.instance_type,
        command=["python3"],
        sagemaker_session=place.session,
    )
    outputs = [ProcessingOutput(source="/opt/ml/processing/out/all", output_name="all")]
    arguments = ["--level", "3"]
    return Built([ProcessingStep("Script", processor.run(code="script.py", arguments=arguments, outputs=outputs))])


@case
def without_inputs_and_outputs(place: Place) -> Built:
    return Built([place.process("Nothing"), place.train("Train")])


@case
def an_input_that_is_missing(place: Place) -> Built:
    return Built([place.process("Copy", "copy", {"raw": place.uri("nowhere")}, {"clean": None})])


# --- JSON documents ---------------------------------------------------------------------------------------------------


@case
def values_of_a_report_in_arguments(place: Place) -> Built:
    measure, file = place.report()
    paths = {"loss": "loss", "second": "rounds[1].error", "name": "name", "zero": "zero"}
    values = {
        name: Join(on=":", values=[name, JsonGet(step_name="Measure", property_file=file, json_path=path)])
        for name, path in paths.items()
    }
    return Built([measure, place.train("Train", hyperparameters=values)])


@case
def a_report_by_parameters(place: Place) -> Built:
    text = ParameterString("Report", default_value='{"a": {"b": ["c", "d"]}}')
    measure, file = place.report(report=text)
    value = JsonGet(step_name="Measure", property_file=file, json_path="a.b[1]")
    return Built([measure, _check(place, [ConditionEquals(left=value, right="d")])], [text])


@case
def a_report_without_the_path(place: Place) -> Built:
    measure, file = place.report()
    value = JsonGet(step_name="Measure", property_file=file, json_path="rounds[2].error")
    return Built([measure, _check(place, [ConditionEquals(left=value, right=1)])])


@case
def a_report_with_null(place: Place) -> Built:
    measure, file = place.report()
    value = JsonGet(step_name="Measure", property_file=file, json_path="none")
    return Built([measure, _check(place, [ConditionEquals(left=value, right="x")])])


@case
def a_report_that_is_no_json(place: Place) -> Built:
    measure, file = place.report(report='{"loss": ')
    value = JsonGet(step_name="Measure", property_file=file, json_path="loss")
    return Built([measure, _check(place, [ConditionLessThan(left=value, right=1)])])


@case
def a_report_that_is_missing(place: Place) -> Built:
    measure, file = place.report(path="other.json")
    value = JsonGet(step_name="Measure", property_file=file, json_path="loss")
    return Built([measure, _check(place, [ConditionLessThan(left=value, right=1)])])


# --- conditions -------------------------------------------------------------------------------------------------------


def _check(place: Place, conditions: list[Any], then: Any = None, otherwise: Any = None) -> ConditionStep:
    """A condition step with a job in each branch."""
    return ConditionStep(
        name="Check",
        conditions=conditions,
        if_steps=[place.train("Yes")] if then is None else then,
        else_steps=[place.train("No")] if otherwise is None else otherwise,
    )


@case
def every_comparison_holds(place: Place) -> Built:
    _, count, rate = parameters = _typed()
    conditions = [
        ConditionEquals(left=count, right=3),
        ConditionEquals(left=parameters[0], right="a b"),
        ConditionGreaterThan(left=count, right=2.5),
        ConditionGreaterThanOrEqualTo(left=count, right=3),
        ConditionLessThan(left=rate, right=count),
        ConditionLessThanOrEqualTo(left=rate, right=1e-05),
    ]
    return Built([_check(place, conditions)], parameters)


@case
def one_comparison_of_several_fails(place: Place) -> Built:
    _, count, _ = parameters = _typed()
    conditions = [ConditionEquals(left=count, right=3), ConditionGreaterThan(left=count, right=3)]
    return Built([_check(place, conditions)], parameters)


@case
def not_or_in(place: Place) -> Built:
    text, count, _ = parameters = _typed()
    conditions = [
        ConditionNot(ConditionIn(value=text, in_values=["x", "y"])),
        ConditionOr([ConditionGreaterThan(left=count, right=100), ConditionIn(value=count, in_values=[1, 2, 3])]),
        ConditionNot(ConditionOr([ConditionEquals(left=count, right=4), ConditionNot(ConditionLessThan(count, 10))])),
    ]
    return Built([_check(place, conditions)], parameters)


@case
def not_or_in_that_fail(place: Place) -> Built:
    text, count, _ = parameters = _typed()
    conditions = [ConditionOr([ConditionIn(value=text, in_values=["x"]), ConditionNot(ConditionEquals(count, 3))])]
    return Built([_check(place, conditions)], parameters)


@case
def values_of_a_report_compared(place: Place) -> Built:
    measure, file = place.report()

    def value(path: str) -> JsonGet:
        return JsonGet(step_name="Measure", property_file=file, json_path=path)

    conditions = [
        ConditionLessThanOrEqualTo(left=value("loss"), right=0.25),
        ConditionEquals(left=value("good"), right=True),
        ConditionIn(value=value("name"), in_values=["second", "first"]),
        ConditionGreaterThan(left=value("rounds[0].error"), right=value("rounds[1].error")),
    ]
    return Built([measure, _check(place, conditions)])


@case
def conditions_in_conditions(place: Place) -> Built:
    _, count, _ = parameters = _typed()
    inner = ConditionStep(
        name="Inner",
        conditions=[ConditionGreaterThan(left=count, right=5)],
        if_steps=[place.train("Large")],
        else_steps=[place.train("Small"), place.process("SmallToo")],
    )
    return Built([_check(place, [ConditionEquals(left=count, right=3)], [inner])], parameters)


@case
def a_branch_that_is_empty(place: Place) -> Built:
    _, count, _ = parameters = _typed()
    last = place.train("Last", depends_on=["Check"])
    return Built([_check(place, [ConditionEquals(left=count, right=4)], otherwise=[]), last], parameters)


@case
def steps_after_a_branch_that_is_not_taken(place: Place) -> Built:
    _, count, _ = parameters = _typed()
    yes = place.train("Yes", "copy", {"train": place.raw})
    after = place.train("AfterYes", "copy", {"model": yes.properties.ModelArtifacts.S3ModelArtifacts})
    far = place.process("FarAfterYes", depends_on=[after])
    other = place.train("Other")
    return Built([_check(place, [ConditionEquals(left=count, right=4)], [yes]), after, far, other], parameters)


@case
def an_integer_and_a_float_are_compared(place: Place) -> Built:
    count = ParameterInteger("Count", default_value=1)
    return Built([_check(place, [ConditionEquals(left=count, right=1.0)])], [count])


@case
def a_text_and_a_number_are_compared(place: Place) -> Built:
    text = ParameterString("Text", default_value="5")
    return Built([_check(place, [ConditionGreaterThan(left=text, right=4)])], [text])


@case
def two_texts_are_ordered(place: Place) -> Built:
    text = ParameterString("Text", default_value="b")
    return Built([_check(place, [ConditionGreaterThan(left=text, right="a")])], [text])


# --- order and ends ---------------------------------------------------------------------------------------------------


@case
def a_chain_by_depends_on(place: Place) -> Built:
    steps = [place.train("S1"), place.process("S2", depends_on=["S1"])]
    steps.append(place.train("S3", depends_on=[steps[1]]))
    steps += [place.process("S4", depends_on=["S3", "S1"]), place.train("S5", depends_on=["S4"])]
    return Built([*reversed(steps)])


@case
def a_diamond(place: Place) -> Built:
    first = place.process("First", "copy", {"raw": place.raw}, {"all": None})
    left = place.train("Left", "copy", {"train": output(first, "all")})
    right = place.process("Right", "copy", {"raw": output(first, "all")}, {"all": None})
    channels = {"left": left.properties.ModelArtifacts.S3ModelArtifacts, "right": output(right, "all")}
    return Built([first, left, right, place.train("Last", "copy", channels)])


@case
def a_fail_step(place: Place) -> Built:
    text, count, rate = _typed()
    measure, file = place.report()
    loss = JsonGet(step_name="Measure", property_file=file, json_path="loss")
    message = Join(on=" ", values=["loss", loss, "of", text, "is above", rate])
    fail = FailStep(name="TooBad", error_message=message)
    check = _check(place, [ConditionLessThan(left=loss, right=rate)], otherwise=[fail])
    return Built([measure, check], [text, count, rate])


@case
def a_fail_step_with_a_parameter(place: Place) -> Built:
    text = ParameterString("Text", default_value="as you wish")
    return Built([place.train("First"), FailStep(name="End", error_message=text, depends_on=["First"])], [text])


@case
def training_fails_in_the_middle(place: Place) -> Built:
    first = place.train("First", "copy", {"train": place.raw})
    artifacts = first.properties.ModelArtifacts.S3ModelArtifacts
    middle = place.train("Middle", "broken", {"model": artifacts}, hyperparameters={"code": 7})
    return Built([first, middle, place.train("Last", depends_on=["Middle"])])


@case
def processing_fails_in_the_middle(place: Place) -> Built:
    first = place.process("First", "copy", {"raw": place.raw}, {"all": None})
    middle = place.process("Middle", "broken", {"raw": output(first, "all")}, {"all": None}, arguments=["--code", "3"])
    return Built([first, middle, place.process("Last", "copy", {"raw": output(middle, "all")})])


@case
def a_failure_in_a_branch(place: Place) -> Built:
    _, count, _ = parameters = _typed()
    broken = place.train("Broken", "broken")
    then = [broken, place.train("AfterBroken", depends_on=[broken])]
    last = place.train("Last", depends_on=[broken])
    return Built([_check(place, [ConditionEquals(left=count, right=3)], then), last], parameters)


@case
def results_that_may_be_reused(place: Place) -> Built:
    cache = CacheConfig(enable_caching=True, expire_after="P30D")
    first = place.process("First", "copy", {"raw": place.raw}, {"all": place.uri("all")}, cache_config=cache)
    return Built([first, place.train("Then", "copy", {"train": output(first, "all")}, cache_config=cache)])


@case
def steps_that_may_be_retried(place: Place) -> Built:
    policy = StepRetryPolicy(exception_types=[StepExceptionTypeEnum.SERVICE_FAULT], max_attempts=3)
    return Built([place.train("First", retry_policies=[policy]), place.process("Then", depends_on=["First"])])
