"""The host's GPUs and the jobs that have them. A fake nvidia-smi lists the GPUs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sagelet_engine.instances.catalogue import gpu_count
from sagelet_engine.instances.gpus import GpuPool, Lease, NoCapacity, detect_gpus
from sagelet_engine.model.job import SecondaryStatus
from sagelet_engine.model.spec import InstanceGroup
from sagelet_engine.settings import GpuPolicy
from support.world import World, until

UUIDS = tuple(f"GPU-{number:08}-0000-0000-0000-000000000000" for number in range(4))


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a program of this name, with this shell text, first on PATH."""

    def install(script: str, mode: int = 0o755) -> None:
        tool = tmp_path / "bin/nvidia-smi"
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(script)
        tool.chmod(mode)
        monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")

    return install


def listing(*uuids: str) -> str:
    lines = "\n".join(uuids)
    return f'#!/bin/sh\n[ "$*" = "--query-gpu=uuid --format=csv,noheader" ] || exit 2\ncat <<END\n{lines}\nEND\n'


def gpu(instance_type: str) -> dict[str, object]:
    return {"ResourceConfig": {"InstanceType": instance_type, "InstanceCount": 1, "VolumeSizeInGB": 1}}


def instances(instance_type: str, count: int) -> tuple[InstanceGroup, ...]:
    return (InstanceGroup("group", instance_type, tuple(f"algo-{number + 1}" for number in range(count))),)


@pytest.mark.parametrize(
    ("instance_type", "count"),
    [("ml.p3.2xlarge", 1), ("ml.p3.8xlarge", 4), ("ml.p4d.24xlarge", 8), ("ml.m5.large", 0), ("ml.unheard.of", 0)],
)
def test_the_catalogue_knows_gpus(instance_type: str, count: int) -> None:
    assert gpu_count(instance_type) == count


def test_gpus_are_listed_by_uuid(nvidia_smi: Callable[[str], None]) -> None:
    nvidia_smi(listing(*UUIDS))
    assert detect_gpus() == UUIDS


@pytest.mark.parametrize(
    "script",
    [
        "#!/bin/sh\necho No devices were found\n",
        "#!/bin/sh\necho NVIDIA-SMI has failed because it could not talk to the driver\nexit 9\n",
        "#!/bin/sh\nexit 0\n",
        "no program at all\0",
    ],
)
def test_a_tool_that_finds_none_means_none(nvidia_smi: Callable[[str], None], script: str) -> None:
    nvidia_smi(script)
    assert detect_gpus() == ()


def test_a_tool_that_hangs_means_none(nvidia_smi: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr("sagelet_engine.instances.gpus.TIMEOUT_S", 0.2)
    assert detect_gpus() == ()


def test_without_the_tool_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert detect_gpus() == ()


def test_leases_are_disjoint_and_come_back() -> None:
    pool = GpuPool(UUIDS[:2], GpuPolicy.AUTO)
    first = pool.lease("a", instances("ml.p3.2xlarge", 1))
    second = pool.lease("b", instances("ml.p3.2xlarge", 1))
    assert first
    assert second
    assert {*first.gpus, *second.gpus} == set(UUIDS[:2])
    assert pool.lease("c", instances("ml.p3.2xlarge", 1)) is None
    pool.release("a")
    assert pool.lease("c", instances("ml.p3.2xlarge", 1)) == first


def test_a_cpu_job_needs_no_lease() -> None:
    assert GpuPool((), GpuPolicy.REQUIRE).lease("a", instances("ml.m5.large", 8)) == Lease()


def test_a_restored_job_keeps_its_gpus() -> None:
    pool = GpuPool(UUIDS[:2], GpuPolicy.AUTO)
    pool.restore("old", UUIDS[:1])
    assert pool.lease("new", instances("ml.p3.2xlarge", 1)) == Lease(UUIDS[1:2])
    assert pool.lease("newer", instances("ml.p3.2xlarge", 1)) is None


@pytest.mark.parametrize(
    ("gpus", "policy", "text"),
    [
        ((), GpuPolicy.AUTO, "CPU workers stand in for 4 GPUs of ml.p3.8xlarge: this machine has no GPU"),
        (UUIDS[:1], GpuPolicy.AUTO, "CPU workers stand in for 4 GPUs of ml.p3.8xlarge: this machine has 1 GPU"),
        (UUIDS, GpuPolicy.OFF, "CPU workers stand in for 4 GPUs of ml.p3.8xlarge: --gpus is 'off'"),
    ],
)
def test_what_stands_in_is_said(gpus: tuple[str, ...], policy: GpuPolicy, text: str) -> None:
    assert GpuPool(gpus, policy).lease("a", instances("ml.p3.8xlarge", 1)) == Lease(stand_in=text)


@pytest.mark.parametrize(("gpus", "have"), [((), "no GPU"), (UUIDS[:3], "3 GPUs")])
def test_require_refuses_what_can_never_be(gpus: tuple[str, ...], have: str) -> None:
    with pytest.raises(NoCapacity, match=f"asks for 4, this machine has {have} and --gpus is 'require'"):
        GpuPool(gpus, GpuPolicy.REQUIRE).lease("a", instances("ml.p3.8xlarge", 1))


def test_a_gpu_job_waits_for_another_ones_lease_and_keeps_it_over_a_restart(
    nvidia_smi: Callable[[str], None], make_world: Callable[..., World]
) -> None:
    nvidia_smi(listing(*UUIDS[:1]))
    world = make_world(gpus=GpuPolicy.REQUIRE)
    world.create("a", **gpu("ml.p3.2xlarge"))
    first = world.host("a")
    assert first.plan.hosts[0].gpu_uuids == UUIDS[:1]
    world.create("b", **gpu("ml.p3.2xlarge"))
    until(lambda: world.job("b").secondary is SecondaryStatus.PENDING)
    world.restart()
    until(lambda: world.job("a").launched)
    assert world.job("b").secondary is SecondaryStatus.PENDING
    first.end(0)
    second = world.host("b")
    assert second.plan.hosts[0].gpu_uuids == UUIDS[:1]
    second.end(0)
    world.ended("b")


def test_with_gpus_off_nobody_asks_for_them(
    nvidia_smi: Callable[[str], None], make_world: Callable[..., World], tmp_path: Path
) -> None:
    nvidia_smi(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    world = make_world(gpus=GpuPolicy.OFF)
    world.create("a", **gpu("ml.p3.2xlarge"))
    host = world.host("a")
    assert host.plan.hosts[0].gpu_uuids == ()
    assert not (tmp_path / "asked").exists()


def grouped(*groups: tuple[str, str, int]) -> dict[str, object]:
    """ResourceConfig of a heterogeneous cluster: name, instance type and count of each group."""
    names = ("InstanceGroupName", "InstanceType", "InstanceCount")
    made = [dict(zip(names, group, strict=True)) for group in groups]
    return {"ResourceConfig": {"InstanceGroups": made, "VolumeSizeInGB": 1}}


def test_each_host_gets_the_gpus_of_its_own_instance_type(
    nvidia_smi: Callable[[str], None], make_world: Callable[..., World]
) -> None:
    nvidia_smi(listing(*UUIDS))
    world = make_world(gpus=GpuPolicy.REQUIRE)
    world.create("a", **grouped(("data", "ml.m5.large", 1), ("train", "ml.p3.2xlarge", 3)))
    plan = world.host("a").plan
    assert [host.gpu_uuids for host in plan.hosts] == [(), UUIDS[:1], UUIDS[1:2], UUIDS[2:3]]
    world.create("b", **grouped(("train", "ml.p3.2xlarge", 2)))
    until(lambda: world.job("b").secondary is SecondaryStatus.PENDING)
    for host in world.all_hosts("a"):
        host.end(0)
    assert [host.gpu_uuids for host in world.host("b").plan.hosts] == [UUIDS[:1], UUIDS[1:2]]
    for host in world.all_hosts("b"):
        host.end(0)
    world.ended("b")


def test_what_stands_in_for_several_groups_names_those_with_gpus() -> None:
    groups = (*instances("ml.m5.large", 3), *instances("ml.p3.8xlarge", 2), *instances("ml.g5.xlarge", 1))
    lease = GpuPool((), GpuPolicy.AUTO).lease("a", groups)
    assert lease == Lease(
        stand_in="CPU workers stand in for 9 GPUs of 2 ml.p3.8xlarge + 1 ml.g5.xlarge: this machine has no GPU"
    )
