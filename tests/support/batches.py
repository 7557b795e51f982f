"""A job whose host shares no file system with the server, and attacks with that job's credentials."""

import base64
import io
import json
import os
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from sagelet_engine.model.batch_keys import ALLOCATION, staging_bucket
from sagelet_engine.model.session import session_key
from sagelet_engine.runtimes.slurm.file_sync import agent as agent
from sagelet_engine.runtimes.slurm.file_sync.batches import OFFSET
from sagelet_engine.runtimes.slurm.file_sync.s3 import Batches, Ticket
from sagelet_engine.runtimes.slurm.file_sync.server import FileSyncServer, Route
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.world import until

#: A stand-in for the shim, as the file sync agent sees it: prints, writes and ends when told to. Its argument is its
#: directory.
SHIM = """
import json, os, pathlib, sys, time
root = pathlib.Path(sys.argv[1]); ml, run = root / "opt-ml", root / "run"
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

HOST = Route(ACCOUNT, REGION, "", "algo-1", "jobs/one", "run/output.log", "run/exit.json")
Made = tuple[tarfile.TarInfo, bytes]


def file(name: str, content: bytes = b"x", **headers: str) -> Made:
    """Makes a member of a batch."""
    info = tarfile.TarInfo(name)
    info.size, info.pax_headers = len(content), headers
    return info, content


def special(name: str, kind: bytes, target: str = "") -> Made:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def link(name: str, target: str) -> Made:
    return special(name, tarfile.SYMTYPE, target)


def output(text: bytes, offset: int) -> Made:
    return file(".output", text, **{OFFSET: str(offset)})


def end(**changes: Any) -> Made:
    return file("run/exit.json", json.dumps({"exit_code": 0, "error": None, "finished_ms": 2, **changes}).encode())


def packed(*members: Made) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


class Remote:
    """A job whose only host is a file sync agent with a data directory of its own, as on a node."""

    def __init__(self, world: ApiWorld, directory: Path, name: str = "one", beside: "Remote | None" = None) -> None:
        """`beside`: another job whose server this one shares."""
        self.world = world
        self.base = f"jobs/{name}"
        self.job = world.waiting_job(name)
        self.node = directory / f"node-{name}"
        self.node.mkdir()
        self.data: Path = directory / f"data-{name}" if beside is None else beside.data
        self.root = self.data / self.base
        self._fill()
        self.file_sync: FileSyncServer = self.restarted() if beside is None else beside.file_sync
        self.allocation = self.data / "slurm" / name
        self.allocation.mkdir(parents=True)
        of_script = replace(HOST, host=ALLOCATION, base=f"slurm/{name}", output="slurm.log", end="")
        for host in (replace(HOST, base=self.base), of_script):
            self.file_sync.open(replace(host, launch_id=self.job.launch_id))

    def restarted(self) -> FileSyncServer:
        return FileSyncServer(self.data, self.data / "file_sync", self.world.sagelet.s3.objects)

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
        text = self.file_sync.ticket(self.job.launch_id, f"slurm/{self.root.name}", endpoint, key)
        ticket: dict[str, str] = json.loads(base64.b64decode(text))
        assert ticket["root"] == str(self.data)
        # This node is on the server's own machine, so its directory is at another path.
        return {**ticket, "root": str(self.node)}

    def launch(self) -> "subprocess.Popen[bytes]":
        shim = [sys.executable, "-c", SHIM, str(self.node / self.base)]
        program = [sys.executable, "-I", "-S", agent.__file__, "host", *shim]
        text = base64.b64encode(json.dumps(self.ticket()).encode()).decode()
        environment = {"PATH": os.environ["PATH"], "SLURM_NODEID": "0", agent.TICKET: text}
        return subprocess.Popen(program, env=environment, cwd=self.node, stderr=subprocess.PIPE)

    def begin(self) -> None:
        self.file_sync.send(self.job.launch_id, "algo-1", [f"{self.base}/opt-ml", f"{self.base}/run"])

    def tell(self, text: str) -> None:
        (self.root / "run/control").write_text(text)
        self.file_sync.send(self.job.launch_id, "algo-1", [f"{self.base}/run/control"])

    def state(self) -> Path:
        return self.data / "file_sync" / f"{self.job.launch_id}.algo-1.json"

    def text(self, name: str) -> str:
        path = self.root / name
        return path.read_text() if path.exists() else ""

    def collected(self, condition: Any) -> None:
        until(lambda: (self.file_sync.collect(), condition())[1])

    def agent(self) -> agent.FileSyncAgent:
        """Returns an agent in this process that has its inputs."""
        ticket = {name: value for name, value in self.ticket().items() if name not in ("root", "allocation")}
        made = agent.FileSyncAgent(
            Batches(Ticket(**{**ticket, "prefix": f"{ticket['prefix']}algo-1/"})), str(self.node), None
        )
        self.begin()
        made.receive()
        return made

    # --- what somebody with the job's credentials does ----------------------------------------------------------

    def client(self) -> Any:
        """Returns an S3 client with the keys of the job's containers."""
        key = session_key(self.world.engine.keys, self.job.id)
        return boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{self.world.port}",
            region_name=REGION,
            aws_access_key_id=key.access_key,
            aws_secret_access_key=key.secret,
            aws_session_token=key.token,
            config=Config(retries={"total_max_attempts": 1}),
        )

    @property
    def bucket(self) -> str:
        return staging_bucket(ACCOUNT)

    def key(self, name: str) -> str:
        """Returns the full key of a name such as `algo-1/up/00000001.tar` of this launch."""
        return f"{self.job.launch_id}/{name}"

    def put(self, name: str, content: bytes) -> None:
        self.client().put_object(Bucket=self.bucket, Key=self.key(name), Body=content)

    def post(self, number: int, *members: Made, host: str = "algo-1") -> None:
        """Sends a batch as the host, with any members."""
        self.put(f"{host}/up/{number:08d}.tar", packed(*members))

    def said(self) -> dict[str, Any]:
        """Returns the host's end as the server knows it."""
        return dict(json.loads(self.text("run/exit.json") or "{}"))
