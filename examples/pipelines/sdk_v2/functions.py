"""A pipeline of Python functions: each `@step` runs as a training job, and gives its result to the next.

As AWS's "Lift-and-shift Python code with the @step decorator" has it.
"""

import sagemaker
from sagemaker.image_uris import get_base_python_image_uri
from sagemaker.workflow.condition_step import ConditionStep
from sagemaker.workflow.conditions import ConditionLessThan
from sagemaker.workflow.fail_step import FailStep
from sagemaker.workflow.function_step import step
from sagemaker.workflow.parameters import ParameterInteger
from sagemaker.workflow.pipeline import Pipeline

session = sagemaker.Session()
role = sagemaker.get_execution_role()
# The SDK knows no image for other Pythons than 3.8 and 3.10. The stand-in has the Python of sagelet's image.
image = get_base_python_image_uri(region=session.boto_region_name, py_version="310")
# A function's job asks the package index for a newer SDK, unless pip is told to be content with what is installed.
offline = {"PIP_NO_INDEX": "1"}
options = {"image_uri": image, "instance_type": "ml.m5.large", "role": role, "environment_variables": offline}


@step(name="Prepare", **options)
def prepare(rows: int):
    import numpy

    print("preparing", rows, "rows")
    values = numpy.linspace(0, 1, rows)
    return values, 3 * values + 1


@step(name="Train", **options)
def train(data):
    import numpy

    values, truth = data
    slope, intercept = numpy.polyfit(values, truth, deg=1)
    error = abs(slope * values + intercept - truth).max()
    return {"slope": float(slope), "intercept": float(intercept)}, float(error)


@step(name="Publish", **options)
def publish(model: dict) -> str:
    return f"y = {model['slope']:.2f} x + {model['intercept']:.2f}"


rows = ParameterInteger(name="Rows", default_value=100)
model_and_error = train(prepare(rows))
condition = ConditionStep(
    name="ErrorIsSmall",
    conditions=[ConditionLessThan(left=model_and_error[1], right=0.001)],
    if_steps=[publish(model_and_error[0])],
    else_steps=[FailStep(name="ErrorIsLarge", error_message="The line does not fit")],
)
pipeline = Pipeline(name="FunctionsPipeline", parameters=[rows], steps=[condition], sagemaker_session=session)
pipeline.upsert(role_arn=role)
execution = pipeline.start(parameters={"Rows": 50})
print("started", execution.arn)
try:
    execution.wait(delay=1, max_attempts=600)
finally:
    for one in reversed(execution.list_steps()):
        print(one["StepName"], one["StepStatus"], one.get("FailureReason", ""))
# The objects that the functions returned.
print(execution.result(step_name="Train"))
print(execution.result(step_name="Publish"))
