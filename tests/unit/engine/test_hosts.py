"""Jobs of several hosts: what each host gets, which host ends the others, and what they leave."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.images.variants import training_image
from sagelet_engine.instances.gpus import NoCapacity
from sagelet_engine.model.job import JobStatus, SecondaryStatus
from sagelet_engine.model.training import create
from sagelet_engine.scheduling import distributions
from support.channels import channel
from support.fakes import FakeHost
from support.world import World, key, request, until

S = SecondaryStatus


def resources(count: int = 2, instance_type: str = "ml.m5.large") -> dict[str, Any]:
    return {"ResourceConfig": {"InstanceType": instance_type, "InstanceCount": count, "VolumeSizeInGB": 1}}


def clusters(*groups: tuple[str, str, int]) -> dict[str, Any]:
    """A heterogeneous cluster: name, instance type and count of each group."""
    names = ("InstanceGroupName", "InstanceType", "InstanceCount")
    made = [dict(zip(names, group, strict=True)) for group in groups]
    return {"ResourceConfig": {"InstanceGroups": made, "VolumeSizeInGB": 1}}


def start(world: World, name: str = "one", count: int = 2, **changes: Any) -> list[FakeHost]:
    """The hosts of a job that trains."""
    world.create(name, **{**resources(count), **changes})
    hosts = world.all_hosts(name)
    until(lambda: world.job(name).launched)
    return hosts


def opt_ml(host: FakeHost) -> Path:
    return next(plan.opt_ml for plan in host.plan.hosts if plan.name == host.handle.host)


def config(host: FakeHost, name: str) -> Any:
    return json.loads((opt_ml(host) / f"input/config/{name}.json").read_text())


def channels_of(host: FakeHost) -> dict[str, list[str]]:
    root = opt_ml(host) / "input/data"
    return {path.name: sorted(file.name for file in path.iterdir()) for path in root.iterdir() if path.is_dir()}


def log_of(world: World, name: str, host: str) -> list[str]:
    """Nothing while the host has no stream yet."""
    streams = world.engine.logs.streams("123456789012", "us-east-1", f"{name}/{host}-")
    return [event.text for stream in streams for event in world.engine.logs.events(stream, limit=100)]


def archived(world: World, key_: str) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(world.objects.under("out", key_)[key_])) as opened:
        return {
            member.name: opened.extractfile(member).read()  # type: ignore[union-attr]
            for member in opened
            if member.isfile()
        }


# --- the configuration files ----------------------------------------------------------------------------------------


def test_every_host_reads_which_one_it_is(world: World) -> None:
    first, second = start(world)
    expected = {
        "current_instance_type": "ml.m5.large",
        "current_group_name": "homogeneousCluster",
        "hosts": ["algo-1", "algo-2"],
        "instance_groups": [
            {
                "instance_group_name": "homogeneousCluster",
                "instance_type": "ml.m5.large",
                "hosts": ["algo-1", "algo-2"],
            }
        ],
        "network_interface_name": "eth0",
        "topology": None,
    }
    assert config(first, "resourceconfig") == {"current_host": "algo-1", **expected}
    assert config(second, "resourceconfig") == {"current_host": "algo-2", **expected}
    assert config(first, "init-config")["hostConfig"] == {"clusterSize": 2, "hostNumber": 1}
    assert config(second, "init-config")["hostConfig"] == {"clusterSize": 2, "hostNumber": 2}
    for host in (first, second):
        host.end(0)
    world.ended("one")


def test_groups_are_told_apart(world: World) -> None:
    hosts = start(world, **clusters(("train", "ml.p3.2xlarge", 1), ("data", "ml.c5.xlarge", 2)))
    groups = [
        {"instance_group_name": "train", "instance_type": "ml.p3.2xlarge", "hosts": ["algo-1"]},
        {"instance_group_name": "data", "instance_type": "ml.c5.xlarge", "hosts": ["algo-2", "algo-3"]},
    ]
    own = [("algo-1", "train", "ml.p3.2xlarge"), ("algo-2", "data", "ml.c5.xlarge"), ("algo-3", "data", "ml.c5.xlarge")]
    for host, (name, group, instance_type) in zip(hosts, own, strict=True):
        assert config(host, "resourceconfig") == {
            "current_host": name,
            "current_instance_type": instance_type,
            "current_group_name": group,
            "hosts": ["algo-1", "algo-2", "algo-3"],
            "instance_groups": groups,
            "network_interface_name": "eth0",
            "topology": None,
        }
        host.end(0)
    world.ended("one")


def test_the_run_is_counted_over_attempts(world: World) -> None:
    (host,) = start(
        world,
        count=1,
        EnableManagedSpotTraining=True,
        StoppingCondition={"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 7200},
    )
    assert config(host, "init-config")["jobRunInfo"] == {"jobRunNumber": 1}
    world.engine.jobs.interrupt(key("one"))
    until(lambda: host.signals)
    host.end(143)
    until(lambda: world.job("one").launch_id != world.job("one").id)
    (again,) = world.all_hosts("one")
    assert config(again, "init-config")["jobRunInfo"] == {"jobRunNumber": 2}
    again.end(0)
    world.ended("one")


# --- channels -------------------------------------------------------------------------------------------------------


def to_groups(entry: dict[str, Any], *names: str) -> dict[str, Any]:
    entry["DataSource"]["S3DataSource"]["InstanceGroupNames"] = list(names)
    return entry


@pytest.mark.parametrize("mode", ["File", "FastFile"])
def test_channels_reach_the_hosts_of_their_groups_only(world: World, mode: str) -> None:
    for name in "abcdef":
        world.objects.put("in", f"d/{name}", b"x")
    shards = channel("s3://in/d/", "shards", mode, S3DataDistributionType="ShardedByS3Key")
    hosts = start(
        world,
        InputDataConfig=[
            to_groups(shards, "data"),
            to_groups(channel("s3://in/d/", "both", mode), "train", "data"),
            to_groups(channel("s3://in/d/", "train-only", mode), "train"),
        ],
        **clusters(("train", "ml.p3.2xlarge", 1), ("data", "ml.c5.xlarge", 2)),
    )
    everything = list("abcdef")
    assert [channels_of(host) for host in hosts] == [
        {"both": everything, "train-only": everything},
        {"both": everything, "shards": ["a", "c", "e"]},
        {"both": everything, "shards": ["b", "d", "f"]},
    ]
    for host in hosts:
        assert set(config(host, "inputdataconfig")) == set(channels_of(host))
        assert set(config(host, "init-config")["channels"]) == set(channels_of(host))
        own = next(plan for plan in host.plan.hosts if plan.name == host.handle.host)
        protected = {f"input/data/{name}" for name in channels_of(host)} if mode == "FastFile" else set()
        assert set(own.read_only) == protected
        host.end(0)
    assert world.ended("one").status is JobStatus.COMPLETED


def test_pipes_are_fed_to_the_hosts_of_their_groups_only(world: World) -> None:
    for name in "abcd":
        world.objects.put("in", f"d/{name}", name.encode())
    shards = channel("s3://in/d/", "shards", "Pipe", S3DataDistributionType="ShardedByS3Key")
    hosts = start(
        world,
        InputDataConfig=[to_groups(shards, "data")],
        **clusters(("train", "ml.p3.2xlarge", 1), ("data", "ml.c5.xlarge", 2)),
    )
    pipes = [opt_ml(host) / "input/data/shards_0" for host in hosts]
    assert not pipes[0].exists()
    assert [pipe.read_bytes() for pipe in pipes[1:]] == [b"ac", b"bd"]
    for host in hosts:
        host.end(0)
    assert world.ended("one").status is JobStatus.COMPLETED


# --- ends -----------------------------------------------------------------------------------------------------------


def test_each_host_has_a_log_stream_of_its_own(world: World) -> None:
    hosts = start(world, count=3)
    for host in hosts:
        host.say(f"I am {host.handle.host}")
        host.save_model()
        host.end(0)
    world.ended("one")
    for host in hosts:
        assert log_of(world, "one", host.handle.host) == [f"I am {host.handle.host}"]


def test_a_host_that_ends_well_lets_the_others_go_on(world: World) -> None:
    first, second = start(world)
    first.end(0)
    world.clock.turn(600)
    second.say("still here")
    until(lambda: log_of(world, "one", "algo-2") == ["still here"])
    assert second.signals == []
    assert world.job("one").secondary is S.TRAINING
    second.end(0)
    job = world.ended("one")
    assert job.status is JobStatus.COMPLETED
    assert job.training_seconds == job.billable_seconds == 600
    assert second.signals == []


def test_a_host_that_fails_ends_the_others_and_speaks_for_the_job(world: World) -> None:
    first, second, third = start(world, count=3)
    third.end(0)
    (opt_ml(second) / "output/failure").write_text("out of tiles")
    second.finished_ms = world.clock.now_ms()
    second.end(7)
    until(lambda: first.signals == ["TERM"])
    world.clock.turn(1)
    first.finished_ms = world.clock.now_ms()
    first.end(143)
    job = world.ended("one")
    assert job.failure_reason == "AlgorithmError: out of tiles, exit code: 7"
    assert [entry.status.value for entry in job.transitions][-3:] == ["Training", "Uploading", "Failed"]
    assert world.runtime.hosts == {}


def test_a_failure_file_counts_as_a_failure_of_its_host(world: World) -> None:
    first, second = start(world)
    (opt_ml(second) / "output/failure").write_text("no good")
    second.finished_ms = 1
    second.end(0)
    until(lambda: first.signals == ["TERM"])
    first.finished_ms = 2
    first.end(0)
    assert world.ended("one").failure_reason == "AlgorithmError: no good, exit code: 0"


def test_a_host_that_ignores_the_end_of_another_is_killed_within_seconds(world: World) -> None:
    first, second = start(world)
    second.end(1)
    until(lambda: first.signals == ["TERM"])
    world.clock.turn(9)
    world.engine.jobs.put_tags(key("one"), {"look": "again"}, 50)
    assert first.signals == ["TERM"]
    world.clock.turn(1)
    until(lambda: first.signals == ["TERM", "KILL"])
    first.end(137)
    assert world.ended("one").status is JobStatus.FAILED


def test_a_restarted_server_ends_the_others_too(world: World) -> None:
    first, second = start(world)
    world.engine.close()
    second.finished_ms = 5
    second.end(3)
    world.engine = world.boot()
    until(lambda: first.signals == ["TERM"])
    first.finished_ms = 6
    first.end(143)
    assert world.ended("one").failure_reason == "AlgorithmError: , exit code: 3"
    assert list(world.runtime.launches.values()) == [1]


@pytest.mark.parametrize("gone", ["algo-1", "algo-2"])
def test_a_host_that_vanished_while_no_server_ran_fails_the_job(world: World, gone: str) -> None:
    hosts = {host.handle.host: host for host in start(world)}
    world.engine.close()
    del world.runtime.hosts[hosts[gone].handle.ref]
    world.engine = world.boot()
    (left,) = (host for name, host in hosts.items() if name != gone)
    until(lambda: left.signals == ["TERM"])
    left.end(0)
    assert (world.ended("one").failure_reason or "").startswith("InternalServerError")
    assert world.runtime.hosts == {}


def test_stop_reaches_every_host_that_runs(world: World) -> None:
    hosts = start(world, count=3)
    hosts[0].end(0)
    until(lambda: world.job("one").launched)
    world.engine.jobs.stop(key("one"))
    until(lambda: all(host.signals == ["TERM"] for host in hosts[1:]))
    for host in hosts[1:]:
        host.end(143)
    assert world.ended("one").status is JobStatus.STOPPED


def test_max_runtime_ends_every_host_and_is_not_multiplied(world: World) -> None:
    hosts = start(world, StoppingCondition={"MaxRuntimeInSeconds": 60})
    world.clock.turn(59)
    world.engine.jobs.put_tags(key("one"), {"look": "again"}, 50)
    assert [host.signals for host in hosts] == [[], []]
    world.clock.turn(1)
    until(lambda: all(host.signals == ["TERM"] for host in hosts))
    for host in hosts:
        host.end(143)
    job = world.ended("one")
    assert job.secondary is S.MAX_RUNTIME_EXCEEDED
    assert job.training_seconds == 60


def test_an_interruption_takes_all_hosts_and_brings_all_back(world: World) -> None:
    config_ = {"S3Uri": "s3://ck/run"}
    first, second = start(
        world,
        EnableManagedSpotTraining=True,
        StoppingCondition={"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 7200},
        CheckpointConfig=config_,
    )
    for host in (first, second):
        (opt_ml(host) / f"checkpoints/{host.handle.host}").write_text("state")
    world.engine.jobs.interrupt(key("one"))
    until(lambda: first.signals == second.signals == ["TERM"])
    first.end(143)
    second.end(0)
    until(lambda: world.job("one").attempt == 2)
    again = world.all_hosts("one")
    for host in again:
        assert sorted(path.name for path in (opt_ml(host) / "checkpoints").iterdir()) == ["algo-1", "algo-2"]
        host.end(0)
    assert world.ended("one").status is JobStatus.COMPLETED


def test_hosts_wait_for_room(make_world: Callable[..., World]) -> None:
    world = make_world(max_jobs=4, max_hosts=3)
    first = start(world, "a")
    world.create("b", **resources(2))
    until(lambda: world.job("b").secondary is S.PENDING)
    world.restart()
    until(lambda: world.job("a").launched)
    assert world.job("b").secondary is S.PENDING
    for host in first:
        host.end(0)
    for host in world.all_hosts("b"):
        host.end(0)
    world.ended("b")


# --- results --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["completed", "failed", "stopped"])
def test_results_of_all_hosts_are_one_archive(world: World, end: str) -> None:
    hosts = start(world)
    for number, host in enumerate(hosts, 1):
        for directory in ("model", "output/data"):
            (opt_ml(host) / directory / f"part-{number}").write_text(str(number))
            (opt_ml(host) / directory / "same").write_text(str(number))
    if end == "stopped":
        world.engine.jobs.stop(key("one"))
        until(lambda: all(host.signals for host in hosts))
    for host in hosts:
        host.end(1 if end == "failed" else 0)
    assert world.ended("one").status.value.lower() == end
    merged = {"part-1": b"1", "part-2": b"2", "same": b"2"}
    assert archived(world, "models/one/output/model.tar.gz") == merged
    assert archived(world, "models/one/output/output.tar.gz") == merged


def test_results_of_all_hosts_without_compression(world: World) -> None:
    hosts = start(world, OutputDataConfig={"S3OutputPath": "s3://out/models", "CompressionType": "NONE"})
    for number, host in enumerate(hosts, 1):
        (opt_ml(host) / "model/deep").mkdir()
        (opt_ml(host) / f"model/deep/part-{number}").write_text(str(number))
        (opt_ml(host) / "model/same").write_text(str(number))
        host.end(0)
    world.ended("one")
    assert world.objects.under("out") == {
        "models/one/output/model/deep/part-1": b"1",
        "models/one/output/model/deep/part-2": b"2",
        "models/one/output/model/same": b"2",
    }
    assert len(world.objects.uploads) == 3


# --- distributions --------------------------------------------------------------------------------------------------

XLA = "sagemaker_pytorch_xla_multi_worker_enabled"
DDP = "sagemaker_pytorch_ddp_enabled"
TORCHRUN = "sagemaker_torch_distributed_enabled"
ONLY = "sagemaker_distribution_instance_groups"
GIB = 1024**3


@pytest.mark.parametrize(
    ("hyperparameters", "changes", "count"),
    [
        ({}, resources(2, "ml.p3.8xlarge"), 1),
        ({XLA: "true"}, resources(1, "ml.p3.2xlarge"), 1),
        ({XLA: '"true"'}, resources(2, "ml.g4dn.12xlarge"), 8),
        ({XLA: "true"}, resources(4, "ml.p4d.24xlarge"), 32),
        ({XLA: "false", DDP: "1"}, resources(1, "ml.p3.8xlarge"), 4),
        ({TORCHRUN: "True"}, resources(2, "ml.c5.xlarge"), 2),
        ({TORCHRUN: "true", ONLY: '["b"]'}, clusters(("a", "ml.c5.xlarge", 1), ("b", "ml.p3.8xlarge", 2)), 8),
        ({DDP: "true"}, clusters(("a", "ml.c5.xlarge", 1), ("b", "ml.p3.8xlarge", 2)), 9),
    ],
)
def test_one_worker_for_each_gpu_of_the_instances(
    hyperparameters: dict[str, str], changes: dict[str, Any], count: int
) -> None:
    body = request("one", HyperParameters=hyperparameters, **changes)
    assert distributions.workers(create(key("one"), "id", body, {}, 1000)) == count


@pytest.mark.parametrize(("flag", "gib", "fits"), [(XLA, 16, True), (XLA, 15, False), (DDP, 8, True), (DDP, 7, False)])
def test_workers_that_cannot_fit_are_refused_with_figures(flag: str, gib: int, fits: bool) -> None:
    body = request("one", HyperParameters={flag: "true"}, **resources(4, "ml.p4d.24xlarge"))
    job = create(key("one"), "id", body, {}, 1000)
    if fits:
        distributions.check(job, training_image(), memory=gib * GIB)
        return
    with pytest.raises(NoCapacity, match=rf"32 workers take .* in all; this machine has {gib}\.0 GiB"):
        distributions.check(job, training_image(), memory=gib * GIB)


def test_a_machine_without_the_memory_has_no_capacity(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributions, "machine_memory", lambda: GIB)
    world.create("one", HyperParameters={XLA: "true"}, **resources(1, "ml.p3.8xlarge"))
    reason = world.ended("one").failure_reason or ""
    assert reason.startswith("CapacityError: Unable to provision requested ML compute capacity.")
    assert "4 workers take at least 500 MiB each" in reason
    assert not world.runtime.launches


@pytest.mark.parametrize("flag", ["sagemaker_mpi_enabled", "sagemaker_parameter_server_enabled"])
def test_launchers_that_the_image_lacks_are_refused(world: World, flag: str) -> None:
    world.create("one", HyperParameters={flag: "true"})
    job = world.ended("one")
    name = flag.removeprefix("sagemaker_").removesuffix("_enabled")
    assert (job.failure_reason or "").startswith(
        f"ClientError: sagelet's training image has no launcher for distribution={{'{name}': ...}}. Use "
    )
    assert job.training_start_ms is None
    assert not world.runtime.launches


def test_an_image_of_the_users_own_has_its_own_launchers() -> None:
    body = request("one", HyperParameters={"sagemaker_mpi_enabled": "true"}, **resources(9, "ml.p4d.24xlarge"))
    distributions.check(create(key("one"), "id", body, {}, 1000), "own:1", memory=GIB)
