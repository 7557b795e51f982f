"""What scripts that come from AWS do in their container, where root is read-only and nobody is root."""

import io
import textwrap
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from support.hub import add_files, write_files
from support.jobs import Jobs, objects_below
from support.real_hub import RealHub
from support.server import COMPILED, SageletProcess

pytestmark = pytest.mark.docker

SCRIPT = """
    import getpass, importlib.metadata, os, shutil, subprocess, sys, tempfile
    import torch

    import from_requirements
    print("imported", from_requirements.VALUE, importlib.metadata.version("retrying"))
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "./by_script-1.0-py3-none-any.whl"], check=True)
    import by_script
    print("installed", by_script.VALUE)
    print("command", subprocess.run(["from-requirements"], check=True, capture_output=True, text=True).stdout.strip())
    print("home", os.path.expanduser("~"), getpass.getuser(), os.geteuid() != 0)
    for place in ("~/.cache/huggingface/x", "~/.config/matplotlib/x", "/tmp/x/y", "/var/tmp/x/y"):
        os.makedirs(os.path.expanduser(place))
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"x" * 2**20)
    shutil.copy(__file__, "/opt/ml/model")
    os.chmod("/opt/ml/input/config/hyperparameters.json", 0o600)
    torch.save({}, "/opt/ml/model/weights.pt")
    print("compiled", torch.compile(lambda x: x + 1)(torch.ones(2)).tolist())
    print("done")
"""


def wheel(name: str, version: str, module: str, *, command: bool = False) -> bytes:
    info, packed = f"{name}-{version}.dist-info", io.BytesIO()
    files = {
        f"{module}.py": f"VALUE = {name!r}\ndef main(): print(VALUE)\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    if command:
        files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{name.replace('_', '-')} = {module}:main\n"
    with zipfile.ZipFile(packed, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return packed.getvalue()


def test_a_compiled_job_installs_what_it_needs(servers: Callable[[str], SageletProcess]) -> None:
    """By requirements.txt, which replaces a package of the image, and by a pip of its own."""
    jobs = Jobs(servers("docker"))
    parts = {
        "from_requirements-1.0-py3-none-any.whl": wheel("from_requirements", "1.0", "from_requirements", command=True),
        "by_script-1.0-py3-none-any.whl": wheel("by_script", "1.0", "by_script"),
        "retrying-99.0-py3-none-any.whl": wheel("retrying", "99.0", "retrying_99"),
    }
    compiled = {"sagemaker_training_compiler_enabled": "true"}
    wanted = "".join(f"./{name}\n" for name in parts if not name.startswith("by_script"))
    files: dict[str, str | bytes] = {"train.py": textwrap.dedent(SCRIPT), "requirements.txt": wanted, **parts}
    name = jobs.submit(files, image=COMPILED, hyperparameters=compiled)
    job = jobs.ended(name)
    log = jobs.log(name)
    assert job["TrainingJobStatus"] == "Completed", (job.get("FailureReason"), log[-40:])
    for line in (
        "imported from_requirements 99.0",
        "installed by_script",
        "command from_requirements",
        "compiled [2.0, 2.0]",
        "done",
    ):
        assert line in log, log[-40:]
    (home,) = [line.split() for line in log if line.startswith("home ")]
    assert (home[1], home[3]) == ("/root", "True")
    assert set(jobs.artifact(name)) == {"train.py", "weights.pt"}


#: What a link of the container's /opt/ml names is elsewhere for the server, and files belong to another user.
LINKS = """
    import os
    os.chdir("/opt/ml/checkpoints")
    open("five", "w").write("5")
    os.symlink("/opt/ml/checkpoints/five", "last.ckpt")
    os.symlink("/etc/passwd", "out")
    os.mkfifo("pipe")
    os.chdir("/opt/ml/model")
    os.mkdir("blobs")
    open("blobs/w", "w").write("w")
    os.symlink("blobs/w", "weights")
    os.symlink("/etc", "out")
    open("closed", "w").write("x")
    os.chmod("closed", 0)
"""


def test_links_of_a_container_are_what_they_name_and_each_file_that_stays_has_a_line(
    servers: Callable[[str], SageletProcess],
) -> None:
    jobs = Jobs(servers("docker"))
    name = jobs.submit(
        LINKS,
        CheckpointConfig={"S3Uri": "s3://tests/container-links"},
        output={"CompressionType": "NONE"},
    )
    assert jobs.ended(name)["TrainingJobStatus"] == "Completed"
    assert objects_below(jobs.s3, "container-links/") == {"five": b"5", "last.ckpt": b"5"}
    model = objects_below(jobs.s3, f"out/{name}/output/model/")
    # A server that is root may read all files.
    assert {one: model[one] for one in model if one != "closed"} == {"blobs/w": b"w", "weights": b"w"}
    said = [line for line in jobs.log(name) if "not uploaded from" in line]
    assert [any(f"/opt/ml/{where}: {what}" in line for line in said) for where, what in (
        ("checkpoints", "'out'. A link is uploaded if it names a file of the same directory"),
        ("checkpoints", "'pipe'. Only files go to S3"),
        ("model", "'out'. A link is uploaded if it names a file of the same directory"),
    )] == [True] * 3  # fmt: skip
    assert ("closed" in model) != any("'closed'" in line for line in said)


MISS = """
    import json, os, urllib.request
    with urllib.request.urlopen(os.environ["HF_ENDPOINT"] + "/api/models/openai-community/gpt2") as answer:
        print("of the real Hub:", json.load(answer)["id"])
"""


def test_what_the_hub_lacks_reaches_a_container_through_the_server(tmp_path: Path) -> None:
    """The container itself reaches no such host: it is on another loopback."""
    files = write_files(tmp_path / "files", {"config.json": "{}"})
    add_files(tmp_path / "real", files, "openai-community/gpt2")
    with RealHub(tmp_path / "real") as real:
        server = SageletProcess(tmp_path / "data", "--runtime", "docker", "--hub-upstream", real.endpoint)
        # Other tests reach no network.
        server.environment = {"SAGELET_OFFLINE": "0"}
        server.start()
        try:
            jobs = Jobs(server)
            name = jobs.submit(MISS)
            jobs.ended(name)
            log = jobs.log(name)
            assert "of the real Hub: openai-community/gpt2" in log, log[-20:]
        finally:
            server.stop()
