"""What only the process runtime promises."""

import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import sagelet_engine
from sagelet_engine.base import held_files, json_files
from sagelet_engine.base.clock import SystemClock
from sagelet_engine.base.errors import ClientFault, RuntimeUnavailable
from sagelet_engine.model.runtime import WARM_POOL_CACHE, Handle, Mount
from sagelet_engine.runtimes.node import host_files, host_shim
from sagelet_engine.runtimes.process import runtime
from sagelet_engine.runtimes.process.runtime import ProcessRuntime, StandIn
from support.harness import Harness, wait_for
from support.packages import wheel, wheel_name

SOURCES = Path(sagelet_engine.__file__).parents[1]
AS_ORDINARY_USER = Path(__file__).parents[1] / "support" / "ordinary_user.py"
NOBODY = 65534


def make_process(directory: Path) -> ProcessRuntime:
    return ProcessRuntime(directory / "state", StandIn((sys.executable,), "/nowhere"), SystemClock())


def without_namespaces(directory: Path) -> ProcessRuntime:
    return ProcessRuntime(directory / "state", StandIn((sys.executable,), "/nowhere"), SystemClock(), namespaces="none")


def started(handle: Handle) -> dict[str, object]:
    content = json_files.read_json(Path(handle.ref, host_files.STARTED))
    assert content is not None
    return content


def shim_of(handle: Handle) -> int:
    return int(str(started(handle)["pid"]))


def is_alive(pid: int) -> bool:
    return host_files.start_time(pid) != "" and Path(f"/proc/{pid}/status").read_text().find("State:\tZ") == -1


def test_arguments_train_runs_the_command_that_stands_for_the_image(process_host: Harness) -> None:
    plan = process_host.plan("", entrypoint=None, arguments=("train",))
    assert process_host.text(process_host.launch(plan)) == ["trained"]


def test_environment_is_exactly_what_is_documented(process_host: Harness) -> None:
    plan = process_host.plan("exec env", environment={"PYTHONPATH": "/mine", "CUDA_VISIBLE_DEVICES": "7"})
    names = dict(line.split("=", 1) for line in process_host.text(process_host.launch(plan)))
    assert names["PYTHONPATH"] == "/mine:/nowhere"
    assert names["PYTHONUNBUFFERED"] == "1"
    assert names["SM_STUDIO_LOCAL_MODE"] == "true"
    assert names["CUDA_VISIBLE_DEVICES"] == ""
    packages = names["VIRTUAL_ENV"]
    directories = names["PATH"].split(os.pathsep)
    assert directories[:3] == [f"{packages}/bin", f"{packages}/scripts", os.path.dirname(sys.executable)]
    assert names["PYTHONUSERBASE"] == packages


LOOKS = """
import os, site, sys
import sagelet_engine
# Debian's Python has directories for Debian's own packages after it.
own, (packages, *_) = os.environ["VIRTUAL_ENV"], site.getsitepackages()
print(sys.prefix == own, os.path.dirname(sys.executable) == own + "/bin", site.getusersitepackages() == packages)
print(all(sys.path.index(packages) <= sys.path.index(one) for one in sys.path if one.endswith("-packages")))
print(sagelet_engine.__file__)
"""


@pytest.mark.parametrize("namespaces", ["all", "none"])
def test_a_host_has_an_environment_of_its_own_over_the_servers(tmp_path: Path, namespaces: str) -> None:
    make = without_namespaces if namespaces == "none" else make_process
    host = Harness("process", lambda: make(tmp_path), tmp_path)
    handle = host.launch(host.plan("", entrypoint=("python3", "-c"), arguments=(LOOKS,)))
    *said, engine = host.text(handle)
    assert said == ["True True True", "True"], (said, engine)
    assert Path(engine).is_relative_to(SOURCES)
    assert host.end(handle).exit_code == 0
    assert not Path(handle.ref, "packages").exists()
    host.clean_up()


def test_without_namespaces_pip_installs_for_the_host(tmp_path: Path) -> None:
    host = Harness("process", lambda: without_namespaces(tmp_path), tmp_path)
    (tmp_path / wheel_name("sagelet-test-host")).write_bytes(wheel("sagelet-test-host", script="says-version"))
    installs = f"pip install --quiet --no-index --user {tmp_path}/{wheel_name('sagelet-test-host')}"
    text, end = host.run(f"{installs} && says-version && python3 -c 'import sagelet_test_host as t; print(t.__file__)'")
    assert (text[-2], end.exit_code) == ("sagelet_test_host says 1.0", 0), text
    assert text[-1].startswith(str(tmp_path))
    host.clean_up()


def test_packages_of_a_host_whose_shim_was_killed_go_when_it_is_reaped(process_host: Harness) -> None:
    handle = process_host.start("exec sleep 600")
    packages = Path(handle.ref, "packages")
    assert packages.exists()
    os.kill(shim_of(handle), signal.SIGKILL)
    process_host.end(handle)
    process_host.clean_up()
    assert not packages.exists()


def test_nothing_of_a_host_runs_any_more_once_it_is_reaped(process_host: Harness) -> None:
    handles = process_host.launch_all(process_host.plan("echo ready; exec sleep 600", hosts=2))
    for handle in handles:
        process_host.read_until(handle, "ready")
    shims = [shim_of(handle) for handle in handles]
    process_host.runtime.reap(process_host.jobs[0])
    # The shim writes into the run directory until its end, so the directory could not be removed before.
    assert [held_files.is_locked(Path(handle.ref, host_files.LOCK)) for handle in handles] == [False, False]
    assert [host_files.descendants(shim) for shim in shims] == [[], []]


def test_a_host_that_does_not_end_is_not_forgotten(process_host: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "END_TIMEOUT_S", 0.0)
    handle = process_host.start("echo ready; exec sleep 600")
    process_host.read_until(handle, "ready")
    os.kill(shim_of(handle), signal.SIGSTOP)
    try:
        with pytest.raises(RuntimeUnavailable, match="algo-1 was killed, and did not end within 0 s"):
            process_host.runtime.reap(process_host.jobs[0])
        assert process_host.runtime.find(process_host.jobs[0]) == [handle]
    finally:
        os.kill(shim_of(handle), signal.SIGCONT)


def test_nothing_runs_on_if_the_shim_dies_while_the_host_is_reaped(process_host: Harness) -> None:
    handle = process_host.start("sleep 600 & echo ready; wait")
    process_host.read_until(handle, "ready")
    shim = shim_of(handle)
    processes = host_files.descendants(shim)
    # It does not see the request to kill before it dies.
    os.kill(shim, signal.SIGSTOP)
    wait_for("the shim to stop", lambda: "State:\tT" in Path(f"/proc/{shim}/status").read_text())
    with ThreadPoolExecutor(1) as pool:
        reaped = pool.submit(process_host.runtime.reap, process_host.jobs[0])
        wait_for("the request to kill", lambda: _has_pending(shim, host_shim.FORCE))
        os.kill(shim, signal.SIGKILL)
        reaped.result(60)
    assert len(processes) == 2
    assert [one for one in processes if is_alive(one)] == []


def _has_pending(pid: int, number: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    (pending,) = (line.split()[1] for line in status.splitlines() if line.startswith("ShdPnd:"))
    return bool(int(pending, 16) >> (number - 1) & 1)


def test_leased_gpus_are_the_visible_ones(process_host: Harness) -> None:
    plan = process_host.plan("echo $CUDA_VISIBLE_DEVICES", hosts=2)
    first, second = plan.hosts
    hosts = (replace(first, gpu_uuids=("GPU-a", "GPU-b")), replace(second, gpu_uuids=("GPU-c",)))
    handles = process_host.launch_all(replace(plan, hosts=hosts))
    assert [process_host.text(handle) for handle in handles] == [["GPU-a,GPU-b"], ["GPU-c"]]


def test_machine_is_untouched_and_opt_keeps_its_other_children(process_host: Harness) -> None:
    before = sorted(os.listdir("/opt"))
    text, _ = process_host.run("ls -A /opt")
    assert sorted(text) == sorted({*before, "ml"})
    assert sorted(os.listdir("/opt")) == before


@pytest.mark.parametrize("script", ["exec sleep 600", "sleep 600 & setsid sleep 600 & sleep 600; true"])
def test_killed_shim_leaves_no_orphan_and_is_told(process_host: Harness, script: str) -> None:
    handle = process_host.start(f"echo ready; {script}")
    process_host.read_until(handle, "ready")
    shim = shim_of(handle)
    wait_for("the host's processes", lambda: host_files.descendants(shim))
    below = host_files.descendants(shim)
    os.kill(shim, signal.SIGKILL)
    end = process_host.end(handle)
    assert end.exit_code is None
    assert "shim" in (end.error or "")
    wait_for("the end of every process", lambda: not any(is_alive(pid) for pid in below))
    assert process_host.text(handle) == ["ready"]
    assert process_host.make().observe(handle) == end


def test_host_whose_shim_died_is_not_started_again(process_host: Harness) -> None:
    plan = process_host.plan("echo once >> /opt/ml/runs; exec sleep 600")
    handle = process_host.launch(plan)
    runs = plan.hosts[0].opt_ml / "runs"
    wait_for("the start", lambda: runs.exists() and runs.read_text())
    os.kill(shim_of(handle), signal.SIGKILL)
    process_host.end(handle)
    assert process_host.make().launch(plan) == [handle]
    assert not process_host.runtime.observe(handle).running
    assert runs.read_text() == "once\n"


def test_process_id_of_a_dead_shim_that_was_used_again_is_left_alone(process_host: Harness) -> None:
    handle = process_host.start("exec sleep 600")
    os.kill(shim_of(handle), signal.SIGKILL)
    with subprocess.Popen(["sleep", "600"]) as stranger:
        json_files.write_json(Path(handle.ref, host_files.STARTED), {**started(handle), "pid": stranger.pid})
        process_host.end(handle)
        process_host.runtime.stop(handle)
        process_host.runtime.stop(handle, force=True)
        process_host.clean_up()
        assert stranger.poll() is None
        stranger.kill()


SERVER = """
import os, sys, time
from pathlib import Path
from sagelet_engine.base.clock import SystemClock
from sagelet_engine.model.runtime import HostPlan, LaunchPlan
from sagelet_engine.runtimes.process import runtime
from sagelet_engine.runtimes.process.runtime import ProcessRuntime, StandIn
directory = Path(sys.argv[1])
(directory / "ml").mkdir()
host = HostPlan("algo-1", directory / "ml", directory / "run")
script = "echo first; while [ ! -e /opt/ml/go ]; do sleep 0.1; done; echo second; exit 8"
plan = LaunchPlan("of-server", "job", "none", (host,), entrypoint=("/bin/sh", "-c", script), arguments=())
ProcessRuntime(directory / "state", StandIn(("x",)), SystemClock()).launch(plan)
print("launched", flush=True)
time.sleep(600)
"""


def test_host_outlives_the_server_that_started_it(process_host: Harness) -> None:
    command = [sys.executable, "-c", SERVER, str(process_host.directory)]
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, start_new_session=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"launched\n"
        os.killpg(server.pid, signal.SIGKILL)
    (handle,) = process_host.runtime.find("of-server")
    process_host.jobs.append("of-server")
    assert process_host.runtime.observe(handle).running
    (process_host.directory / "ml" / "go").touch()
    assert process_host.text(handle) == ["first", "second"]
    assert process_host.end(handle).exit_code == 8


def test_shims_that_start_at_the_same_time_run_the_command_once(process_host: Harness) -> None:
    plan = process_host.plan("echo once >> /opt/ml/runs; exec sleep 600")
    runtimes = [process_host.make() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        handles = list(pool.map(lambda runtime: runtime.launch(plan)[0], runtimes))
    process_host.jobs.append(plan.job_id)
    assert len(set(handles)) == 1
    process_host.runtime.stop(handles[0], force=True)
    process_host.end(handles[0])
    assert (plan.hosts[0].opt_ml / "runs").read_text() in ("", "once\n")


def test_two_isolated_hosts_are_refused(process_host: Harness) -> None:
    with pytest.raises(ClientFault, match="--runtime docker"):
        process_host.runtime.launch(process_host.plan("true", hosts=2, network_isolation=True))


def test_without_namespaces_paths_are_rewritten(tmp_path: Path) -> None:
    host = Harness("process", lambda: without_namespaces(tmp_path), tmp_path)
    plan = host.plan(
        'cat "$SAGEMAKER_BASE_DIR/input/config/hyperparameters.json"; echo; echo "$MODEL"; pwd; echo "$1"',
        environment={"MODEL": "/opt/ml/model", "S3": "s3://bucket/opt/ml/x"},
        arguments=("sh", "--out=/opt/ml/output"),
    )
    job = plan.hosts[0].opt_ml
    config = job / "input" / "config" / "hyperparameters.json"
    config.parent.mkdir(parents=True)
    sent = {"output_dir": '"/opt/ml/model"', "data": '["/opt/ml/input/data/train"]', "other": "/opt/mlx /x/opt/ml 3"}
    config.write_text(json.dumps(sent))
    handle = host.launch(plan)
    text = host.text(handle)
    expected = {"output_dir": f'"{job}/model"', "data": f'["{job}/input/data/train"]', "other": sent["other"]}
    assert json.loads(text[0]) == expected
    assert text[1:] == [f"{job}/model", str(job), f"--out={job}/output"]
    host.clean_up()


def test_without_namespaces_a_link_leads_to_the_cache(tmp_path: Path) -> None:
    host = Harness("process", lambda: without_namespaces(tmp_path), tmp_path)
    cache = tmp_path / "cache"
    cache.mkdir()
    for number, found in (("1", []), ("2", ["1"])):
        plan = host.plan(f'ls "$CACHE"; touch "$CACHE/{number}"', environment={"CACHE": f"/opt/ml/{WARM_POOL_CACHE}"})
        (one,) = plan.hosts
        (one.opt_ml / WARM_POOL_CACHE).mkdir(parents=True)
        plan = replace(plan, hosts=(replace(one, cache=cache),))
        handle = host.launch(plan)
        assert host.text(handle) == found
        assert host.make().launch(plan) == [handle]
    assert sorted(path.name for path in cache.iterdir()) == ["1", "2"]
    host.clean_up()


def test_without_namespaces_a_mount_is_a_link(tmp_path: Path) -> None:
    host = Harness("process", lambda: without_namespaces(tmp_path), tmp_path)
    (tmp_path / "files").mkdir()
    (tmp_path / "files/a").write_text("content\n")
    plan = host.plan('cat "$SAGEMAKER_BASE_DIR/data/a"; echo new > "$SAGEMAKER_BASE_DIR/data/b"')
    (one,) = plan.hosts
    (one.opt_ml / "data").mkdir()
    plan = replace(plan, hosts=(replace(one, mounts=(Mount(tmp_path / "files", "data", read_only=False),)),))
    handle = host.launch(plan)
    assert host.text(handle) == ["content"]
    assert host.make().launch(plan) == [handle]
    assert (tmp_path / "files/b").read_text() == "new\n"
    host.clean_up()


NODE = """
import os, socket, sys, time
name, port = socket.gethostname(), int(os.environ["SAGELET_MASTER_PORT"])
with socket.create_server((socket.gethostbyname(name), port)) as server:
    other = "algo-2" if name == "algo-1" else "algo-1"
    for _ in range(600):
        try:
            with socket.create_connection((other, port), 5) as peer:
                said = peer.recv(100).decode() if name == "algo-2" else ""
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    while name == "algo-1" and not said:
        with server.accept()[0] as peer:
            peer.sendall(b"hello from algo-1")
        said = "told"
    print(said)
"""


def test_hosts_listen_on_one_port_and_find_each_other(process_host: Harness) -> None:
    handles = process_host.launch_all(
        process_host.plan("", hosts=2, entrypoint=(sys.executable, "-c"), arguments=(NODE,))
    )
    assert [process_host.text(handle)[-1:] for handle in handles] == [["told"], ["hello from algo-1"]]


def test_a_read_only_mount_protects_what_is_mounted_below_it(process_host: Harness) -> None:
    """A file system of the user may have others mounted in it; nested mounts are made in a namespace of the test's."""
    files = process_host.directory / "files"
    (files / "inner").mkdir(parents=True)
    (files / "outside").mkdir()
    script = f"mount --bind {files}/outside {files}/inner && exec {sys.executable} -c '{MOUNTED_BELOW}' {files}"
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines() == ["['/shown', '/shown/inner']", "top refused", "inner refused"], done.stderr


MOUNTED_BELOW = """
import os, sys
from sagelet_engine.runtimes.node import host_namespaces as ours
files = sys.argv[1]
target = files + "/shown"
os.mkdir(target)
ours._bind(files, target)
print([place.removeprefix(files) for place in ours._mounted_at(target)])
ours._protect(target)
for name, path in (("top", target), ("inner", target + "/inner")):
    try:
        open(path + "/new", "w")
        print(name, "written")
    except OSError as error:
        print(name, "refused")
""".replace("'", '"')


def test_without_namespaces_isolation_is_refused(tmp_path: Path) -> None:
    host = Harness("process", lambda: without_namespaces(tmp_path), tmp_path)
    with pytest.raises(ClientFault, match="cannot isolate"):
        host.runtime.launch(host.plan("true", network_isolation=True))


@pytest.mark.skipif(sys.platform != "linux", reason="user namespaces are Linux's")
def test_ordinary_user_gets_all_of_it_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    """As root this runs as `nobody`, with a Python and sources that `nobody` can read."""
    if os.geteuid() != 0:
        command = [sys.executable, str(AS_ORDINARY_USER), str(tmp_path_factory.mktemp("user"))]
        subprocess.run(command, env={"PYTHONPATH": str(SOURCES)}, check=True)
        return
    directory = Path(subprocess.check_output(["mktemp", "-d", "/tmp/sagelet-user-XXXXXX"], text=True).strip())
    try:
        shutil.copytree(SOURCES / "sagelet_engine", directory / "lib" / "sagelet_engine")
        shutil.copy(AS_ORDINARY_USER, directory / "lib")
        (directory / "work").mkdir()
        for path in (directory, *directory.rglob("*")):
            path.chmod(0o755)
            os.chown(path, NOBODY, NOBODY)
        result = subprocess.run(
            ["/usr/bin/python3", str(directory / "lib" / AS_ORDINARY_USER.name), str(directory / "work")],
            env={"PATH": os.defpath, "PYTHONPATH": str(directory / "lib")},
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stderr
        assert result.stdout.splitlines()[-1] == "all of it holds"
    finally:
        shutil.rmtree(directory)


def test_only_the_training_image_is_stood_in_for(tmp_path: Path) -> None:
    runtime = ProcessRuntime(tmp_path, StandIn((sys.executable,), image="sagelet/training:1"), SystemClock())
    assert runtime.has_image("sagelet/training:1")
    with pytest.raises(ClientFault, match=r"cannot run my/own:1: start a Docker Engine"):
        runtime.has_image("my/own:1")


def test_what_is_not_installed_is_named_with_its_remedy(tmp_path: Path) -> None:
    stand_in = StandIn((sys.executable,), image="sagelet/training:1", missing=("torch", "torch_xla"))
    with pytest.raises(ClientFault, match=r"torch, torch_xla not installed.*sagelet install-torch"):
        ProcessRuntime(tmp_path, stand_in, SystemClock()).has_image("sagelet/training:1")


def test_jobs_that_xla_does_not_compile_need_no_torch_xla(tmp_path: Path) -> None:
    stand_in = StandIn((sys.executable,), image="sagelet/training:1", missing=("torch_xla",))
    assert ProcessRuntime(tmp_path, stand_in, SystemClock()).has_image("sagelet/training:1")
