"""Channels in File and FastFile mode: which objects, for which host, in which order; what the container reads of it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.base.errors import ClientFault
from sagelet_engine.base.keys import KeyPair
from sagelet_engine.data import inputconfig
from sagelet_engine.data.channels.dealing import dealt, shuffled
from sagelet_engine.data.layout import HostDirectories, JobDirectories
from sagelet_engine.data.staging import Stager
from sagelet_engine.execution.launch import Endpoint
from sagelet_engine.execution.training_launch import launch_plan
from sagelet_engine.model.training import TrainingJob
from support.channels import channel, job_with, manifest
from support.fakes import FakeClock, FakeObjects, FakeRuntime

Stage = Callable[[TrainingJob], list[HostDirectories]]


@pytest.fixture
def objects(tmp_path: Path) -> FakeObjects:
    store = FakeObjects(tmp_path / "s3")
    for name in ("d/a", "d/b", "d/c", "d/deep/e", "other/f"):
        store.put("in", name, name.encode())
    return store


@pytest.fixture
def stage(objects: FakeObjects, tmp_path: Path) -> Stage:
    def run(job: TrainingJob) -> list[HostDirectories]:
        hosts = [JobDirectories(tmp_path / "job").host(name) for name in job.hosts]
        for name, host in zip(job.hosts, hosts, strict=True):
            Stager(objects, job).stage(host)
            inputconfig.write(job, name, host)
        return hosts

    return run


def names(directory: Path) -> list[str]:
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


# --- manifests ------------------------------------------------------------------------------------------------------


def test_a_manifest_names_the_objects_of_its_channel(objects: FakeObjects, stage: Stage) -> None:
    objects.put("lists", "m.json", manifest("s3://in/d/", "deep/e", "b"))
    (host,) = stage(job_with(channel("s3://lists/m.json", kind="ManifestFile")))
    assert names(host.channels / "training") == ["b", "deep/e"]
    assert (host.channels / "training/deep/e").read_bytes() == b"d/deep/e"
    assert lines(host.channels / "training-manifest") == ["d/", "s3://in/d/deep/e", "s3://in/d/b"]


@pytest.mark.parametrize(
    "content",
    [
        b"no json",
        b"{}",
        b"[]",
        b'["a"]',
        b"5",
        b'[{"prefix": 5}, "a"]',
        b'[{"prefix": "https://in/d/"}, "a"]',
        manifest("s3://in/d/"),
        b'[{"prefix": "s3://in/d/"}, 5]',
        b'[{"prefix": "s3://in/d/"}, ""]',
        b"[" * 100_000,
    ],
)
def test_a_bad_manifest_is_the_clients_fault(objects: FakeObjects, stage: Stage, content: bytes) -> None:
    objects.put("lists", "m.json", content)
    with pytest.raises(ClientFault, match=r"^Data download failed:the manifest s3://lists/m\.json is not valid: "):
        stage(job_with(channel("s3://lists/m.json", kind="ManifestFile")))


@pytest.mark.parametrize(
    ("name", "content", "missing"),
    [("none", b"", "s3://lists/none"), ("m", manifest("s3://in/d/", "a", "z"), "s3://in/d/z")],
)
def test_an_object_that_is_not_there_is_named(
    objects: FakeObjects, stage: Stage, name: str, content: bytes, missing: str
) -> None:
    objects.put("lists", "m", content)
    with pytest.raises(ClientFault, match=f"the object {missing} does not exist"):
        stage(job_with(channel(f"s3://lists/{name}", kind="ManifestFile")))


def test_a_manifest_cannot_place_a_file_outside_of_its_channel(objects: FakeObjects, stage: Stage) -> None:
    objects.put("lists", "m.json", manifest("s3://in/", "d/../../../x"))
    with pytest.raises(ClientFault, match="does not make a file name"):
        stage(job_with(channel("s3://lists/m.json", kind="ManifestFile")))


# --- shares and order -----------------------------------------------------------------------------------------------


def test_sharded_objects_are_dealt_out_and_the_manifest_has_all(stage: Stage) -> None:
    sharded = channel("s3://in/d", S3DataDistributionType="ShardedByS3Key")
    first, second = stage(job_with(sharded, hosts=2))
    assert names(first.channels / "training") == ["a", "c"]
    assert names(second.channels / "training") == ["b", "deep/e"]
    everything = ["d", "s3://in/d/a", "s3://in/d/b", "s3://in/d/c", "s3://in/d/deep/e"]
    assert lines(first.channels / "training-manifest") == lines(second.channels / "training-manifest") == everything


def test_one_host_alone_gets_all_shards_and_replicas_are_whole(stage: Stage) -> None:
    (host,) = stage(job_with(channel("s3://in/d", S3DataDistributionType="ShardedByS3Key")))
    assert len(names(host.channels / "training")) == 4
    for replica in stage(job_with(channel("s3://in/d"), hosts=2)):
        assert len(names(replica.channels / "training")) == 4


def test_more_hosts_than_objects_leave_a_channel_empty_but_there(stage: Stage) -> None:
    sharded = channel("s3://in/other", S3DataDistributionType="ShardedByS3Key")
    hosts = stage(job_with(sharded, hosts=2))
    assert [names(host.channels / "training") for host in hosts] == [["f"], []]
    assert (hosts[1].channels / "training").is_dir()


def test_a_seed_shuffles_the_objects_alike_on_every_host(stage: Stage) -> None:
    config = channel("s3://in/d", S3DataDistributionType="ShardedByS3Key", ShuffleConfig={"Seed": 3})
    hosts = stage(job_with(config, hosts=2))
    listed = lines(hosts[0].channels / "training-manifest")[1:]
    assert listed != sorted(listed)
    shares = [names(host.channels / "training") for host in hosts]
    keys = [url.removeprefix("s3://in/d/") for url in listed]
    assert shares == [sorted(keys[::2]), sorted(keys[1::2])]


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    items = range(50)
    assert shuffled(items, None, 0) is items
    orders = {tuple(shuffled(items, seed, epoch)) for seed in (1, 2) for epoch in (0, 1)}
    assert len(orders) == 4
    assert all(sorted(order) == list(items) for order in orders)
    # For good, on every Python: jobs of old are to be repeatable.
    assert list(shuffled(range(8), 7, 0)) == [7, 1, 6, 5, 4, 2, 3, 0]


@pytest.mark.parametrize("hosts", [1, 2, 3, 7])
def test_shares_are_disjoint_and_complete(hosts: int) -> None:
    shares = [dealt(range(5), host, hosts) for host in range(hosts)]
    assert sorted(item for share in shares for item in share) == list(range(5))


# --- FastFile and compression ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["s3://in/d", "s3://in/d/", "s3://in/d/a", "s3://in", "s3://in/"])
def test_fast_file_takes_whole_folders_and_files(stage: Stage, url: str) -> None:
    (host,) = stage(job_with(channel(url, mode="FastFile")))
    found = [path for path in (host.channels / "training").rglob("*") if path.is_file()]
    assert found
    assert {path.stat().st_mode & 0o777 for path in found} == {0o444}
    assert not (host.channels / "training-manifest").exists()


def test_fast_file_refuses_a_partial_prefix_in_the_words_of_aws(objects: FakeObjects, stage: Stage) -> None:
    objects.put("in", "d-old/x", b"")
    with pytest.raises(ClientFault) as refused:
        stage(job_with(channel("s3://in/d", mode="FastFile")))
    assert str(refused.value) == (
        "Data download failed:Failed to download data. For FastFile mode, partial S3 prefix is not supported. "
        "S3 prefix has to end with a full file or folder. Add a trailing '/' to the S3 prefix if it ends with a folder "
        "name that is also a prefix for other folders. Current S3 prefix: [d], found S3 object: [d-old/x]."
    )
    assert stage(job_with(channel("s3://in/d", mode="File")))


def test_staging_again_replaces_read_only_files(stage: Stage) -> None:
    job = job_with(channel("s3://in/d/", mode="FastFile"))
    stage(job)
    (host,) = stage(job)
    assert names(host.channels / "training") == ["a", "b", "c", "deep/e"]


def test_the_runtime_is_told_what_is_read_only(tmp_path: Path) -> None:
    job = job_with(channel("s3://in/d", "fast", "FastFile"), channel("s3://in/d", "slow"))
    plan = launch_plan(
        replace(job, image="i"),
        JobDirectories(tmp_path),
        FakeRuntime(FakeClock()),
        Endpoint(1, KeyPair("AKIA", "secret")),
    )
    assert [host.read_only for host in plan.hosts] == [("input/data/fast",)]


def test_file_mode_decompresses_nothing_as_on_aws(objects: FakeObjects, stage: Stage) -> None:
    objects.put("in", "z/a.gz", b"\x1f\x8b...")
    (host,) = stage(job_with(channel("s3://in/z", CompressionType="Gzip", RecordWrapperType="RecordIO")))
    assert (host.channels / "training/a.gz").read_bytes() == b"\x1f\x8b..."


# --- configuration files --------------------------------------------------------------------------------------------


def config(host: HostDirectories, name: str) -> Any:
    return json.loads((host.config / f"{name}.json").read_text())


def test_checkpoints_have_a_manifest_too(objects: FakeObjects, stage: Stage) -> None:
    objects.put("ck", "run/1", b"")
    (host,) = stage(job_with(channel("s3://in/d"), CheckpointConfig={"S3Uri": "s3://ck/run"}))
    assert lines(host.channels / "checkpoints-manifest") == ["run", "s3://ck/run/1"]


def test_checkpoints_of_a_uri_without_a_slash_are_those_of_its_prefix_as_on_aws(
    objects: FakeObjects, stage: Stage
) -> None:
    """Of two objects with the same place the directory's own counts."""
    for name in ("run/1", "run-10/2", "run/run-10/2", "run.txt", "ran/3"):
        objects.put("ck", name, name.encode())
    (host,) = stage(job_with(channel("s3://in/d"), CheckpointConfig={"S3Uri": "s3://ck/run"}))
    here = host.opt_ml / "checkpoints"
    restored = {str(one.relative_to(here)): one.read_text() for one in here.rglob("*") if one.is_file()}
    assert restored == {"1": "run/1", "run-10/2": "run/run-10/2", "run.txt": "run.txt"}
    (host,) = stage(job_with(channel("s3://in/d"), CheckpointConfig={"S3Uri": "s3://ck/run/"}))
    assert sorted(one.name for one in here.iterdir()) == ["1", "run-10"]


def test_init_config_reads_as_in_a_real_container(stage: Stage) -> None:
    """The expected text is that of github.com/shiftan/simple_sagemaker, examples/single_task (names shortened)."""
    sharded = channel("s3://in/d", "data", S3DataDistributionType="ShardedByS3Key")
    checkpoint = {"S3Uri": "s3://ck/state", "LocalPath": "/opt/ml/state"}
    first, _ = stage(job_with(sharded, hosts=2, CheckpointConfig=checkpoint))
    assert config(first, "init-config") == json.loads(
        '{"inputMode":"FILE","channels":{"data":{"s3DataSource":{"s3DataType":"S3_PREFIX","s3Uri":"s3://in/d",'
        '"s3DataDistributionType":"SHARDED_BY_S3_KEY","attributeNames":null},"fileSystemDataSource":null,'
        '"compressionType":"NONE","recordWrapper":"NONE","shuffleConfig":null,"inputMode":"FILE","sharded":true}},'
        '"checkpointChannel":{"name":"checkpoints","channel":{"s3DataSource":{"s3DataType":"S3_PREFIX",'
        '"s3Uri":"s3://ck/state","s3DataDistributionType":null,"attributeNames":null},"fileSystemDataSource":null,'
        '"compressionType":null,"recordWrapper":null,"shuffleConfig":null,"inputMode":"FILE","sharded":false},'
        '"outputPath":"/opt/ml/checkpoints","allowEmpty":true},"hostConfig":{"clusterSize":2,"hostNumber":1},'
        '"enableAdditionalPlatformLoggingForCustomer":false,"jobRunInfo":{"jobRunNumber":1}}'
    )


def test_training_job_config_is_the_request_with_its_defaults(stage: Stage) -> None:
    (host,) = stage(job_with(channel("s3://in/d", "data", S3DataDistributionType="ShardedByS3Key")))
    read = config(host, "trainingjobconfig")
    assert read["InputDataConfig"] == [
        {
            "ChannelName": "data",
            "DataSource": {
                "S3DataSource": {
                    "S3DataType": "S3_PREFIX",
                    "S3Uri": "s3://in/d",
                    "S3DataDistributionType": "SHARDED_BY_S3_KEY",
                }
            },
            "CompressionType": "NONE",
            "RecordWrapperType": "NONE",
            "InputMode": "FILE",
        }
    ]
    assert read["AlgorithmSpecification"]["TrainingInputMode"] == "File"
    assert read["AlgorithmSpecification"]["MetricDefinitions"] == []
    assert read["OutputDataConfig"]["KmsKeyId"] == ""
    assert read["EnableManagedSpotTraining"] is False
    assert read["TrainingJobArn"] == "arn:aws:sagemaker:us-east-1:123456789012:training-job/one"
    assert "Tags" not in read


def test_files_of_the_debugger_are_there_when_the_request_configures_it(stage: Stage) -> None:
    (host,) = stage(
        job_with(
            channel("s3://in/d"),
            DebugHookConfig={"S3OutputPath": "s3://out/debug"},
            TensorBoardOutputConfig={"S3OutputPath": "s3://out/tb"},
            ProfilerConfig={"S3OutputPath": "s3://out/p", "ProfilingIntervalInMilliseconds": 500},
        )
    )
    assert config(host, "debughookconfig") == {
        "S3OutputPath": "s3://out/debug",
        "LocalPath": "/opt/ml/output/tensors",
        "HookParameters": None,
        "CollectionConfigurations": None,
    }
    assert config(host, "tensorboardoutputconfig") == {
        "S3OutputPath": "s3://out/tb",
        "LocalPath": "/opt/ml/output/tensorboard/",
    }
    assert config(host, "profilerconfig")["ProfilingIntervalInMilliseconds"] == 500


def test_files_that_every_container_has_and_no_others(stage: Stage) -> None:
    (host,) = stage(job_with(channel("s3://in/d"), ProfilerConfig={"DisableProfiler": True}))
    assert names(host.config) == [
        "hyperparameters.json",
        "init-config.json",
        "inputdataconfig.json",
        "metric-definition-regex.json",
        "resourceconfig.json",
        "trainingjobconfig.json",
        "upstreamoutputdataconfig.json",
    ]
    assert config(host, "upstreamoutputdataconfig") == []
    assert config(host, "inputdataconfig")["training"]["TrainingInputMode"] == "File"


def test_the_content_type_is_in_the_configuration(stage: Stage) -> None:
    (host,) = stage(job_with({**channel("s3://in/d"), "ContentType": "text/csv"}))
    assert config(host, "inputdataconfig")["training"]["ContentType"] == "text/csv"
