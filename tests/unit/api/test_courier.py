"""A host that shares no file system with the server: its directory goes there and back through the endpoint's S3."""

import base64
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.services.moto_bridge import MotoBridge
from sagelet_engine.jobs.session import session_key
from sagelet_engine.runtimes import host_carrier
from sagelet_engine.runtimes.carrier_s3 import EndpointRefuses, Parcels, Ticket
from sagelet_engine.runtimes.courier import Courier, Route, staging_bucket
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.world import until

#: A keeper as far as the carrier knows it: prints, writes and ends when it is told to. `{root}` is its argument.
KEEPER = """
import json, os, pathlib, sys, time
root = pathlib.Path(sys.argv[1]) / "jobs/one"; ml, run = root / "opt-ml", root / "run"
(run / "started.json").write_text(json.dumps({"started_ms": 1, "pid": os.getpid()}))
output = (run / "output.log").open("a", buffering=1)
print((ml / "input/data/train/a.txt").read_text(), file=output)
(ml / "checkpoints/old").unlink()
(ml / "checkpoints/new").write_text("2")
while not (run / "control").exists():
    time.sleep(0.05)
print("told " + (run / "control").read_text(), file=output)
(ml / "model/net").mkdir()
(ml / "model/net/weights").write_bytes(b"w" * 3_000_000)
(ml / "model/link").symlink_to("net/weights")
(ml / "model/outside").symlink_to("/etc/passwd")
(run / "exit.json").write_text(json.dumps({"exit_code": 3, "error": None, "finished_ms": 2}))
sys.exit(3)
"""


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path / "server", bridge, auth=True) as running:
        yield running


HOST = Route(ACCOUNT, REGION, "", "algo-1", "jobs/one", "run/output.log", "run/exit.json")
MANIFEST = host_carrier.Manifest(
    "jobs/one",
    ("run", "opt-ml"),
    kept=("run/plan.json", "run/control", "opt-ml/input"),
    output="run/output.log",
    end="run/exit.json",
    links="opt-ml",
)


class Remote:
    """A job whose one host is a carrier with a data directory of its own: a node."""

    def __init__(self, world: ApiWorld, directory: Path, name: str = "one") -> None:
        self.world = world
        self.job = world.waiting_job(name)
        self.node = directory / f"node-{name}"
        self.node.mkdir()
        self.data = directory / f"data-{name}"
        self.root = self.data / "jobs" / "one"
        self._fill()
        self.courier = self.restarted()
        for host in (HOST, replace(HOST, host=host_carrier.ALLOCATION, base="slurm/one", output="", end="")):
            self.courier.open(replace(host, launch_id=self.job.launch_id))

    def restarted(self) -> Courier:
        return Courier(self.data, self.data / "courier", self.world.s3.objects)

    def _fill(self) -> None:
        for part in ("input/data/train", "checkpoints", "model", "output"):
            (self.root / "opt-ml" / part).mkdir(parents=True)
        (self.root / "run").mkdir()
        (self.root / "opt-ml/input/data/train/a.txt").write_text("from the server")
        (self.root / "opt-ml/checkpoints/old").write_text("1")
        (self.root / "run/output.log").touch()
        (self.root / "run/plan.json").write_text("{}")

    def ticket(self) -> dict[str, str]:
        key = session_key(self.world.engine.keys, self.job.id)
        endpoint = f"http://127.0.0.1:{self.world.port}"
        text = self.courier.ticket(self.job.launch_id, "slurm/one", endpoint, key)
        ticket: dict[str, str] = json.loads(base64.b64decode(text))
        assert ticket["root"] == str(self.data)
        # This node is on the server's machine, so it has its directory at another place.
        return {**ticket, "root": str(self.node)}

    def launch(self) -> "subprocess.Popen[bytes]":
        keeper = [sys.executable, "-c", KEEPER, str(self.node)]
        program = [sys.executable, "-I", "-S", host_carrier.__file__, "host", *keeper]
        text = base64.b64encode(json.dumps(self.ticket()).encode()).decode()
        environment = {"PATH": os.environ["PATH"], "SLURM_NODEID": "0", host_carrier.TICKET: text}
        return subprocess.Popen(program, env=environment, cwd=self.node, stderr=subprocess.PIPE)

    def begin(self) -> None:
        self.courier.send(self.job.launch_id, "algo-1", ["jobs/one/opt-ml", "jobs/one/run"], MANIFEST)

    def tell(self, text: str) -> None:
        (self.root / "run/control").write_text(text)
        self.courier.send(self.job.launch_id, "algo-1", ["jobs/one/run/control"])

    def state(self) -> Path:
        return self.data / "courier" / f"{self.job.launch_id}.algo-1.json"

    def text(self, name: str) -> str:
        path = self.root / name
        return path.read_text() if path.exists() else ""

    def collected(self, condition: Any) -> None:
        until(lambda: (self.courier.collect(), condition())[1])


@pytest.fixture
def remote(world: ApiWorld, tmp_path: Path) -> Remote:
    return Remote(world, tmp_path)


def test_a_directory_goes_to_the_node_and_what_changes_comes_back(remote: Remote) -> None:
    remote.begin()
    carrier = remote.launch()
    remote.collected(lambda: remote.text("opt-ml/checkpoints/new"))
    assert json.loads(remote.text("run/started.json"))["started_ms"] == 1
    assert remote.text("run/output.log") == "from the server\n"
    assert not (remote.root / "opt-ml/checkpoints/old").exists()
    assert not remote.text("run/exit.json")
    # Another server, as after `kill -9`.
    remote.courier = remote.restarted()
    remote.tell("T")
    remote.collected(lambda: remote.text("run/exit.json"))
    assert carrier.wait(120) == 3
    assert json.loads(remote.text("run/exit.json"))["exit_code"] == 3
    assert remote.text("run/output.log") == "from the server\ntold T\n"
    assert (remote.root / "opt-ml/model/net/weights").read_bytes() == b"w" * 3_000_000
    assert os.readlink(remote.root / "opt-ml/model/link") == "net/weights"
    assert not os.path.lexists(remote.root / "opt-ml/model/outside")
    assert not list(remote.node.rglob("one/*"))
    remote.courier.close(remote.job.launch_id)
    assert list(remote.world.s3.objects.list(ACCOUNT, REGION, staging_bucket(ACCOUNT), "")) == []


def test_parcels_that_come_twice_or_were_sent_by_a_killed_server_change_nothing(remote: Remote) -> None:
    remote.begin()
    carrier = remote.launch()
    remote.collected(lambda: remote.text("run/output.log"))
    before, output = remote.state().read_text(), remote.text("run/output.log")
    remote.tell("T")
    # Killed after it sent, before it wrote that down: the next server sends more.
    remote.state().write_text(before)
    remote.tell("TK")
    names = [found.key for found in remote.world.s3.objects.list(ACCOUNT, REGION, staging_bucket(ACCOUNT), "")]
    assert [name.rpartition("/")[2] for name in names if "/down/" in name] == ["00000002.tar", "00000003.tar"]
    remote.collected(lambda: remote.text("run/exit.json"))
    carrier.wait(120)
    assert remote.text("run/output.log").startswith(output)
    assert remote.text("run/output.log").count("from the server") == 1


def test_a_host_reaches_its_own_parcels_only(remote: Remote, world: ApiWorld, tmp_path: Path) -> None:
    other = Remote(world, tmp_path, "two")
    other.begin()
    mine = Ticket(**{key: value for key, value in remote.ticket().items() if key not in ("root", "allocation")})
    theirs = replace(mine, prefix=f"{other.job.launch_id}/")
    assert Parcels(mine).get("algo-1/down/00000001.tar") is None
    with pytest.raises(EndpointRefuses, match="403"):
        Parcels(theirs).get("algo-1/down/00000001.tar")
    with pytest.raises(EndpointRefuses, match="403"):
        Parcels(replace(mine, secret="guessed")).get("algo-1/down/00000001.tar")
    with pytest.raises(EndpointRefuses, match="403"):
        Parcels(replace(mine, bucket=staging_bucket(ACCOUNT), prefix="")).get("")


def test_a_parcel_that_would_leave_the_directory_ends_its_host(remote: Remote, tmp_path: Path) -> None:
    made = tmp_path / "evil.tar"
    with tarfile.open(made, "w") as archive:
        member = tarfile.TarInfo("../../escaped")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    key = f"{remote.job.launch_id}/algo-1/up/00000001.tar"
    remote.world.s3.objects.upload(ACCOUNT, REGION, made, staging_bucket(ACCOUNT), key)
    assert remote.courier.collect() == 1
    assert "cannot be unpacked" in json.loads(remote.text("run/exit.json"))["error"]
    assert not list(tmp_path.rglob("escaped"))
    assert json.loads(remote.state().read_text())["received"] == 1
