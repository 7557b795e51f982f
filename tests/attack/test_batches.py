"""Slurm without a shared file system: somebody with a job's credentials makes batches of any kind, and stays that job.

The server is real, and so are its S3, its signatures and what takes the batches in; the nodes are directories here.
"""

import json
import os
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.data.end_notes import end_notes
from sagelet_engine.model import verdict
from sagelet_engine.model.batch_keys import BatchKey, job_may, staging_bucket
from sagelet_engine.model.principal import owner
from sagelet_engine.runtimes.node import host_end
from sagelet_engine.runtimes.slurm.file_sync import agent as agent
from sagelet_engine.runtimes.slurm.file_sync.batches import allocation_manifest
from sagelet_engine.runtimes.slurm.file_sync.s3 import EndpointAway
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.batches import Made, Remote, end, file, link, output, packed, special
from support.server import SageletProcess, until
from support.slurm_cluster import SlurmCluster
from support.slurm_server import SlurmJobs

SECRET = "the key pair"
#: A link by whose letters `UP/..` is within, and which is not: it leads to the host's directory.
UP, COMPUTING = "opt-ml/a/b/c/up", "../../../.."


@pytest.fixture(scope="module")
def bridge() -> MotoBridge:
    return MotoBridge()


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path / "server", bridge, auth=True) as running:
        yield running


@pytest.fixture
def attacker(world: ApiWorld, tmp_path: Path) -> Remote:
    remote = Remote(world, tmp_path, "one")
    (remote.data / "credentials").write_text(SECRET)
    return remote


@pytest.fixture
def other(world: ApiWorld, attacker: Remote, tmp_path: Path) -> Remote:
    """Another job of the same server."""
    return Remote(world, tmp_path, "two", beside=attacker)


def code(call: Callable[..., Any], **parameters: Any) -> str:
    try:
        call(**parameters)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


def reason(remote: Remote) -> str:
    """The job's FailureReason, as its host is now."""
    found = host_end.ended(remote.root / "run")
    assert found is not None
    failure = remote.root / "opt-ml/output/failure"
    return verdict.judge(remote.job, {"algo-1": found[0]}, {"algo-1": end_notes(failure)}).failure_reason or ""


# --- rights ---------------------------------------------------------------------------------------------------------


def test_a_job_writes_what_comes_up_and_reads_what_goes_down_and_no_more(attacker: Remote) -> None:
    attacker.begin()
    s3, bucket = attacker.client(), attacker.bucket
    sent = attacker.key("algo-1/down/00000001.tar")
    before = s3.get_object(Bucket=bucket, Key=sent)["Body"].read()
    attacker.put("algo-1/up/00000001.tar", packed())
    came = attacker.key("algo-1/up/00000001.tar")
    refused = {
        "replace what was sent": lambda: code(s3.put_object, Bucket=bucket, Key=sent, Body=b"x"),
        "send in its name": lambda: code(
            s3.put_object, Bucket=bucket, Key=attacker.key("algo-1/down/00000002.tar"), Body=b"x"
        ),
        "by a copy": lambda: code(s3.copy_object, Bucket=bucket, Key=sent, CopySource=f"{bucket}/{sent}"),
        "in parts": lambda: code(s3.create_multipart_upload, Bucket=bucket, Key=sent),
        "delete": lambda: code(s3.delete_object, Bucket=bucket, Key=sent),
        "delete many": lambda: code(s3.delete_objects, Bucket=bucket, Delete={"Objects": [{"Key": sent}]}),
        "tag": lambda: code(
            s3.put_object_tagging, Bucket=bucket, Key=sent, Tagging={"TagSet": [{"Key": "k", "Value": "v"}]}
        ),
        "read what came": lambda: code(s3.get_object, Bucket=bucket, Key=came),
        "list": lambda: code(s3.list_objects_v2, Bucket=bucket),
        "delete all": lambda: code(s3.delete_bucket, Bucket=bucket),
    }
    answers = {what: call() for what, call in refused.items()}
    assert {what: answer for what, answer in answers.items() if answer != "AccessDenied"} == {}
    assert s3.get_object(Bucket=bucket, Key=sent)["Body"].read() == before


@pytest.mark.parametrize(
    "name",
    ["up/00000001.tar", "algo-1/up/1.tar", "algo-1/up/x.tar", "algo-1/up/00000001.tar/x", "algo-0/up/00000001.tar",
     "algo-1/../algo-1/up/00000001.tar", "algo-1/sideways/00000001.tar", "algo-1/up/00000001.tar ", "x",
     "algo-1/up/\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0661.tar"],
)  # fmt: skip
def test_what_is_no_name_of_a_batch_is_nobodys_to_write(attacker: Remote, name: str) -> None:
    assert BatchKey.parse(attacker.key(name)) is None
    assert not job_may("s3:PutObject", attacker.key(name), attacker.job.launch_id)
    assert code(attacker.client().put_object, Bucket=attacker.bucket, Key=attacker.key(name), Body=b"") != ""


def test_batches_of_another_job_and_another_account_are_out_of_reach(attacker: Remote, other: Remote) -> None:
    s3, theirs = attacker.client(), other.key("algo-1/up/00000001.tar")
    assert code(s3.put_object, Bucket=attacker.bucket, Key=theirs, Body=b"") == "AccessDenied"
    elsewhere = staging_bucket("999999999999")
    attacker.world.sagelet.s3.objects.make_bucket(owner("999999999999"), REGION, elsewhere)
    mine = attacker.key("algo-1/up/00000001.tar")
    assert code(s3.put_object, Bucket=elsewhere, Key=mine, Body=b"") == "AccessDenied"


# --- batches up -----------------------------------------------------------------------------------------------------


def test_output_that_is_a_link_puts_no_file_of_the_servers_into_the_log(attacker: Remote) -> None:
    """The attack as it was found: it reads the key pair through a chain of links."""
    attacker.post(1, link(UP, COMPUTING), link(".output", f"{UP}/../../credentials"))
    attacker.file_sync.collect()
    assert SECRET not in attacker.text("run/output.log")
    assert reason(attacker).startswith("ClientError: algo-1: what the node of algo-1 sent cannot be taken: ")


def test_a_chain_of_links_leads_to_no_file_of_the_servers(attacker: Remote) -> None:
    """The attack as it was found: the output's own file is a link, and printed lines go through it."""
    out = f"{UP}/../../credentials"
    attacker.post(1, link(UP, COMPUTING), link("run/output.log", out), output(b"written", 0))
    attacker.file_sync.collect()
    assert (attacker.data / "credentials").read_text() == SECRET
    assert not (attacker.root / "run/output.log").is_symlink()
    assert "cannot be taken" in reason(attacker)


def test_links_of_several_batches_lead_nowhere_together(attacker: Remote) -> None:
    """Each alone stays within; a directory of the first becomes a link by the second."""
    attacker.post(1, special("opt-ml/model/d", tarfile.DIRTYPE), link("opt-ml/model/l", "d/../../../../../credentials"))
    attacker.file_sync.collect()
    attacker.post(2, link("opt-ml/model/d", "../output"), file("opt-ml/model/l", b"written"))
    attacker.file_sync.collect()
    assert (attacker.data / "credentials").read_text() == SECRET
    for path in attacker.root.rglob("*"):
        assert path.resolve().is_relative_to(attacker.root.resolve())


def test_links_of_a_model_still_come(attacker: Remote) -> None:
    attacker.post(1, file("opt-ml/model/net/w", b"w"), link("opt-ml/model/last", "net/w"),
                  link("opt-ml/model/net/up", "../../output"))  # fmt: skip
    attacker.file_sync.collect()
    assert attacker.text("opt-ml/model/last") == "w"
    assert os.readlink(attacker.root / "opt-ml/model/net/up") == "../../output"


DEEP = b"[" * 100_000 + b"]" * 100_000
BAD: dict[str, tuple[Made, ...]] = {
    "output without its place": (file(".output"),),
    "output at no number": (file(".output", b"x", **{"SAGELET.offset": "-1"}),),
    "output far behind its end": (output(b"x", 2**60),),
    "output that is a device": (special(".output", tarfile.CHRTYPE),),
    "deleted, no JSON": (file(".deleted.json", b"["),),
    "deleted, not UTF-8": (file(".deleted.json", b'["\xff"]'),),
    "deleted, no list": (file(".deleted.json", b'{"a": 1}'),),
    "deleted, no names": (file(".deleted.json", b"[1]"),),
    "deleted, too deep": (file(".deleted.json", DEEP),),
    "deleted outside": (file(".deleted.json", b'["opt-ml/../../../credentials"]'),),
    "end, no JSON": (file("run/exit.json", b"no"),),
    "end, no object": (file("run/exit.json", b"[]"),),
    "end without a field": (file("run/exit.json", b'{"error": null, "finished_ms": 1}'),),
    "end of another type": (end(exit_code="0"),),
    "end, true": (end(exit_code=True),),
    "end, far away": (end(finished_ms=2**80),),
    "end that heard a number": (end(heard=1),),
    "end that is a link": (link("run/exit.json", "../opt-ml/model/x"),),
    "end that is a directory": (special("run/exit.json", tarfile.DIRTYPE),),
    "too long a word": (file("run/started.json", b" " * (2**20 + 1)),),
    "left out, no reason": (file("run/left-out.json", b'{"model/x": "none"}'),),
    "left out, no names": (file("run/left-out.json", b"[]"),),
    "left out, too deep": (file("run/left-out.json", DEEP),),
    "left out, a list for a reason": (file("run/left-out.json", b'{"x": []}'),),
    "plan": (file("run/plan.json"),),
    "control": (file("run/control", b"K"),),
    "input": (file("opt-ml/input/data/train/a.txt"),),
    "code": (file("opt-ml/code/train.py"),),
    "another file of the server's": (file("checkpoints.json"),),
    "another host's": (file("../two/opt-ml/model/x"),),
    "host's directory as a link": (link("run", "opt-ml"),),
    "opt-ml as a link": (link("opt-ml", "run"),),
    "link out": (link("opt-ml/model/l", "../../../x"),),
    "absolute link": (link("opt-ml/model/l", "/etc"),),
    "link by letters": (link("opt-ml/model/l", "d/../../x"),),
    "hard link": (special("opt-ml/model/l", tarfile.LNKTYPE, "run/exit.json"),),
    "pipe": (special("opt-ml/model/p", tarfile.FIFOTYPE),),
    "device": (special("opt-ml/model/p", tarfile.BLKTYPE),),
    "file in a file's place": (file("opt-ml/model/f"), file("opt-ml/model/f/g")),
    "name too long": (file("opt-ml/model/" + "n" * 300),),
    "path too long": (file("opt-ml/model/" + "d/" * 4000 + "f"),),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_batch_fails_its_own_job_and_others_go_on(attacker: Remote, other: Remote, case: str) -> None:
    attacker.post(1, *BAD[case])
    _taken_by_others(attacker, other)


@pytest.mark.parametrize("content", [b"", b"x" * 2000, packed(file("opt-ml/model/f", b"x" * 5000))[:3000]])
def test_what_is_no_tar_file_fails_its_own_job(attacker: Remote, other: Remote, content: bytes) -> None:
    attacker.put("algo-1/up/00000001.tar", content)
    _taken_by_others(attacker, other)


def test_a_bomb_fails_its_own_job(attacker: Remote, other: Remote) -> None:
    """A file of 2**50 bytes, all holes."""
    block = bytearray(special("opt-ml/model/holes", tarfile.GNUTYPE_SPARSE)[0].tobuf(tarfile.GNU_FORMAT))
    block[483:495] = b"\x80" + (2**50).to_bytes(11, "big")
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    attacker.put("algo-1/up/00000001.tar", bytes(block) + bytes(1024))
    _taken_by_others(attacker, other)


def test_a_gap_in_the_numbers_fails_its_own_job(attacker: Remote, other: Remote) -> None:
    attacker.post(3, file("opt-ml/model/x"))
    _taken_by_others(attacker, other)
    assert "batch 3 came before batch 1" in reason(attacker)


def _taken_by_others(attacker: Remote, other: Remote) -> None:
    other.post(1, file("opt-ml/model/w", b"weights"), output(b"line\n", 0), end())
    before = _outside(attacker)
    attacker.file_sync.collect()
    assert other.text("opt-ml/model/w") == "weights"
    assert other.text("run/output.log") == "line\n"
    assert other.said()["exit_code"] == 0
    assert attacker.said()["refused"]
    assert reason(attacker).startswith("ClientError: algo-1: what the node of algo-1 sent cannot be taken: ")
    assert _outside(attacker) == before
    # It is over: what comes later is not even looked at, and nothing is left.
    attacker.post(2, file("opt-ml/model/later"))
    attacker.post(4, file("opt-ml/model/later"))
    attacker.file_sync.collect()
    assert not attacker.text("opt-ml/model/later")
    listed = attacker.world.sagelet.s3.objects.list(owner(ACCOUNT), attacker.bucket, "")
    assert [found.key for found in listed if "/up/" in found.key] == []


def _outside(attacker: Remote) -> dict[str, str]:
    """What is the server's own, and what a job has no business with."""
    own = [attacker.data / "credentials", attacker.root / "run/plan.json", attacker.root / "run/output.log",
           attacker.root / "opt-ml/input/data/train/a.txt"]  # fmt: skip
    return {str(path): path.read_text() for path in own}


@pytest.mark.parametrize(
    "member",
    [file("go.json", b'{"run_dirs": ["/tmp"]}'), file("job.json", b'{"number": 1}'), file("controls"),
     link("nodes", "../../credentials"), link("slurm.log", "../../credentials"), file("lock"), file("x")],
    ids=lambda made: made[0].name,
)  # fmt: skip
def test_a_script_sends_what_it_knows_of_its_nodes_and_nothing_else(
    attacker: Remote, other: Remote, member: Made
) -> None:
    """The number of its job in Slurm and where its hosts are is the server's to say."""
    attacker.post(1, member, host="allocation")
    other.post(1, file("nodes", b"node-1\n"), special("claimed", tarfile.DIRTYPE), host="allocation")
    attacker.file_sync.collect()
    assert os.listdir(attacker.allocation) == []
    assert sorted(os.listdir(other.allocation)) == ["claimed", "nodes"]
    failed = attacker.file_sync.route(attacker.job.launch_id, "allocation").failed
    assert "what the node of allocation sent cannot be taken" in failed
    assert failed in reason(attacker)


# --- on the node ----------------------------------------------------------------------------------------------------


@pytest.fixture
def syncing(attacker: Remote) -> agent.FileSyncAgent:
    """A node that has its inputs, and on which the job can write."""
    made = attacker.agent()
    (attacker.node / "secret").write_text(SECRET)
    return made


def test_what_comes_down_is_not_written_through_a_link(attacker: Remote, syncing: agent.FileSyncAgent) -> None:
    run = attacker.node / attacker.base / "run"
    assert (run / "plan.json").read_text() == "{}"
    run.rename(run.with_name("gone"))
    run.symlink_to(attacker.node)
    attacker.tell("T")
    with pytest.raises(EndpointAway, match="not a directory"):
        syncing.receive()
    assert not (attacker.node / "control").exists()


def test_what_goes_up_is_not_read_through_a_link(attacker: Remote, syncing: agent.FileSyncAgent) -> None:
    host = attacker.node / attacker.base
    (host / "run/output.log").unlink()
    (host / "run/output.log").symlink_to(attacker.node / "secret")
    (host / "run/exit.json").symlink_to(attacker.node / "secret")
    (host / "opt-ml/model").rmdir()
    (host / "opt-ml/model").symlink_to(attacker.node)
    (host / "opt-ml/checkpoints/l").symlink_to("../up/../../../secret")
    (host / "opt-ml/up").symlink_to("checkpoints")
    syncing.send(last=True)
    attacker.file_sync.collect()
    for path in attacker.root.rglob("*"):
        assert not path.is_file() or SECRET not in path.read_text()
        assert path.name != "secret"


def test_the_node_and_the_server_go_by_one_list() -> None:
    manifest = allocation_manifest("slurm/x")
    assert json.loads(json.dumps(list(manifest.words))) == ["nodes", "addresses", "claimed", "ending"]


# --- over a cluster -------------------------------------------------------------------------------------------------

#: Within a job, from a channel: what its own credentials let it do with its batches.
PROGRAM = """
import boto3, io, os, tarfile, time
s3, launch = boto3.client("s3"), os.environ["SAGELET_JOB_ID"]
bucket = "sagelet-staging-123456789012"
def attempt(what, **call):
    try:
        getattr(s3, what)(Bucket=bucket, **call)
        print(what, "done", flush=True)
    except Exception as error:
        print(what, getattr(error, "response", {}).get("Error", {}).get("Code", error), flush=True)
attempt("put_object", Key=launch + "/algo-1/down/00000002.tar", Body=b"x")
attempt("delete_object", Key=launch + "/allocation/down/00000001.tar")
out = io.BytesIO()
with tarfile.open(fileobj=out, mode="w") as archive:
    up = "opt-ml/a/b/c/up"
    for name, target in ((up, "../../../.."), (".output", up + "/.." * 6 + "/credentials")):
        member = tarfile.TarInfo(name)
        member.type, member.linkname = tarfile.SYMTYPE, target
        archive.addfile(member)
print("ready", flush=True)
for number in range(1, 40):
    s3.put_object(Bucket=bucket, Key=launch + "/algo-1/up/%08d.tar" % number, Body=out.getvalue())
time.sleep(600)
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server") / "data"


@pytest.fixture(scope="module")
def server(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SageletProcess]:
    data.mkdir()
    cluster = SlurmCluster(tmp_path_factory.mktemp("cluster"), private=data)
    options = ("--runtime", "slurm", "--slurm-files", "s3", "--slurm-address", "localhost", "--auth")
    try:
        cluster.start()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in cluster.environment.items():
                patch.setenv(name, value)
            server = SageletProcess(data, *options).start()
            yield server
            server.stop()
    finally:
        cluster.stop()


@pytest.mark.slurm
def test_a_job_that_forges_its_batches_fails_and_the_others_of_the_cluster_go_on(
    server: SageletProcess, tmp_path: Path
) -> None:
    jobs, go = SlurmJobs(server), tmp_path / "go"
    neighbour = jobs.run("echo ready; while [ ! -e {go} ]; do sleep 0.1; done; echo w > /opt/ml/model/w", go)
    jobs.training(neighbour)
    jobs.s3.put_object(Bucket="tests", Key="attack/program.py", Body=PROGRAM.encode())
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://tests/attack"}}
    name = jobs.run(
        "/opt/ml/input/data/attack/program.py",
        shell=(sys.executable,),
        InputDataConfig=[{"ChannelName": "attack", "DataSource": source}],
    )
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("ClientError: algo-1: what the node of algo-1 sent cannot be taken: ")
    lines = jobs.lines(name)
    assert [line for line in lines if line.startswith(("put_object", "delete_object"))] in (
        [], ["put_object AccessDenied", "delete_object AccessDenied"],
    )  # fmt: skip
    keys = (server.data / "credentials").read_text()
    assert not any(line and line in keys for line in lines if len(line) > 10)
    go.touch()
    job = jobs.ended(neighbour)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    until(lambda: (server.data / "credentials").read_text() == keys)
