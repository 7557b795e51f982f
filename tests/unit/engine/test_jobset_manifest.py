"""Kubernetes objects of a launch plan, against recordings: `SAGELET_RECORD=1` writes tests/data/jobset anew.

No cluster has run them. Read what changed against the API references before you commit it.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sagelet_engine.errors import ClientFault
from sagelet_engine.runtimes.jobset_manifest import Demand, Site, manifests, name_of
from sagelet_engine.runtimes.plain_yaml import documents
from sagelet_engine.runtimes.port import HostPlan, LaunchPlan, Mount

RECORDED = Path(__file__).parents[2] / "data" / "jobset"
JOB = "0123456789abcdef0123456789abcdef"
DATA = Path("/srv/sagelet")
ENVIRONMENT = {
    "TRAINING_JOB_NAME": "gpt2-compiled",
    "AWS_ENDPOINT_URL": "https://sagelet.lab.example:4599",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG",
    "SAGELET_JOB_GPUS": "8",
}
SITE = Site("training", DATA, "sagelet-data", owner="3f2a9c0d1e4b")


def host(name: str, **more: Any) -> HostPlan:
    root = DATA / "jobs" / "123456789012" / "us-east-1" / JOB / name
    return HostPlan(name, root / "opt-ml", root / "run", **more)


def plan(*hosts: HostPlan, **changes: Any) -> LaunchPlan:
    whole = LaunchPlan(JOB, "gpt2-compiled", "registry.lab.example/sagelet/training:0.1.0", hosts)
    return replace(whole, environment=ENVIRONMENT, **changes)


def demand(plan: LaunchPlan, *instance_types: str) -> Demand:
    return Demand(dict(zip((one.name for one in plan.hosts), instance_types, strict=True)), 3600)


def two_gpu_hosts() -> list[dict[str, Any]]:
    """Gang-scheduled by Kueue, a node each."""
    pair = plan(host("algo-1"), host("algo-2"))
    site = replace(SITE, queue="gpu-team", exclusive="kubernetes.io/hostname")
    return manifests(pair, demand(pair, "ml.g4dn.12xlarge", "ml.g4dn.12xlarge"), site)


def an_isolated_host() -> list[dict[str, Any]]:
    """EnableNetworkIsolation, an entry point, a FastFile channel, a warm pool's cache, another group's instance."""
    alone = plan(
        host(
            "algo-1",
            read_only=("input/data/train",),
            cache=DATA / "warm-pools" / "c1" / "algo-1",
            memory_bytes=8 * 1024**3,
        ),
        entrypoint=("/bin/sh", "-c"),
        arguments=('echo "yes"; python train.py',),
        network_isolation=True,
    )
    return manifests(alone, demand(alone, "ml.m5.2xlarge"), SITE)


def mixed_groups_with_a_file_system() -> list[dict[str, Any]]:
    fsx = Path("/mnt/fsx")
    mixed = plan(host("algo-1", mounts=(Mount(fsx, "input/data/train", read_only=True),)), host("algo-2"))
    site = replace(SITE, file_systems={fsx: "fsx-lustre"})
    return manifests(mixed, demand(mixed, "ml.c5.xlarge", "ml.p3.8xlarge"), site)


CASES = {one.__name__: one for one in (two_gpu_hosts, an_isolated_host, mixed_groups_with_a_file_system)}


@pytest.mark.parametrize("case", CASES)
def test_manifests_are_as_recorded(case: str) -> None:
    objects = CASES[case]()
    recorded = RECORDED / f"{case}.yaml"
    if os.environ.get("SAGELET_RECORD"):
        recorded.write_text(
            "# Rendered by tests/unit/engine/test_jobset_manifest.py. Not run on any cluster.\n" + documents(objects)
        )
    assert recorded.read_text().split("\n", 1)[1] == documents(objects)
    assert list(yaml.safe_load_all(recorded.read_text())) == objects


def pods(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    jobs = objects[-1]["spec"]["replicatedJobs"]
    return [job["template"]["spec"]["template"]["spec"] for job in jobs]


@pytest.mark.parametrize("case", CASES)
def test_every_pod_is_hardened_as_a_container_of_the_docker_runtime_is(case: str) -> None:
    for pod in pods(CASES[case]()):
        container = pod["containers"][0]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] != 0
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert pod["automountServiceAccountToken"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC", "hostAliases"} & pod.keys()
        assert all("hostPath" not in volume for volume in pod["volumes"])


@pytest.mark.parametrize("case", CASES)
def test_credentials_are_in_the_secret_and_nowhere_else(case: str) -> None:
    secret, *others = CASES[case]()
    assert secret["stringData"]["AWS_SECRET_ACCESS_KEY"] == ENVIRONMENT["AWS_SECRET_ACCESS_KEY"]
    assert ENVIRONMENT["AWS_SECRET_ACCESS_KEY"] not in documents(others)


def test_hosts_have_sagemakers_names_and_find_each_other_by_them() -> None:
    job_set = two_gpu_hosts()[-1]
    subdomain = job_set["spec"]["network"]["subdomain"]
    for pod, name in zip(pods([job_set]), ("algo-1", "algo-2"), strict=True):
        assert pod["hostname"] == name
        assert pod["dnsConfig"]["searches"] == [f"{subdomain}.training.svc.cluster.local"]


def test_names_fit_into_dns_also_of_late_attempts_of_large_jobs() -> None:
    late = replace(plan(host("algo-100")), job_id=f"{JOB}-30")
    assert len(f"{name_of(late)}-algo-100-0-abcde") <= 63


def test_an_isolated_job_reaches_its_own_hosts_and_the_names_and_nothing_else() -> None:
    policy = an_isolated_host()[1]["spec"]
    own, names = policy["egress"]
    assert own == {"to": [policy_peer(policy)]}
    assert {port["port"] for port in names["ports"]} == {53}
    assert "ipBlock" not in documents([policy])


def policy_peer(policy: dict[str, Any]) -> dict[str, Any]:
    return {"podSelector": policy["podSelector"]}


def test_no_job_reaches_the_services_that_hand_out_a_nodes_credentials() -> None:
    anywhere = two_gpu_hosts()[1]["spec"]["egress"][-1]["to"][0]["ipBlock"]
    assert "169.254.169.254/32" in anywhere["except"]


def test_a_file_system_without_a_claim_is_refused_by_name() -> None:
    alone = plan(host("algo-1", mounts=(Mount(Path("/mnt/efs"), "input/data/train", read_only=False),)))
    with pytest.raises(ClientFault, match="/mnt/efs has no claim"):
        manifests(alone, demand(alone, "ml.m5.large"), SITE)


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.sampled_from(["no", "On", "y", "1e3", "~", "a: b", "- x"])
)
#: YAML reads no key that is longer than 1,024 characters, escapes counted.
KEYS = st.text(max_size=40)
TREES = st.recursive(LEAVES, lambda below: st.lists(below) | st.dictionaries(KEYS, below), max_leaves=12)


@settings(max_examples=50)
@given(st.dictionaries(KEYS, TREES))
def test_any_tree_reads_back_as_it_was(tree: dict[str, Any]) -> None:
    assert list(yaml.safe_load_all(documents([tree, tree]))) == [tree, tree]
