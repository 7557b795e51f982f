"""One Python function as a training job, in SDK v3."""

from sagemaker.core.helper.session_helper import Session, get_execution_role
from sagemaker.core.image_uris import get_base_python_image_uri
from sagemaker.core.remote_function import remote

session = Session()


@remote(
    # The SDK knows no image for other Pythons than 3.8 and 3.10. The stand-in has the Python of sagelet's image.
    image_uri=get_base_python_image_uri(region=session.boto_region_name, py_version="310"),
    instance_type="ml.m5.large",
    role=get_execution_role(),
    # Otherwise the job asks the package index for a newer SDK.
    environment_variables={"PIP_NO_INDEX": "1"},
)
def solve(matrix, right):
    import numpy

    print("solving", len(matrix), "equations")
    return numpy.linalg.solve(matrix, right)


print(solve([[2.0, 1.0], [1.0, 3.0]], [3.0, 5.0]))
