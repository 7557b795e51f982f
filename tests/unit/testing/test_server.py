"""`sagelet.testing.Server`: a server that goes with its test, and takes its jobs along."""

import io
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from sagelet.testing import FastForward, Server, ServerFailed, serving
from sagelet.testing.settings import settings_from
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.settings import GpuPolicy, RuntimeChoice, Settings, SlurmFiles
from support.server import ROLE
from support.world import until

#: The number that `select()` refuses as a file descriptor.
BEYOND_SELECT = 1024
#: Starts a server with a job that never ends, and says so.
PROGRAM = """
import sys, time
from sagelet.testing import Server
server = Server(sys.argv[1]).start()
s3, sagemaker = (server.session().client(name) for name in ("s3", "sagemaker"))
s3.create_bucket(Bucket="out")
sagemaker.create_training_job(
    TrainingJobName="endless", RoleArn=sys.argv[2],
    AlgorithmSpecification={
        "TrainingImage": "sagelet/training:" + sys.argv[3], "TrainingInputMode": "File",
        "ContainerEntrypoint": ["/bin/sh", "-c", "echo on; exec sleep 6000"],
    },
    OutputDataConfig={"S3OutputPath": "s3://out/"},
    ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
    StoppingCondition={"MaxRuntimeInSeconds": 6000},
)
while sagemaker.describe_training_job(TrainingJobName="endless")["SecondaryStatus"] != "Training":
    time.sleep(0.05)
print("training", flush=True)
sys.stdin.read()
server.stop()
"""


def processes_of(directory: Path) -> list[int]:
    """Processes of a server and of its jobs' hosts, by the directory in their command or environment."""
    found = []
    for process in psutil.process_iter():
        try:
            told = [*process.cmdline(), process.environ().get("SM_HOSTS", ""), *process.environ().values()]
        except psutil.Error:
            continue
        if any(str(directory) in text for text in told):
            found.append(process.pid)
    return found


def test_a_test_with_many_open_files_starts_a_server(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, BEYOND_SELECT + 200), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(BEYOND_SELECT)]
    try:
        with Server(tmp_path / "server") as server:
            assert server.endpoint.startswith("http://127.0.0.1:")
    finally:
        for one in opened:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.xla
@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_server_and_jobs_go_with_the_tests(tmp_path: Path, how: str) -> None:
    import sagelet_engine

    directory = tmp_path / "server"
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(directory), ROLE, sagelet_engine.__version__],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stdout is not None
    assert program.stdin is not None
    assert program.stdout.readline() == "training\n"
    until(lambda: [pid for pid in processes_of(directory) if pid != program.pid])
    if how == "killed":
        os.kill(program.pid, signal.SIGKILL)
    program.stdin.close()
    program.wait(120)
    program.stdout.close()
    until(lambda: not processes_of(directory))


def test_a_temporary_directory_goes_with_its_server() -> None:
    with Server() as server:
        assert server.data.is_dir()
    assert not server.directory.exists()
    server.stop()


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match="--max-jobs 0: must be at least 1"):
        Server(tmp_path, max_jobs=0).start()
    with pytest.raises(ServerFailed, match="runtime: 'nonsense' must be one of auto, docker, process, slurm"):
        Server(tmp_path, runtime="nonsense").start()
    with pytest.raises(ServerFailed, match="max_jobs: 'four' must be of the type int"):
        Server(tmp_path, max_jobs="four").start()


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(SettingsError, match=r"maxjobs is not a setting; did you mean max_jobs\?"):
        Server(maxjobs=3)
    # The option of `sagelet up`.
    with pytest.raises(SettingsError, match=r"did you mean stop_grace_seconds\?"), FastForward(stop_grace=3):
        pass


def test_a_tests_server_has_the_interpreter_of_sagelet_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[str] = []
    monkeypatch.setattr(serving, "set_for_server", lambda: done.append("set"))
    monkeypatch.setattr(serving.signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"max_jobs": 0}\n'))
    with pytest.raises(SystemExit):
        serving.main()
    assert done == ["set"]
    assert "--max-jobs 0" in capsys.readouterr().out


def test_values_of_json_become_settings(tmp_path: Path) -> None:
    plain = {
        "data": "/data", "runtime": "slurm", "gpus": "off", "slurm_files": "s3", "slurm_images": "/images",
        "allowed_hosts": ["ci.lan"], "file_systems": {"fs-01234567": str(tmp_path)}, "max_hosts": None,
    }  # fmt: skip
    made = settings_from(json.loads(json.dumps(plain)))
    assert made == Settings(
        data=Path("/data"), runtime=RuntimeChoice.SLURM, gpus=GpuPolicy.OFF, slurm_files=SlurmFiles.S3,
        slurm_images=Path("/images"), allowed_hosts=("ci.lan",), file_systems={"fs-01234567": tmp_path},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"max_jobs": True}, "max_jobs: True must be of the type int"),
        ({"port": None}, "port: None must be of the type int"),
        ({"data": 1}, "data: 1 must be of the type Path"),
        ({"allowed_hosts": "ci.lan"}, "allowed_hosts: 'ci.lan' must be a list"),
        ({"gpus": "some"}, "gpus: 'some' must be one of auto, require, off"),
    ],
)
def test_a_value_of_another_type_is_named(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        settings_from(wrong)


def test_the_developers_own_settings_are_not_the_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAGELET_PORT", "1")
    monkeypatch.setenv("SAGELET_DATA", "/nowhere")
    with Server(tmp_path) as server:
        assert server.session().client("sagemaker").list_training_jobs()["TrainingJobSummaries"] == []
    assert (tmp_path / "data" / "credentials").is_file()
