"""What a job may rely on inside of the training image, as the platform runs it."""

from collections.abc import Callable

import docker
import pytest
from docker.errors import APIError

from sagelet_engine.images.engine import connect
from sagelet_engine.images.variants import training_image

Run = Callable[[str], str]
pytestmark = pytest.mark.docker

#: SageMaker's containers run as root; the docker runtime takes root's capabilities away, or runs as the user's id.
USERS = {
    "root": {"user": "0:0"},
    "stranger": {"user": "12345:12345", "environment": {"HOME": "/tmp"}},
}
IMPORTS = "torch, torch_xla, transformers, accelerate, datasets, evaluate, sklearn, sagemaker_training, sagelet_runtime"


@pytest.fixture(scope="module")
def engine() -> docker.DockerClient:
    return connect()


@pytest.fixture(params=sorted(USERS))
def run(engine: docker.DockerClient, request: pytest.FixtureRequest) -> Run:
    def run(script: str) -> str:
        try:
            output: bytes = engine.containers.run(
                training_image(),
                ["bash", "-c", script],
                remove=True,
                stderr=True,
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                **USERS[request.param],
            )
        except APIError as error:
            # In a summary's line there is no room for the URL that comes before it.
            pytest.fail(f"the container was not started: {error.explanation or error}")
        return output.decode()

    return run


def test_the_stack_fits_together(run: Run) -> None:
    versions = "print(torch.__version__.split('+')[0], torch_xla.__version__)"
    assert "2.9.0 2.9.0" in run(f'set -e; python -c "import {IMPORTS}; {versions}"; pip check')


def test_commands_are_on_the_path(run: Run) -> None:
    names = "train python python3 pip pip3 torchrun gcc g++ git bash"
    output = run(f"set -e; for name in {names}; do command -v $name; done")
    assert output.splitlines()[0] == "/opt/sagelet/runtime/bin/train"


def test_a_requirement_with_a_c_extension_builds_and_is_importable(run: Run) -> None:
    """sagemaker-training has no wheel. Without root's rights pip installs into HOME."""
    requirement = "echo sagemaker-training==5.1.4 > /tmp/requirements.txt"
    install = "pip install -q --force-reinstall --no-deps -r /tmp/requirements.txt"
    assert "built" in run(
        f"set -e; cd /tmp; {requirement}; {install}; python -c 'import gethostname; print(\"built\")'"
    )


def test_torch_compile_finds_a_compiler(run: Run) -> None:
    """Inductor's first steps: a cache directory named after the user, and a C++ compiler with Python's headers."""
    program = (
        "from torch._inductor.cpp_builder import get_cpp_compiler; "
        "from torch._inductor.runtime.cache_dir_utils import cache_dir; "
        "print(get_cpp_compiler(), cache_dir())"
    )
    headers = "$(python -c \"import sysconfig; print(sysconfig.get_path('include'))\")"
    assert "g++ /tmp/torchinductor_" in run(
        f"set -e; python -c '{program}'; echo '#include <Python.h>' | g++ -I{headers} -fsyntax-only -x c++ -"
    )


def test_signals_reach_the_entry_point(engine: docker.DockerClient) -> None:
    """No ENTRYPOINT in between: the command of `docker run IMAGE train` is process 1."""
    config = engine.images.get(training_image()).attrs["Config"]
    assert config["Entrypoint"] is None
    assert config["Cmd"] == ["train"]


def test_no_package_caches_are_left(run: Run) -> None:
    places = "/root/.cache /var/lib/apt/lists /var/cache/apt/archives"
    assert run(f"find {places} -type f -size +0 2>/dev/null || true").split() == []
