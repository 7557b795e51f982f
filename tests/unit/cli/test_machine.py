"""What commands say about the machine, its images and the instance types. The machine is a stand-in."""

import json
import socket
from datetime import datetime, timezone
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sagelet_api.cli.doctor import show_checks
from sagelet_api.cli.instances import stand_in
from sagelet_api.cli.main import main
from sagelet_api.cli.output import Column, table
from sagelet_api.cli.sdks import check_sdk
from sagelet_engine.images.listing import LocalImage
from sagelet_engine.images.resolve import Resolver
from sagelet_engine.images.rules import FILE
from sagelet_engine.images.variants import PY39, training_image
from sagelet_engine.instances.catalogue import every, find
from sagelet_engine.machine import checks, runtimes
from sagelet_engine.machine.check import Check
from sagelet_engine.runtimes.docker.engine import DockerFacts
from sagelet_engine.state.notice import Notice, post_notice, read_notice
from sagelet_engine.state.owner import lock_directory, owner_of

URI = "123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1.0"
ENGINE = DockerFacts("28.2.2", None, gpus=False, rootless=True)


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


# --- doctor -----------------------------------------------------------------------------------------------------------


def test_what_is_missing_has_a_remedy_and_only_what_jobs_need_is_bad() -> None:
    docker, image = checks.check_docker(None), checks.check_image(None, [])
    absent = checks.check_image(ENGINE, [])
    assert (docker.good, docker.needed) == (image.good, image.needed) == (absent.good, absent.needed) == (False, False)
    assert "`sagelet image build`" in absent.remedy
    nothing = checks.check_runtimes(absent, checks.check_packages(["torch"]))
    assert (nothing.good, nothing.needed) == (False, True)
    assert nothing.remedy == f"{absent.remedy} or `sagelet install-torch`"
    assert checks.check_runtimes(absent, checks.check_packages([])).good
    # A server that runs may have been given another runtime.
    assert checks.check_runtimes(absent, checks.check_packages([])).found.startswith("by default jobs run as processes")


def test_xlas_client_on_cpus_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    named = checks.check_cpu_plugin("lammps-jax-pjrt-cpu 0.11.2")
    assert (named.good, named.found) == (True, "compiled jobs that are processes use lammps-jax-pjrt-cpu 0.11.2")
    absent = checks.check_cpu_plugin("")
    assert not absent.good
    assert not absent.needed
    assert absent.remedy == "`sagelet install-torch`"
    found = {"torch_xla": "2.9.0", "lammps-jax-pjrt-cpu": "0.11.2"}
    monkeypatch.setattr(runtimes, "_version", found.get)
    assert runtimes.cpu_plugin() == "lammps-jax-pjrt-cpu 0.11.2"
    del found["torch_xla"]
    assert runtimes.cpu_plugin() == ""


def test_without_torch_xla_jobs_run_and_the_doctor_says_how() -> None:
    packages = checks.check_packages(["torch_xla"])
    assert packages.good
    assert "SAGELET_COMPILER=inductor" in packages.found
    assert checks.check_runtimes(checks.check_image(None, []), packages).good


@pytest.mark.parametrize(
    ("facts", "name", "reached"),
    [
        ({}, "Docker Engine 28.2.2", True),
        ({"desktop": True}, "Docker Desktop, Engine 28.2.2", True),
        ({"rootless": True}, "Docker Engine 28.2.2, rootless", False),
        ({"podman": True}, "Podman 28.2.2", False),
        ({"podman": True, "rootless": True}, "Podman 28.2.2, rootless", False),
    ],
)
def test_the_engine_has_its_name_and_says_whether_jobs_reach_the_server(
    facts: dict[str, bool], name: str, reached: bool
) -> None:
    engine = DockerFacts(**{"version": "28.2.2", "bridge_gateway": None, "gpus": False, "rootless": False, **facts})
    docker = checks.check_docker(engine)
    assert (docker.good, docker.found) == (True, name)
    (way,) = checks.check_way_back(engine)
    assert (way.good, way.needed) == (reached, reached)
    assert ("--host 0.0.0.0 --auth" in way.remedy) is not reached
    assert checks.check_way_back(None) == []


def test_an_engine_of_another_architecture_emulates() -> None:
    engine = DockerFacts("28.2.2", None, gpus=False, rootless=False, desktop=True, architecture="arm64")
    docker = checks.check_docker(engine)
    assert (docker.good, docker.needed) == (False, False)
    assert docker.found.startswith("Docker Desktop, Engine 28.2.2, arm64.")
    assert "linux/amd64" in docker.found
    assert "Rosetta" in docker.remedy


def test_scripts_of_then_have_an_image_of_their_day() -> None:
    """A note where it is missing: not everybody has such scripts."""
    here, then = (
        LocalImage(reference, "sha256:1", "training", 10**9, datetime(2026, 1, 1, tzinfo=timezone.utc), current=True)
        for reference in (training_image(), PY39.reference)
    )
    (absent,) = checks.check_image_of_then([here])
    assert (absent.good, absent.needed) == (False, False)
    assert "2021 to 2023" in absent.found
    assert "`sagelet image build --variant py39`" in absent.remedy
    assert "`sagelet docs images-of-their-day`" in absent.remedy
    assert [one.good for one in checks.check_image_of_then([here, then])] == [True]
    # Who trains in processes has none.
    assert checks.check_image_of_then([]) == []


def test_the_disk() -> None:
    judged = [checks.check_disk(Path("/d"), free) for free in (6 * 10**9, 2 * 10**9, 10**8)]
    assert [(one.good, one.needed) for one in judged] == [(True, True), (False, False), (False, True)]
    there = Path("/")
    built = checks.check_image(ENGINE, [])
    assert not checks.check_image_disk(built, there, lambda _: 10**9).good
    assert checks.check_image_disk(Check("image", True, ""), there, lambda _: 10**9).good


def test_a_port_that_somebody_has(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = checks.check_port(tmp_path, taken.getsockname()[1])
    assert (found.good, found.needed) == (False, False)
    assert "is taken by process" in found.found
    assert "--port 0" in found.remedy


@pytest.mark.parametrize(("given", "looked_at"), [("4700", 4700), ("", 4599), ("70000", 4599), ("http", 4599)])
def test_the_doctor_looks_at_the_port_that_up_would_take(
    given: str, looked_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports: list[int] = []
    monkeypatch.setenv("SAGELET_PORT", given)
    monkeypatch.setattr("sagelet_api.cli.sdks.check_sdks", list)
    monkeypatch.setattr(checks, "check_machine", lambda _data, port: ports.append(port) or [])
    assert run("doctor", "--data", str(tmp_path)).exit_code == 0
    assert ports == [looked_at]


def test_an_empty_hub_says_how_to_fill_it(tmp_path: Path) -> None:
    listed = run("hub", "ls", "--data", str(tmp_path))
    assert (listed.exit_code, listed.stdout) == (0, "")
    assert "`sagelet hub add DIR --as ORGANISATION/NAME`" in listed.stderr


def test_sdks() -> None:
    assert check_sdk("python3", (3, 11), {"sagemaker": "2.257.0", "boto3": "1.40.1"}).good
    old = check_sdk("python3", (3, 8), {"boto3": "1.26.0"})
    assert "`sagelet run" in old.remedy
    assert "3.8" in check_sdk("python3", (3, 7), {}).remedy
    assert check_sdk("python3", (3, 11), {}).found == "python3 (Python 3.11): no SDK of AWS"
    assert not check_sdk("/nowhere", (), {}).good


def test_the_doctor_of_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    monkeypatch.setattr("sagelet_api.cli.sdks.check_sdks", list)
    monkeypatch.setattr(checks, "missing_modules", lambda: [])
    assert run("doctor", "--data", str(tmp_path)).stdout.endswith("Jobs can run here.\n")
    monkeypatch.setattr(checks, "missing_modules", lambda: ["torch"])
    bad = run("doctor", "--data", str(tmp_path))
    assert bad.exit_code == 1
    assert "BAD\truntime\t" in bad.stdout
    assert bad.stdout.endswith("1 thing to mend first.\n")
    found = json.loads(run("doctor", "--data", str(tmp_path), "--json").stdout)
    assert {"python", "docker", "image", "packages", "runtime", "gpus", "disk", "server", "port"} <= {
        one["name"] for one in found
    }


# --- images -----------------------------------------------------------------------------------------------------------


def test_a_mapping_is_durable_and_comes_first(tmp_path: Path) -> None:
    resolver = Resolver(data=tmp_path)
    assert resolver.resolve(URI).is_literal
    mapped = run("image", "map", URI, "own:{1}", "--data", str(tmp_path))
    assert mapped.stdout == f"{URI}: own:{{1}}\n"
    # By a server that runs, too, and nothing but this URI.
    assert resolver.resolve(URI).local_image == "own:{1}"
    assert resolver.resolve(URI.replace(".", "x")).is_literal
    trcomp = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-trcomp-training:1.13.1-gpu-py39"
    run("image", "map", trcomp, "other:1", "--data", str(tmp_path))
    assert resolver.resolve(trcomp).local_image == "other:1"
    assert run("image", "resolve", trcomp, "--data", str(tmp_path)).stdout.startswith("other:1  (rule: mapped: ")
    assert json.loads(run("image", "map", "--json", "--data", str(tmp_path)).stdout) == {
        URI: "own:{1}", trcomp: "other:1",
    }  # fmt: skip
    assert run("image", "map", trcomp, "--remove", "--data", str(tmp_path)).exit_code == 0
    assert resolver.resolve(trcomp).local_image == training_image()
    assert run("image", "map", "--data", str(tmp_path)).stdout == f"{URI}\town:{{1}}\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([URI], 2, "URI and LOCAL_IMAGE, or URI and --remove"),
        ([URI, "own:1", "--remove"], 2, "URI and LOCAL_IMAGE, or URI and --remove"),
        (["--remove"], 2, "URI and LOCAL_IMAGE, or URI and --remove"),
        ([URI, "--remove"], 1, f"Nothing is mapped for {URI}"),
        ([URI, "two words"], 1, "cannot be a local image"),
    ],
)
def test_what_cannot_be_mapped(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    result = run("image", "map", *words, "--data", str(tmp_path))
    assert result.exit_code == code
    assert said in result.stderr
    assert not (tmp_path / FILE).exists()


def test_mappings_that_were_made_wrong_by_hand_fail_at_start(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("[[rule]]\nmatch = '('\nimage = 'x'\n")
    result = run("up", "--runtime", "process", "--port", "0", "--data", str(tmp_path))
    assert result.exit_code == 1
    assert str(tmp_path / FILE) in result.stderr
    (tmp_path / FILE).write_text("[[rule]]\nmatch = '.*'\nimage = 'x'\n")
    assert "has a rule of another kind" in run("image", "map", "--data", str(tmp_path)).stderr


# --- instances --------------------------------------------------------------------------------------------------------


def test_what_stands_in_for_an_instance() -> None:
    cpu, one, eight = find("ml.m5.large"), find("ml.g4dn.xlarge"), find("ml.p4d.24xlarge")
    assert cpu is not None
    assert one is not None
    assert eight is not None
    assert stand_in(cpu, 4) == "this machine's CPUs"
    assert stand_in(one, 0) == "1 CPU worker"
    assert stand_in(one, 1) == "1 of this machine's GPUs"
    assert stand_in(eight, 4) == "8 CPU workers"


def test_the_catalogue() -> None:
    assert len(run("instances").stdout.splitlines()) == len(every())
    assert len(run("instances", "--gpu").stdout.splitlines()) == sum(one.gpus > 0 for one in every())
    (row,) = run("instances", "g4dn.xl").stdout.splitlines()
    assert row.split("\t")[:5] == ["ml.g4dn.xlarge", "4", "16", "1 x NVIDIA T4 16 GiB", "0.736"]
    (found,) = json.loads(run("instances", "P4D.", "--json").stdout)
    assert (found["name"], found["gpus"], found["gpu_model"]) == ("ml.p4d.24xlarge", 8, "NVIDIA A100")


# --- output -----------------------------------------------------------------------------------------------------------


def test_a_narrow_terminal_has_fewer_columns_and_whole_names() -> None:
    columns: list[Column[str]] = [
        Column("NAME", str),
        Column("A", lambda _: "a" * 20, optional=1),
        Column("B", lambda _: "b" * 20, optional=2),
    ]

    def shown(width: int) -> list[object]:
        return [one.header for one in table(columns, ["x" * 40], width).columns]

    assert shown(100) == ["NAME", "A", "B"]
    assert shown(70) == ["NAME", "A"]
    assert shown(10) == ["NAME"]


def test_checks_on_a_terminal_and_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.console import Console

    from sagelet_api.cli.output import console

    checks = [Check("disk", True, "fine"), Check("gpus", False, "none", "buy one", needed=False)]
    show_checks(checks, console())
    assert capsys.readouterr().out.splitlines() == [
        "ok\tdisk\tfine",
        "note\tgpus\tnone -> buy one",
        "Jobs can run here.",
    ]
    show_checks(checks, Console(force_terminal=True, color_system=None, width=80))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["ok    disk  fine", "note  gpus  none", "            -> buy one", "Jobs can run here."]


# --- the note of a server ---------------------------------------------------------------------------------------------


def test_a_note_is_believed_while_its_server_has_the_lock(tmp_path: Path) -> None:
    assert (owner_of(tmp_path), read_notice(tmp_path)) == (None, None)
    lock = lock_directory(tmp_path)
    owner = owner_of(tmp_path)
    assert owner is not None
    notice = Notice(owner, "http://127.0.0.1:1", 0)
    post_notice(tmp_path, notice)
    assert read_notice(tmp_path) == notice
    post_notice(tmp_path, Notice(owner + 1, "http://127.0.0.1:1", 0))
    assert read_notice(tmp_path) is None, "of a server that was killed"
    lock.close()
    post_notice(tmp_path, notice)
    assert read_notice(tmp_path) is None
    (tmp_path / "server.json").write_text("{")
    assert read_notice(tmp_path) is None


def test_a_look_at_the_lock_keeps_no_server_out(tmp_path: Path) -> None:
    """Who looks holds the lock for an instant: a server that starts just then tries again."""
    import fcntl
    import threading

    lock_directory(tmp_path).close()
    with (tmp_path / "lock").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        threading.Timer(0.02, lambda: fcntl.flock(looking, fcntl.LOCK_UN)).start()
        lock_directory(tmp_path).close()


# --- the demo ---------------------------------------------------------------------------------------------------------


def test_the_demo_trains_the_script_of_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout has it as an example, a wheel inside of the package; pyproject.toml puts it there."""
    import sagelet_api
    from sagelet_api.cli import demo_jobs

    root = Path(sagelet_api.__file__).resolve().parents[2]
    assert demo_jobs.scripts() == root / "examples" / "gpt2" / "scripts"
    assert '"examples/gpt2/scripts" = "sagelet_api/_demo"' in (root / "pyproject.toml").read_text(encoding="utf-8")
    package = tmp_path / "site" / "packages" / "sagelet_api"
    monkeypatch.setattr(sagelet_api, "__file__", str(package / "__init__.py"))
    with pytest.raises(demo_jobs.NoDemo, match="install sagelet again"):
        demo_jobs.scripts()
    (package / "_demo").mkdir(parents=True)
    (package / "_demo" / "train.py").touch()
    assert demo_jobs.scripts() == package / "_demo"
