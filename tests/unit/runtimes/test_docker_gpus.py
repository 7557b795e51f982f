"""What Docker is asked for a host that was leased GPUs, and for one that was not."""

from pathlib import Path

from sagelet_engine.model.runtime import HostPlan, LaunchPlan
from sagelet_engine.runtimes.docker import spec

UUIDS = ("GPU-00000000-0000-0000-0000-000000000000", "GPU-11111111-0000-0000-0000-000000000000")


def test_a_host_gets_the_gpus_of_its_lease_and_no_others() -> None:
    hosts = tuple(
        HostPlan(f"algo-{number}", Path("/data"), Path("/run"), gpu_uuids=gpus)
        for number, gpus in enumerate(((UUIDS[0],), (UUIDS[1],), ()), 1)
    )
    plan = LaunchPlan("id", "name", "image", hosts)
    shell = spec.Shell(user=None, read_only=True, log_bytes=2**20)
    asked = [spec.host_config(plan, host, {}, "network", shell).get("device_requests") for host in hosts]
    assert asked == [
        [{"Driver": "", "DeviceIDs": [UUIDS[0]], "Capabilities": [["gpu"]]}],
        [{"Driver": "", "DeviceIDs": [UUIDS[1]], "Capabilities": [["gpu"]]}],
        None,
    ]
    visible = [spec.environment(plan, host, shell).get("NVIDIA_VISIBLE_DEVICES") for host in hosts]
    assert visible == [None, None, "void"], "an nvidia default runtime would give a host without a lease all GPUs"
    assert not spec.host_config(plan, hosts[0], {}, "network", shell)["privileged"]
