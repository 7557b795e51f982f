"""What a job may rely on inside of the training image, as the platform runs it."""

import json
import shlex
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


#: What depends on the user's rights. The other facts are those of somebody whom the image does not know.
by_each_user = pytest.mark.parametrize("run", sorted(USERS), indirect=True)


@pytest.fixture
def run(engine: docker.DockerClient, request: pytest.FixtureRequest) -> Run:
    user = getattr(request, "param", "stranger")

    def run(script: str) -> str:
        try:
            output: bytes = engine.containers.run(
                training_image(),
                ["bash", "-c", script],
                remove=True,
                stderr=True,
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                **USERS[user],
            )
        except APIError as error:
            # In a summary's line there is no room for the URL that comes before it.
            pytest.fail(f"the container was not started: {error.explanation or error}")
        return output.decode()

    return run


def test_the_stack_fits_together(run: Run) -> None:
    versions = "print(torch.__version__.split('+')[0], torch_xla.__version__)"
    assert "2.9.0 2.9.0" in run(f'set -e; python -c "import {IMPORTS}; {versions}"; pip check')


def test_torch_s_siblings_have_their_operators(run: Run) -> None:
    """A torchvision of another torch is imported, and fails at its first operator."""
    program = (
        "import torch, torchvision, torchaudio; "
        "boxes = torch.tensor([[0., 0., 2., 2.], [0., 0., 2., 1.9]]); "
        "print(torchvision.__version__.split('+')[0], torchaudio.__version__.split('+')[0], "
        "torchvision.ops.nms(boxes, torch.ones(2), 0.5).numel())"
    )
    assert "0.24.0 2.9.0 1" in run(f'python -c "{program}"')


NO_DRIVER = (
    "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a "
    "driver from http://www.nvidia.com/Download/index.aspx"
)
#: What torch 2.9.0 of the package index, with NVIDIA's libraries and without a driver, answered on 2026-11-24.
ANSWERS = {
    "torch.__version__": "'2.9.0+cu128'",
    "torch.version.cuda": "'12.8'",
    "torch.cuda.is_available()": "False",
    "torch.cuda.device_count()": "0",
    "torch.backends.cudnn.version()": "91002",
    "torch.backends.cuda.is_built()": "True",
    "torch.accelerator.current_accelerator()": "device(type='cuda')",
    "torch.accelerator.is_available()": "False",
    "torch.cuda.nccl.version()": "(2, 27, 5)",
    "torch.distributed.is_nccl_available()": "True",
    "torch.cuda.manual_seed_all(1)": "None",
    "torch.cuda.memory_allocated()": "0",
    "torch.amp.GradScaler('cuda').is_enabled()": "True",
    "torch.zeros(1).cuda()": NO_DRIVER,
    "torch.zeros(1, device='cuda')": NO_DRIVER,
    "torch.nn.Linear(2, 2).to('cuda:0')": NO_DRIVER,
    "torch.cuda.current_device()": NO_DRIVER,
    "torch.cuda.get_device_name(0)": NO_DRIVER,
    "torch.Generator(device='cuda')": (
        "AcceleratorError: CUDA error: CUDA driver version is insufficient for CUDA runtime version"
    ),
}


def test_torch_has_no_cuda_and_answers_like_torch_without_a_driver(run: Run) -> None:
    program = """
import json, sys, torch
for question in json.loads(sys.argv[1]):
    try:
        print(repr(eval(question)))
    except RuntimeError as error:
        print(f"{type(error).__name__}: {str(error).splitlines()[0]}")
"""
    questions = json.dumps(list(ANSWERS))
    output = run(f"python -W ignore -c {shlex.quote(program)} {shlex.quote(questions)}")
    assert dict(zip(ANSWERS, output.splitlines(), strict=True)) == ANSWERS


def test_nothing_of_nvidia_s_is_installed(run: Run) -> None:
    packages = "import importlib.metadata as m; print(*sorted(d.metadata['Name'] for d in m.distributions()))"
    names = run(f'python -c "{packages}"').split()
    assert "torch" in names
    assert [name for name in names if name.startswith(("nvidia", "triton"))] == []


def test_torch_compile_works_without_triton(run: Run) -> None:
    program = "import torch; f = torch.compile(lambda x: (x * 2).sin().sum()); print('sum', f(torch.zeros(4)).item())"
    assert "sum 0.0" in run(f'python -c "{program}"')


def test_what_scripts_of_aws_s_images_import_is_there(run: Run) -> None:
    """docs/reference/packages.md has the table."""
    names = (
        "PIL, tensorboard, torch.utils.tensorboard, sagemaker, sentencepiece, nltk, rouge_score, sacrebleu, evaluate, "
        "sklearn, h5py, cv2, soundfile, boto3, scipy, pandas"
    )
    mpi = "from mpi4py import MPI; print('ranks', MPI.COMM_WORLD.Get_size(), MPI.Get_library_version().split(',')[0])"
    here = f'set -e; export HOME=/tmp; python -c "import {names}"; python -c "{mpi}"'
    output = run(f'{here}; mpirun -n 2 --oversubscribe python -c "{mpi}"')
    assert [line.partition(".")[0] for line in output.splitlines() if line.startswith("ranks")] == [
        "ranks 1 Open MPI v5",
        "ranks 2 Open MPI v5",
        "ranks 2 Open MPI v5",
    ]


def test_commands_are_on_the_path(run: Run) -> None:
    names = "train python python3 pip pip3 torchrun gcc g++ git git-lfs curl wget unzip aws bash"
    output = run(f"set -e; for name in {names}; do command -v $name; done")
    assert output.splitlines()[0] == "/opt/sagelet/runtime/bin/train"


@by_each_user
def test_a_requirement_with_a_c_extension_builds_and_is_importable(run: Run) -> None:
    """sagemaker-training has no wheel. Without root's rights pip installs into HOME."""
    requirement = "echo sagemaker-training==5.1.4 > /tmp/requirements.txt"
    install = "pip install -q --force-reinstall --no-deps -r /tmp/requirements.txt"
    assert "built" in run(
        f"set -e; cd /tmp; {requirement}; {install}; python -c 'import gethostname; print(\"built\")'"
    )


@by_each_user
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


@pytest.mark.parametrize("run", ["root"], indirect=True)
def test_no_package_caches_are_left(run: Run) -> None:
    places = "/root/.cache /var/lib/apt/lists /var/cache/apt/archives"
    assert run(f"find {places} -type f -size +0 2>/dev/null || true").split() == []
